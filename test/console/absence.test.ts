import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldCall, signedInAt, violations } from './support.ts'

/* A person names a deputy on their account’s page, and the deputy decides on the approval’s page. */

let home: PagesHome
let group: string
beforeAll(async () => {
  home = await startPages()
  const { users, organization_id: id } = home.server.identities
  const made = await home.call('owner', 'POST', `/organizations/${id}/groups`, {
    name: 'finance',
    members: [users.admin.user_id],
  })
  group = made.body.id
  await home.call('owner', 'POST', `/organizations/${id}/groups`, { name: 'legal' })
  await home.hold({
    name: 'pushes wait',
    tools: ['Bash'],
    approver: { group: 'finance' },
    escalate: [{ after_seconds: 600, to: { group: 'legal' } }],
  })
})
afterAll(() => home?.server.close())

const phone = { viewport: { width: 390, height: 844 } }
/** For a field of the form, in UTC. */
const inHours = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString().slice(0, 16)

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('a viewer decides for an admin who is away', async () => {
    const { users } = home.server.identities
    const id = await heldCall(home.server)
    const { page } = await signedInAt(home.server, 'admin', '/console/account', {
      ...phone,
      javaScriptEnabled,
    })
    const fill = async (deputy: string) => {
      await page.getByLabel('From (UTC)').fill(inHours(-1))
      await page.getByLabel('Until (UTC)').fill(inHours(24))
      await page.getByLabel('Your deputy’s mail address').fill(deputy)
      await page.locator('button[value=away]').click()
    }
    await fill('nobody@larkspur.example')
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Your deputy’s mail address').inputValue()).toBe('nobody@larkspur.example')
    await fill(users.viewer.email)
    await page.getByText('decides what you could decide').waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    const words = new RegExp(`Away until \\d+ .* UTC, ${users.viewer.email} decides`)
    for (const path of [`/console/groups/${group}`, '/console/people'])
      expect([path, plain(await home.main(path, 'owner')).match(words)?.length]).toEqual([path, 1])
    expect(plain(await home.main('/console/approvals', 'viewer'))).toMatch(
      new RegExp(`${users.admin.email} is away until .*, and has named you as deputy`),
    )

    const path = `/console/approvals/${id}`
    const { page: deputy } = await signedInAt(home.server, 'viewer', path, { ...phone, javaScriptEnabled })
    await deputy.getByText(`You decide for ${users.admin.email}`).waitFor()
    await deputy.getByText('is asked too').waitFor()
    if (javaScriptEnabled) expect(await violations(deputy)).toEqual([])
    expect(await deputy.getByRole('link', { name: 'Approvals', exact: true }).count()).toBeGreaterThan(0)
    await deputy.getByRole('button', { name: 'Approve', exact: true }).click()
    await deputy.getByText(`for ${users.admin.email}`).waitFor()

    await page.getByRole('button', { name: 'End it' }).click()
    await page.getByText('Say when you are away').waitFor()
  })
})

test('the form and the pages have the zone of the reader', async () => {
  const { users, organization_id: id } = home.server.identities
  const zone = 'Pacific/Auckland'
  const saved = await home.call('member', 'PUT', `/me/notifications?organization_id=${id}`, {
    ...{ mail: true, delay_seconds: 600, time_zone: zone },
  })
  expect(saved.status).toBe(200)
  const path = '/console/account'
  const sent = async (from: string, until: string) =>
    home.post(
      path,
      {
        ...{ token: await home.tokenOf(path, 'member'), action: 'away', organization_id: id },
        ...{ from, until, deputy: users.approver.email },
      },
      {},
      await home.cookieOf('member'),
    )
  const year = new Date().getUTCFullYear() + 1
  expect((await sent(`${year}-06-01T09:00`, `${year}-06-10T18:30`)).status).toBe(303)
  const { absence } = (await home.call('member', 'GET', '/me/absence')).body
  // The winter there is twelve hours ahead of UTC.
  expect([absence.from, absence.until]).toEqual([
    `${year}-05-31T21:00:00.000Z`,
    `${year}-06-10T06:30:00.000Z`,
  ])
  const page = await home.html(path, 'member')
  expect(page).toContain(`data-zone="${zone}"`)
  expect(page).toContain(`value="${year}-06-01T09:00"`)
  expect(plain(page)).toContain(`From (${zone})`)
  expect(plain(page)).toContain(`1 Jun ${year}, 09:00 ${zone}`)
  const refused = await (await sent(`${year}-06-10T09:00`, `${year}-06-01T18:30`)).text()
  expect(plain(refused)).toContain('Nothing was saved. Change this:Until: Must be after “From”.')
  expect(refused).toContain(`value="${year}-06-10T09:00"`)
})
