import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations } from './support.ts'

/* Pages of what comes from files of a repository. */

let home: PagesHome
const repository = 'https://github.com/acme/rules'
const files = [
  { kind: 'group', path: 'groups/finance.yaml', name: 'finance', members: ['viewer@countersign.test'] },
  {
    kind: 'rule',
    path: 'rules/mail.yaml',
    name: 'Mails wait',
    verdict: 'require_approval',
    tools: ['mail_send'],
    approver: { group: 'finance' },
  },
  {
    kind: 'workflow',
    path: 'workflows/report.yaml',
    slug: 'report',
    name: 'Report',
    definition: { steps: [{ id: 'get', tool: 'memory_get', params: { key: 'k' } }] },
  },
]
const organization = () => `/organizations/${home.server.identities.organization_id}`
const apply = (from: string, objects: readonly object[] = files) =>
  home.call('owner', 'POST', `${organization()}/apply`, {
    objects,
    repository: from,
    commit: 'f00dfeed1234567',
  })
beforeAll(async () => {
  home = await startPages()
  expect((await apply(repository)).status).toBe(200)
})
afterAll(() => home?.server.close())

const idOf = async (list: string): Promise<string> =>
  (await home.call('owner', 'GET', `${organization()}/${list}`)).body.data[0].id

inBrowser('a rule from a file is read-only, names its file, and is released', async () => {
  const { page } = await signedInAt(home.server, 'owner', '/console/rules', {
    viewport: { width: 390, height: 844 },
  })
  await page.getByText('from a file').waitFor()
  await page.getByRole('link', { name: 'Mails wait' }).click()
  await page.getByRole('heading', { name: 'It comes from a file' }).waitFor()
  expect(await page.getByRole('link', { name: 'acme/rules' }).getAttribute('href')).toBe(repository)
  expect(await page.getByText('commit f00dfeed1234').count()).toBe(1)
  expect(await page.getByRole('button', { name: 'Save the rule' }).count()).toBe(0)
  expect(await page.getByRole('button', { name: /^Restore/ }).count()).toBe(0)
  expect(await violations(page)).toEqual([])
  await page.locator('summary', { hasText: 'Change it here instead' }).click()
  await page.getByRole('button', { name: 'Change it here from now on' }).click()
  await page.getByText('It no longer comes from a file').waitFor()
  await page.getByRole('button', { name: 'Save the rule' }).waitFor()
  await apply(repository)
})

inBrowser('so is a group, whose members come from the file', async () => {
  const { page } = await signedInAt(home.server, 'owner', `/console/groups/${await idOf('groups')}`)
  await page.getByRole('heading', { name: 'It comes from a file' }).waitFor()
  expect(await page.getByRole('button', { name: /^Take out|^Add to/ }).count()).toBe(0)
  expect(await page.locator('summary', { hasText: 'Delete the group' }).count()).toBe(0)
  expect(await violations(page)).toEqual([])
  await page.locator('summary', { hasText: 'Change it here instead' }).click()
  await page.getByRole('button', { name: 'Change it here from now on' }).click()
  await page.getByRole('button', { name: 'Add to the group' }).waitFor()
  await apply(repository)
})

test('pages offer no setting that a file decides', async () => {
  const { pool } = home.server.context
  await pool.query(
    `insert into sign_in_providers (organization_id, issuer, client_id, client_secret_sealed, secret_version, role_map, group_map, checks_factor, created_at, updated_at)
     values ($1, 'https://login.acme.example', 'c', '', 'v', '{}', '{}', false, now(), now())`,
    [home.server.identities.organization_id],
  )
  const forms = async () => [
    (await home.html('/console/rules', 'owner')).includes('approvals-on'),
    (await home.html('/console/provider', 'owner')).includes('value="require"'),
  ]
  expect((await home.settings({ approvals_enabled: false })).status).toBe(200)
  expect(await forms()).toEqual([true, true])
  const settings = { kind: 'organization', path: 'countersign.yaml', approvals_enabled: false }
  expect((await apply(repository, [...files, settings])).status).toBe(200)
  expect(await forms()).toEqual([false, false])
  for (const page of ['/console/rules', '/console/provider'])
    expect(plain(await home.main(page, 'owner'))).toContain(
      'The settings come from countersign.yaml in acme/rules. Change them there.',
    )
})

test('lists name the file, and only an https address becomes a link', async () => {
  const link = `<a href="${repository}" rel="noreferrer">`
  expect(await home.html('/console/workflows', 'owner')).toContain(link)
  expect(await home.html('/console/groups', 'admin')).toContain(link)
  expect(await home.html(`/console/rules/${await idOf('rules')}`, 'member')).not.toContain(
    'Change it here instead',
  )
  const name = 'javascript:alert(1)'
  await apply(name, [{ kind: 'rule', name: 'Other', verdict: 'deny', tools: ['mail_send'] }])
  const rules = (await home.call('owner', 'GET', `${organization()}/rules`)).body.data
  const page = await home.html(`/console/rules/${rules[0].id}`, 'owner')
  expect([page.includes(name), page.includes(`href="${name}`)]).toEqual([true, false])
})
