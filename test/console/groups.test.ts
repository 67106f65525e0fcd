import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldCall, signedInAt, violations } from './support.ts'

/* `/console/groups`, and the approval of a group on its page. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/groups'
const phone = { viewport: { width: 390, height: 844 } }
const organization = () => `/organizations/${home.server.identities.organization_id}`
const groups = async () => (await home.call('owner', 'GET', `${organization()}/groups`)).body.data
const emailOf = (who: 'viewer' | 'member' | 'approver') => home.server.identities.users[who].email

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an owner makes a group, adds and takes out a person, and deletes it', async () => {
    const { page } = await signedInAt(home.server, 'owner', path, { ...phone, javaScriptEnabled })
    await page.getByLabel('Name').fill('Finance')
    await page.getByLabel('Members').fill(emailOf('viewer'))
    await page.getByRole('button', { name: 'Make the group' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Name').getAttribute('aria-invalid')).toBe('true')
    const refused = (await page.getByRole('alert').textContent()) ?? ''
    expect(refused).toMatch(/^Nothing was saved. Change this:Name: /)
    await page.getByRole('alert').getByRole('link', { name: 'Name' }).click()
    expect(await page.getByLabel('Members').inputValue()).toBe(emailOf('viewer'))
    await page.getByLabel('Name').fill('finance')
    await page.getByRole('button', { name: 'Make the group' }).click()
    await page.getByRole('heading', { level: 1, name: 'finance' }).waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])

    await page.getByLabel('Address').fill('nobody@larkspur.example')
    await page.getByRole('button', { name: 'Add to the group' }).click()
    await page.getByRole('alert').waitFor()
    await page.getByLabel('Address').fill(emailOf('member'))
    await page.getByRole('button', { name: 'Add to the group' }).click()
    await page.getByText('The person is in the group').waitFor()
    await page.getByRole('button', { name: `Take out ${emailOf('viewer')}` }).click()
    await page.getByText('The person is not in the group any more').waitFor()
    expect(await page.getByRole('row', { name: emailOf('viewer') }).count()).toBe(0)
    expect(await page.getByRole('row', { name: emailOf('member') }).count()).toBe(1)

    await page.locator('summary', { hasText: 'Delete the group' }).click()
    await page.getByRole('button', { name: 'Delete the group finance' }).click()
    await page.getByText('The group is deleted').waitFor()
    expect(await groups()).toEqual([])
  })
})

test('an admin sees a group, and changes nothing', async () => {
  const made = await home.call('owner', 'POST', `${organization()}/groups`, { name: 'seen' })
  const one = `${path}/${made.body.id}`
  const text = await home.html(one, 'admin')
  expect([text.includes('An owner makes and changes groups'), text.includes('Delete the group')]).toEqual([
    true,
    false,
  ])
  const token = await home.tokenOf('/console/account', 'admin')
  const refused = await home.post(one, { token, action: 'delete' }, {}, await home.cookieOf('admin'))
  expect([refused.status, (await groups()).length]).toEqual([403, 1])
  await home.call('owner', 'DELETE', `${organization()}/groups/${made.body.id}`)
})

inBrowser(
  'a viewer in a group finds the approval in the menu, reads who is missing, and approves',
  async () => {
    for (const [name, who] of [
      ['finance', 'viewer'],
      ['legal', 'approver'],
    ] as const)
      // prettier-ignore
      await home.call('owner', 'POST', `${organization()}/groups`, { name, members: [emailOf(who)] })
    await home.hold({
      name: 'pushes wait',
      tools: ['Bash'],
      approvers: [
        { group: 'finance', count: 1 },
        { group: 'legal', count: 1 },
      ],
    })
    const id = await heldCall(home.server)
    const { page } = await signedInAt(home.server, 'viewer', '/console/runs', phone)
    await page.goto(`${home.server.base}/console/`)
    await page.getByRole('navigation', { name: 'Daily' }).getByRole('link', { name: 'Approvals' }).waitFor()
    await page.locator(`section[aria-labelledby=waiting] a[href$="${id}"]`).click()
    await page.getByText('1 member of finance').waitFor()
    expect(await page.locator('main').textContent()).toMatch(/1 member of finance.*nobody so far/s)
    expect(await violations(page)).toEqual([])
    await page.getByRole('button', { name: 'Approve', exact: true }).click()
    await page.getByText('You cannot decide this').waitFor()
    expect(await page.locator('main').textContent()).toMatch(
      /1 member of finance.{0,5}: done.*1 member of legal.{0,5}: nobody so far/s,
    )
  },
)

test('a group without members that a rule needs is marked, and so is the rule', async () => {
  const { body: group } = await home.call('owner', 'POST', `${organization()}/groups`, { name: 'nobody' })
  const { body: rule } = await home.hold({
    name: 'needs it',
    tools: ['mail_send'],
    approver: { group: 'nobody' },
  })
  const marked = async (page: string, row: string, who?: 'member'): Promise<boolean> => {
    const rows = (await home.main(page, who)).split('<tr>')
    return rows.find((each) => each.includes(row))?.includes('Nobody can approve') === true
  }
  const both = async () => [await marked(path, '>nobody<'), await marked('/console/rules', '>needs it<')]
  expect(await both()).toEqual([true, true])
  expect(plain(await home.main(`/console/rules/${rule.id}`))).toContain(
    'Nobody can approve Too few people are in nobody: an owner adds members.',
  )
  // A member may not see groups.
  expect(await marked('/console/rules', '>needs it<', 'member')).toBe(false)
  const later = { escalate: [{ after_seconds: 600, to: 'owner' }], expires_after_seconds: 3_600 }
  await home.call('admin', 'PATCH', `${organization()}/rules/${rule.id}`, later)
  expect(await both()).toEqual([false, false])
  await home.call('admin', 'PATCH', `${organization()}/rules/${rule.id}`, { escalate: null })
  await home.call('owner', 'PUT', `${organization()}/groups/${group.id}/members/${emailOf('viewer')}`)
  expect(await both()).toEqual([false, false])
})
