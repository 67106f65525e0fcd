import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { settingTitles } from '../../src/console/parts/setting-words.ts'
import { limitNames } from '../../src/contract/plan-limits.ts'
import { governanceSettings } from '../../src/policy/settings.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/settings`: settings, classes of agents' tools, and limits. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/settings'
const organization = () => `/organizations/${home.server.identities.organization_id}`
const phone = { viewport: { width: 390, height: 844 } }
const settings = async () => (await home.call('admin', 'GET', `${organization()}/governance`)).body
const overrides = async () => (await home.call('admin', 'GET', `${organization()}/quota`)).body.overrides
/** What the form of this setting, or of the limits, was made from. */
async function seenOf({ setting, action }: Record<string, string>): Promise<string> {
  if (action !== 'limits') return JSON.stringify((await settings())[setting ?? ''] ?? null)
  return JSON.stringify((await home.call('owner', 'GET', `${organization()}/quota`)).body.overrides)
}
const send = async (who: 'owner' | 'admin', fields: Record<string, string>) =>
  home.post(
    path,
    { token: await home.tokenOf('/console/account', who), seen: await seenOf(fields), ...fields },
    {},
    await home.cookieOf(who),
  )

test('every setting and every limit stands on the page', async () => {
  const own = Object.keys(governanceSettings.shape).filter((name) => name !== 'external_tools')
  expect(Object.keys(settingTitles).toSorted()).toEqual(own.toSorted())
  const main = await home.main(path, 'owner')
  for (const name of [...own, 'external_tools']) expect(main).toContain(`id="setting-${name}"`)
  for (const name of limitNames) expect(main).toContain(`name="${name}"`)
})

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an owner changes a setting, a list, a class and a limit', async () => {
    const { page } = await signedInAt(home.server, 'owner', path, { ...phone, javaScriptEnabled })
    const setting = (title: string) => page.getByRole('region', { name: title, exact: true })
    const open = (title: string) => setting(title).locator('summary').click()
    const note = (title: string) => setting(title).getByRole('status')

    await open('Values of runs')
    await setting('Values of runs').getByLabel('Everybody').check()
    await page.getByRole('button', { name: 'Save Values of runs' }).click()
    await note('Values of runs').waitFor()
    expect((await settings()).run_values).toBe('everyone')
    expect(await setting('Values of runs').textContent()).toContain('sees the values of every run')

    await open('By category')
    await page.getByRole('textbox', { name: 'By category' }).fill('financial, Not a slug!')
    await page.getByRole('button', { name: 'Save By category' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toMatch(
      /^Nothing was saved. Change this:By category: /,
    )
    const typed = page.getByRole('textbox', { name: 'By category' })
    expect(await typed.inputValue()).toBe('financial, Not a slug!')
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await typed.fill('financial\npii')
    await page.getByRole('button', { name: 'Save By category' }).click()
    await note('By category').waitFor()
    expect((await settings()).category_flags).toEqual({ financial: true, pii: true })

    const classes = 'Classes of agents’ tools'
    await open(classes)
    await setting(classes).getByLabel('Tool', { exact: true }).fill('mcp__board__get_*')
    await setting(classes).getByLabel('What it does').selectOption('read')
    await setting(classes).getByLabel('Labels of what it returns').fill('internal')
    await page.getByRole('button', { name: 'Class the tool' }).click()
    await note(classes).waitFor()
    expect((await settings()).external_tools).toEqual({
      'mcp__board__get_*': { side_effect: 'read', output_labels: ['internal'] },
    })
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByRole('button', { name: 'Remove mcp__board__get_*' }).click()
    await note(classes).waitFor()
    expect((await settings()).external_tools).toEqual({})

    const before = await overrides()
    await page.getByLabel('Rules: set here instead').fill('many')
    await page.getByRole('button', { name: 'Save the limits' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Rules: set here instead').inputValue()).toBe('many')
    expect(await overrides()).toEqual(before)
    await page.getByLabel('Rules: set here instead').fill('3,000')
    await page.getByRole('button', { name: 'Save the limits' }).click()
    await page.getByText('The limits are saved').waitFor()
    expect(await overrides()).toEqual({ ...before, rules: 3_000 })
    await page.getByLabel('Rules: set here instead').fill('')
    await page.getByRole('button', { name: 'Save the limits' }).click()
    await page.getByText('The limits are saved').waitFor()
    expect(await overrides()).toEqual(before)
    await home.settings({ category_flags: {}, run_values: 'participants' })
  })
})

