import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldCall, signedInAt, violations } from './support.ts'

/* `/console/notifications`: who was told what. */

let home: PagesHome
let held: string
beforeAll(async () => {
  home = await startPages()
  expect(plain(await home.main(path, 'admin'))).toContain('Nobody was told anything yet.')
  held = await heldCall(home.server)
  await add({ recipient: id('approver'), channel: 'mail', state: 'sent', sent_at: new Date() })
  await add({
    recipient: id('member'),
    channel: 'mail',
    state: 'failed',
    last_error: 'mail_recipients_refused',
  })
  await add({ recipient: id('member'), channel: 'slack', state: 'failed', last_error: 'slack_odd' })
  await add({ recipient: id('owner'), channel: 'slack', state: 'pending', kind: 'run', subject: 'run_01M82XC49JT4FSC3EKQ16VJJDN' }) // prettier-ignore
  await aDelivery('https://hooks.example.com/token')
})
afterAll(() => home?.server.close())

const path = '/console/notifications'
const id = (who: 'owner' | 'member' | 'approver') => home.server.identities.users[who].user_id

const add = (row: object) => {
  const own = newId('notification')
  const { organization_id } = home.server.identities
  const about = { event: 'approval.created', kind: 'approval', subject: held }
  const values = { id: own, message_id: own, organization_id, ...about, attempts: 1, ...row }
  return home.server.context.db
    .insertInto('notifications')
    .values(values as never)
    .execute()
}

async function aDelivery(url: string): Promise<void> {
  const { organization_id } = home.server.identities
  const { db } = home.server.context
  const webhook = await home.call('owner', 'POST', `/organizations/${organization_id}/webhooks`, {
    url,
    events: ['approval.created'],
  })
  const [event, now] = [newId('message'), new Date()]
  const own = { organization_id, created_at: now }
  const data = JSON.stringify({ approval_id: held })
  const message = {
    ...own,
    id: event,
    type: 'approval.created' as const,
    data,
    webhook_ids: [],
    message: '{}',
  }
  await db.insertInto('webhook_events').values(message).execute()
  const delivery = {
    ...own,
    id: newId('delivery'),
    webhook_id: webhook.body.id,
    event_id: event,
    give_up_at: now,
  }
  const failed = {
    state: 'failed' as const,
    ended_at: now,
    next_attempt_at: null,
    last_error: 'the answer was 500',
  }
  await db
    .insertInto('webhook_deliveries')
    .values({ ...delivery, ...failed })
    .execute()
}

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an admin finds what did not reach a person, with the cause and whom to ask', async () => {
    const phone = { viewport: { width: 390, height: 844 } }
    const { page } = await signedInAt(home.server, 'admin', path, { ...phone, javaScriptEnabled })
    expect(await page.getByRole('row').count()).toBe(6)
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByRole('link', { name: 'What did not arrive' }).click()
    await page.getByText('Ask the person whether the address is right.').waitFor()
    expect(await page.getByRole('row').count()).toBe(4)
    await page
      .getByLabel('Address of the person')
      .fill(home.server.identities.users.member.email.toUpperCase())
    await page.getByLabel('Way').selectOption('Slack')
    await page.getByRole('button', { name: 'Show' }).click()
    await page.getByText('slack_odd').waitFor()
    expect(await page.getByRole('row').count()).toBe(2)
    await page.getByRole('link', { name: 'the approval' }).click()
    await page.waitForURL(`**/approvals/${held}`)
  })
})

test('the approval says to an admin whom no message has reached, and leads to the list', async () => {
  const page = await home.main(`/console/approvals/${held}`, 'admin')
  const { email } = home.server.identities.users.member
  expect(plain(page)).toContain(`${email} by mailThe mail server refuses the address.`)
  expect(plain(page)).toContain(`${email} in Slackslack_odd.`)
  expect(page).toContain(`href="${path}?approval_id=${held}"`)
  expect(plain(await home.main(`/console/approvals/${held}`, 'member'))).not.toContain('Who was not reached')
})

test('each leads to its approval, run or webhook, and to the person’s other messages', async () => {
  const main = await home.main(path, 'admin')
  for (const place of [`/console/approvals/${held}`, '/console/runs/run_01M82XC49JT4FSC3EKQ16VJJDN'])
    expect(main).toContain(`href="${place}"`)
  expect(main).toMatch(/href="\/console\/webhooks\/whk_\w+"><bdi class="words">hooks\.example\.com/)
  expect(main).not.toContain('token"')
  expect(plain(await home.main(`${path}?recipient=${id('owner')}`, 'admin'))).toContain('Waits')
  const none = plain(await home.main(`${path}?recipient=nobody%40example.com`, 'admin'))
  expect(none).toContain('No message is like this.')
  const only = async (query: string) =>
    (await home.call('admin', 'GET', `/organizations/${home.server.identities.organization_id}/notifications?${query}`)).body.data // prettier-ignore
  expect((await only(`recipient=${id('member')}`)).map((each: { channel: string }) => each.channel)).toEqual([
    'slack',
    'mail',
  ])
  expect(await only(`recipient=${id('member')}&channel=webhook`)).toEqual([])
  expect((await home.get(path, await home.cookieOf('member'))).status).toBe(403)
})
