import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations, type Who } from './support.ts'

/* `/console/tools`, and the page of each tool with its policies. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/tools/github_create_issue'
const organization = () => `/organizations/${home.server.identities.organization_id}`
const phone = { viewport: { width: 390, height: 844 } }
const policies = async (tool = 'github_create_issue') =>
  (await home.call('admin', 'GET', `${organization()}/tool-policies?tool_name=${tool}`)).body.data
const save = (body: object) => home.call('owner', 'POST', `${organization()}/tool-policies`, body)
const remove = (tool: string, role = '') =>
  home.call('owner', 'DELETE', `${organization()}/tool-policies/${tool}${role === '' ? '' : `?role=${role}`}`)
const send = async (who: Who, at: string, fields: Record<string, string>) =>
  home.post(
    at,
    { token: await home.tokenOf('/console/account', who), ...fields },
    {},
    await home.cookieOf(who),
  )

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an owner limits a tool, changes the policy, blocks it, and takes the policy away', async () => {
    const { page } = await signedInAt(home.server, 'owner', path, { ...phone, javaScriptEnabled })
    const button = page.getByRole('button', { name: 'Save the policy' })
    await button.click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toContain(
      'What it does: Set at least one limit below',
    )

    await page.getByLabel('For whom').selectOption('member')
    await page.getByLabel('Repositories').fill('acme/app\nnot a repository')
    await page.getByLabel('Characters in a message').fill('2,000')
    await button.click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toMatch(
      /^Nothing was saved. Change this:Repositories: .*write owner\/name/,
    )
    expect(await page.getByLabel('Repositories').inputValue()).toBe('acme/app\nnot a repository')
    expect(await page.getByLabel('For whom').inputValue()).toBe('member')
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByLabel('Repositories').fill('acme/app')
    await button.click()
    await page.getByText('The policy is saved').waitFor()
    const limits = { allowed_repos: ['acme/app'], max_message_length: 2_000 }
    expect(await policies()).toMatchObject([{ role: 'member', allowed: null, restrictions: limits }])
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])

    await page.getByRole('link', { name: 'Change the policy for: Members' }).click()
    expect(await page.getByLabel('Repositories').inputValue()).toBe('acme/app')
    await page.getByLabel('What it does').selectOption('block')
    await button.click()
    await page.getByText('The policy is saved').waitFor()
    expect(await policies()).toMatchObject([{ role: 'member', allowed: false, restrictions: limits }])
    const row = page.getByRole('table', { name: 'What holds together' }).getByRole('row', { name: 'Members' })
    expect(await row.textContent()).toContain('A tool policy of role member blocks github_create_issue.')

    await page.locator('summary', { hasText: 'Remove …' }).click()
    await page.getByRole('button', { name: 'Remove the policy for: Members' }).click()
    await page.getByText('The policy is removed').waitFor()
    expect(await policies()).toEqual([])
  })
})

test('what holds together is the sum of the organization, the role and the group', async () => {
  await save({
    tool_name: 'github_create_issue',
    restrictions: { allowed_repos: ['acme/app', 'labs/*'], max_message_length: 5_000 },
  })
  await save({
    tool_name: 'github_create_issue',
    role: 'member',
    restrictions: { allowed_repos: ['acme/app'], max_message_length: 2_000 },
  })
  await home.call('owner', 'POST', `${organization()}/groups`, { name: 'finance' })
  await save({ tool_name: 'github_create_issue', role: 'finance', allowed: false })
  const table = (await home.main(path, 'admin')).split('What holds together')[1]?.split('</table>')[0] ?? ''
  const [, , members, admins, , finance] = table.split('<tr>').map(plain)
  expect(members).toMatch(
    /Members.?Yes.*repositories acme\/app and labs\/\*.*repositories acme\/app(?! and).*at most 2,000 char/,
  )
  expect(admins).toMatch(/Admins.?Yes.*acme\/app and labs\/\*.*at most 5,000 characters/)
  expect(finance).toMatch(/Members in the group finance.*No.*group finance blocks/)

  await home.settings({ default_tool_access: 'deny' })
  const denied = plain(await home.main(path, 'admin'))
  expect(denied).toContain('none allows github_create_issue')
  const override = { tool_name: 'github_create_issue', role: 'admin', allowed: true }
  await home.call('owner', 'POST', `${organization()}/role-policy-overrides`, override)
  expect(plain(await home.main(path, 'admin'))).toMatch(/Admins.?Yes/)
  const ofBash = await home.call('admin', 'GET', `${organization()}/role-policy-overrides?tool_name=Bash`)
  expect(ofBash.body.data).toEqual([])
  const removed = await send('owner', path, { action: 'remove-override', of: 'admin' })
  expect(removed.headers.get('location')).toBe(`${path}?done=remove-override`)
  await home.settings({ default_tool_access: 'allow' })
  for (const role of ['', 'member', 'finance']) await remove('github_create_issue', role)
})

test('a policy on Bash also shows on other tools that run commands, and nobody else’s page', async () => {
  await save({ tool_name: 'Bash', allowed: false })
  const page = async (tool: string) => plain(await home.main(`/console/tools/${tool}`, 'admin'))
  expect(await policies()).toEqual([])
  expect(await page('PowerShell')).toContain('PowerShell runs commands of a shell too')
  expect(await page('Read')).not.toContain('A tool policy')
  expect(plain(await home.main('/console/tools', 'admin'))).toMatch(/Bash\s*Blocked/)
  const found = await home.get('/console/tools?tool=mcp__board__move', await home.cookieOf('admin'))
  expect(found.headers.get('location')).toBe('/console/tools/mcp__board__move')
  const unknown = await home.get('/console/tools/no_such_tool', await home.cookieOf('admin'))
  expect(unknown.status).toBe(404)
  await remove('Bash')
})

inBrowser('a member tries a call, and reads the verdict and why; nothing is called', async () => {
  const rule = await home.hold({ name: 'Issues wait', tools: ['github_*'] })
  await save({ tool_name: 'github_create_issue', restrictions: { allowed_repos: ['acme/app'] } })
  const { page } = await signedInAt(home.server, 'member', path, phone)
  const runs = async () => (await home.call('owner', 'GET', '/runs')).body.data.length
  const before = await runs()
  await page.getByLabel('Labels (optional)').fill('not json')
  await page.getByLabel('Repo', { exact: true }).fill('acme/app')
  await page.getByLabel('Title', { exact: true }).fill('Broken')
  await page.getByRole('button', { name: 'Ask what would be decided' }).click()
  await page.getByRole('alert').waitFor()
  expect(await page.getByLabel('Title', { exact: true }).inputValue()).toBe('Broken')
  await page.getByLabel('Labels (optional)').fill('')
  await page.getByRole('button', { name: 'Ask what would be decided' }).click()
  const tried = page.getByRole('status')
  await tried.getByText('Held for a person').waitFor()
  expect(await violations(page)).toEqual([])
  expect(await tried.getByRole('link', { name: 'Issues wait' }).getAttribute('href')).toBe(
    `/console/rules/${rule.body.id}`,
  )
  await page.getByLabel('Repo', { exact: true }).fill('evil/app')
  await page.getByRole('button', { name: 'Ask what would be decided' }).click()
  await tried.getByText('Denied').waitFor()
  expect(await tried.textContent()).toContain('only the repositories acme/app')
  expect(await runs()).toBe(before)
  expect(await page.getByRole('link', { name: 'Issues wait' }).count()).toBe(2)
  await remove('github_create_issue')
})

test('a change that waits for a second person leads to its approval, and the page names it', async () => {
  const { users } = home.server.identities
  const setRole = (role: string) =>
    home.call('owner', 'PATCH', `${organization()}/members/${users.admin.user_id}`, { role })
  await save({ tool_name: 'github_create_issue', allowed: false })
  await setRole('owner')
  await home.settings({ loosening: 'second_person' })
  const sent = await send('owner', path, { action: 'remove-policy', of: '' })
  const approval = sent.headers.get('location') ?? ''
  expect(approval).toMatch(/^\/console\/approvals\/apr_/)
  expect(await home.main(path, 'owner')).toContain(`href="${approval}"`)
  expect(await home.main('/console/tools/github_get_file', 'owner')).not.toContain(approval)
  const free = await home.call('owner', 'PATCH', `${organization()}/governance`, { loosening: 'free' })
  for (const id of [approval.split('/').at(-1), free.body.change.id])
    await home.call('admin', 'POST', `/approvals/${id}/approve`, {})
  expect(await policies()).toEqual([])
  await setRole('admin')
})

test('who may see and change what', async () => {
  await save({ tool_name: 'github_create_issue', allowed: false })
  const viewer = await home.main(path, 'viewer')
  expect([viewer.includes('<form'), plain(viewer).includes('Admins see who may call it')]).toEqual([
    false,
    true,
  ])
  expect(plain(await home.main('/console/tools', 'viewer'))).not.toMatch(/Blocked|Policies\s*$/)
  const admin = await home.main(path, 'admin')
  expect([plain(admin).includes('An owner changes policies'), admin.includes('Save the policy')]).toEqual([
    true,
    false,
  ])
  const refused = await send('admin', path, { action: 'remove-policy', of: '' })
  expect([refused.status, (await policies()).length]).toEqual([403, 1])
  await remove('github_create_issue')
})