test('a change that the API refuses says why, and keeps what was chosen', async () => {
  const refused = await send('owner', { setting: 'require_sso', action: 'save', require_sso: 'true' })
  const text = await refused.text()
  expect([refused.status, plain(text)]).toEqual([
    409,
    expect.stringContaining('Sign in once with the provider first'),
  ])
  const card = text.split('id="setting-require_sso"')[1]?.split('</section>')[0]
  expect(card).toContain('<details open')
  expect(card).toMatch(/value="true" checked/)
})

test('it says what a change would do first', async () => {
  await home.held()
  const text = plain(await home.main(path, 'owner'))
  expect(text).toContain('Now 1 approval waits')
  expect(text).toMatch(/Of the 5 people, 5 have no second factor/)
  expect(text).toMatch(/There is 1 owner now/)
})

test('a change that waits for a second person leads to its approval, and the page names it', async () => {
  const { users } = home.server.identities
  const change = (role: string) =>
    home.call('owner', 'PATCH', `${organization()}/members/${users.admin.user_id}`, { role })
  await change('owner')
  await home.settings({ loosening: 'second_person' })
  const sent = await send('owner', { setting: 'run_values', action: 'save', run_values: 'everyone' })
  const approval = sent.headers.get('location') ?? ''
  expect([sent.status, approval]).toEqual([303, expect.stringMatching(/^\/console\/approvals\/apr_/)])
  expect(await home.main(path, 'owner')).toContain(`href="${approval}"`)
  await home.call('owner', 'POST', `${approval.replace('/console', '')}/withdraw`, {})
  const free = await home.call('owner', 'PATCH', `${organization()}/governance`, { loosening: 'free' })
  await home.call('admin', 'POST', `/approvals/${free.body.change.id}/approve`, {})
  await change('admin')
  expect((await settings()).loosening).toBe('free')
})

test('settings from a file have no form, until an owner takes them back', async () => {
  const object = { kind: 'organization', path: 'countersign.yaml', approval_threshold: 2 }
  const applied = await home.call('owner', 'POST', `${organization()}/apply`, {
    repository: 'https://github.com/acme/governance',
    objects: [object],
  })
  expect(applied.status).toBe(200)
  const main = await home.main(path, 'owner')
  expect(plain(main)).toContain('Each setting comes from countersign.yaml in acme/governance')
  expect([main.includes('Save Values'), main.includes('Save the limits')]).toEqual([false, true])
  const sent = await send('owner', { action: 'release' })
  expect(sent.headers.get('location')).toBe(`${path}?done=released`)
  const after = await home.main(`${path}?done=released`, 'owner')
  expect(after).toContain('people change it here')
  expect((await settings()).managed_by).toBe(null)
  await home.settings({ approval_threshold: 1 })
})

test('where only the operator sets limits, an owner reads them', async () => {
  const other = await startPages({ QUOTA_OVERRIDES: 'operator' })
  try {
    const main = await other.main(path, 'owner')
    expect([main.includes('Save the limits'), plain(main)]).toEqual([
      false,
      expect.stringContaining('Only the operator of this installation sets other limits'),
    ])
  } finally {
    await other.server.close()
  }
})

test('an admin reads everything and changes nothing', async () => {
  const main = await home.main(path, 'admin')
  expect([main.includes('An owner changes settings'), main.includes('<form')]).toEqual([true, false])
  const refused = await send('admin', { setting: 'run_values', action: 'save', run_values: 'everyone' })
  expect([refused.status, (await settings()).run_values]).toEqual([403, 'participants'])
})
