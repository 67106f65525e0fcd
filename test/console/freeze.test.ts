import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { newId } from '../../src/contract/ids.ts'
import { aWebhookTrigger, heldCall, signedInAt, startRun, violations } from './support.ts'

/* `/console/freeze`, and the banner of a freeze on every page. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/freeze'
const organization = () => `/organizations/${home.server.identities.organization_id}`
const phone = { viewport: { width: 390, height: 844 } }
const read = async () => (await home.call('viewer', 'GET', `${organization()}/freeze`)).body
const thaw = () => home.call('owner', 'POST', `${organization()}/unfreeze`, { reason: 'over' })

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an owner freezes everything with a typed word, and lets it go on', async () => {
    const { page } = await signedInAt(home.server, 'owner', path, { ...phone, javaScriptEnabled })
    await page.getByLabel('Why').fill('An agent deletes files')
    await page.getByLabel('Type freeze').fill('no')
    await page.getByRole('button', { name: 'Freeze everything now' }).click()
    const told = page.getByRole('alert')
    expect(await told.textContent()).toBe(
      'Nothing has changed. Correct this:Confirmation: Type the word freeze. ',
    )
    expect([await page.getByLabel('Why').inputValue(), (await read()).frozen]).toEqual([
      'An agent deletes files',
      false,
    ])
    await page.getByLabel('Type freeze').fill(' Freeze')
    await page.getByRole('button', { name: 'Freeze everything now' }).click()
    await page.getByText('Everything is frozen. It holds').waitFor()
    expect(await read()).toMatchObject({ frozen: true, reason: 'An agent deletes files' })
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])

    await page.goto(`${home.server.base}/console/runs`)
    const banner = page.getByRole('complementary', { name: 'Freeze' })
    expect(await banner.textContent()).toContain('every call is denied until an owner unfreezes')
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await banner.getByRole('link').click()
    await page.getByLabel('Why').fill('The agent is gone')
    await page.getByLabel('Type unfreeze').fill('unfreeze')
    await page.getByRole('button', { name: 'Unfreeze' }).click()
    await page.getByText('The freeze has ended. The rules decide again').waitFor()
    expect((await read()).frozen).toBe(false)
    await page.goto(`${home.server.base}/console/runs`)
    expect(await page.getByRole('complementary', { name: 'Freeze' }).count()).toBe(0)
  })
})

test('a viewer reads who froze it, why and what waits, and cannot end it', async () => {
  const before = await read()
  const held = await heldCall(home.server)
  await home.call('owner', 'POST', `${organization()}/freeze`, { reason: 'We look <b>first</b>' })
  const owner = home.server.identities.users.owner.email
  expect(await read()).toEqual({
    frozen: true,
    reason: 'We look <b>first</b>',
    changed: { at: expect.any(String), by: owner, reason: 'We look <b>first</b>' },
    waiting: { approvals: before.waiting.approvals + 1, trigger_starts: 0, rerun_starts: 0 },
  })
  const main = await home.main(path, 'viewer')
  const text = plain(main)
  for (const said of [owner, 'We look &lt;b>first&lt;/b>', '1 approval waits', 'Ask one.'])
    expect(text).toContain(said)
  expect(main).not.toContain('<form')
  const banner = plain((await home.html('/console/keys', 'viewer')).split('<main')[0])
  expect(banner).toContain('We look &lt;b>first&lt;/b>')

  const token = await home.tokenOf('/console/account', 'admin')
  const fields = { token, action: 'unfreeze', word: 'unfreeze', reason: 'I want to' }
  const refused = await home.post(path, fields, {}, await home.cookieOf('admin'))
  expect([refused.status, (await read()).frozen]).toEqual([403, true])
  await thaw()
  const ended = plain(await home.main(path, 'viewer'))
  for (const said of ['The last freeze has ended', owner, 'over']) expect(ended).toContain(said)
  await home.call('admin', 'POST', `/approvals/${held}/reject`, { comment: 'No' })
})

test('it counts the starts of triggers and of requests to run again that wait', async () => {
  const { context, identities } = home.server
  const { body: trigger } = await aWebhookTrigger(home.server)
  const firing = { id: newId('firing'), organization_id: identities.organization_id, trigger_id: trigger.id }
  const waiting = { ...firing, state: 'waiting' as const, created_at: new Date() }
  await context.db.insertInto('trigger_firings').values(waiting).execute()
  const ended = await startRun(home.server)
  await home.call('member', 'POST', `/runs/${ended}/cancel`, {})
  await home.call('member', 'POST', '/runs/rerun', { filter: { run_ids: [ended] } })
  await home.call('owner', 'POST', `${organization()}/freeze`, { reason: 'We look first' })
  expect((await read()).waiting).toMatchObject({ trigger_starts: 1, rerun_starts: 1 })
  const main = await home.main(path)
  expect(plain(main)).toMatch(/1 start of a trigger has not begun yet.*1 run to be made again waits/)
  for (const place of ['triggers', 'reruns']) expect(main).toContain(`href="/console/${place}"`)
  await thaw()
})
