import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { areas } from '../../src/console/parts/scopes.ts'
import { requireFactors } from '../api/fixtures.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/keys`: making, changing and deleting keys of programs. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const phone = { viewport: { width: 390, height: 844 } }
const works = async (key: string) => (await home.server.call(key, 'GET', '/me')).status
const namesOf = async (who: 'owner' | 'member') =>
  (await home.call(who, 'GET', '/api-keys?limit=200')).body.data.map(({ name }: { name: string }) => name)

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser(
    'a person makes a key, which is shown once, narrows it, switches it off and on, and deletes it',
    async () => {
      const { page } = await signedInAt(home.server, 'member', '/console/keys', {
        ...phone,
        javaScriptEnabled,
      })
      const name = `nightly report ${javaScriptEnabled}`
      await page.getByRole('link', { name: 'Create a key' }).click()
      await page.getByLabel('Name').fill(name)
      await page.getByRole('button', { name: 'Create the key' }).click()

      // Without a scope it is refused: the message stands at the field, and what was typed stays.
      await page.getByRole('alert').getByRole('link', { name: 'What it may do' }).waitFor()
      const scopes = page.locator('#scopes')
      expect(await scopes.getAttribute('aria-invalid')).toBe('true')
      expect(await scopes.getAttribute('aria-describedby')).toContain('scopes-wrong')
      expect(await page.locator('#scopes-wrong').textContent()).toContain('Check at least one thing')
      expect(await page.getByLabel('Name').inputValue()).toBe(name)
      if (javaScriptEnabled) expect(await violations(page)).toEqual([])

      // A member cannot give what only an admin can use.
      expect(await page.locator('input[value="rules:write"]').count()).toBe(0)
      await page.getByRole('link', { name: 'A program that starts workflows' }).click()
      await page.locator('input[value="runs:write"]:checked').waitFor()
      // With the script, the page stays as it is.
      expect(await page.getByLabel('Name').inputValue()).toBe(javaScriptEnabled ? name : '')
      const short = page.getByText('The key may read workflows, read runs,')
      expect(await short.count()).toBe(javaScriptEnabled ? 1 : 0)
      await page.getByLabel('Name').fill(name)
      await page.getByRole('button', { name: 'Create the key' }).click()
      const secret = (await page.locator('#secret').textContent()) ?? ''
      expect(secret).toMatch(/^csk_live_\w{38}$/)
      expect(page.url()).not.toContain(secret)
      expect(await page.getByRole('button', { name: 'Copy' }).isVisible()).toBe(javaScriptEnabled)
      expect(await works(secret)).toBe(200)

      await page.getByRole('link', { name: 'See what it may do' }).click()
      expect(await page.content()).not.toContain(secret)
      await page.locator('input[value="runs:write"]').uncheck()
      await page.getByRole('button', { name: 'Save' }).click()
      await page.getByText('It holds at once').waitFor()
      const { scopes: held } = (await home.server.call(secret, 'GET', '/me')).body
      expect(Object.keys(held)).toEqual(['files:write', 'runs:read', 'tools:read', 'workflows:read'])

      await page.getByRole('button', { name: 'Switch it off' }).click()
      await page.getByText('Switched off', { exact: true }).waitFor()
      expect(await works(secret)).toBe(401)
      await page.getByRole('button', { name: 'Switch it on' }).click()
      await page.getByRole('button', { name: 'Switch it off' }).waitFor()
      expect(await works(secret)).toBe(200)

      await page.locator('summary', { hasText: 'Delete it' }).click()
      await page.getByRole('button', { name: 'Delete the key' }).click()
      await page.getByText('The key is deleted').waitFor()
      expect(await works(secret)).toBe(401)
      expect(await page.getByRole('link', { name }).count()).toBe(0)
    },
  )
})

inBrowser('an owner sees the keys of others, and can only take rights from them', async () => {
  const scopes = ['runs:read', 'runs:write']
  const made = await home.call('member', 'POST', '/api-keys', { name: 'of a member', scopes })
  const { page } = await signedInAt(home.server, 'owner', '/console/keys')
  const row = page.getByRole('row', { name: 'of a member' })
  expect(await row.textContent()).toContain(home.server.identities.users.member.email)
  await row.getByRole('link').click()
  await page.getByRole('heading', { name: 'Take rights away' }).waitFor()
  expect(await page.locator('input[name=scopes]').count()).toBe(2)
  await page.locator('input[value="runs:write"]').uncheck()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('It holds at once').waitFor()
  await page.getByRole('button', { name: 'Switch it off' }).click()
  await page.getByText('Only the key’s person can switch it on again').waitFor()
  expect(await works(made.body.api_key)).toBe(401)
})

const path = '/console/keys/new'
const fields = async (more: Record<string, string> = {}) => ({
  token: await home.tokenOf(path, 'member'),
  once: crypto.randomUUID(),
  name: 'twice',
  scopes: 'runs:read',
  expires_at: '2099-01-01T00:00:00.000Z',
  organization_id: home.server.identities.organization_id,
  ...more,
})
const send = async (given: Record<string, string>) =>
  home.post(path, given, {}, await home.cookieOf('member'))

test('a form that is sent twice makes one key', async () => {
  const given = await fields()
  const answers = await Promise.all([send(given), send(given)])
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
  expect((await namesOf('member')).filter((name: string) => name === 'twice')).toHaveLength(1)
  expect(answers[0]?.headers.get('cache-control')).toBe('no-store')
})

test('a form of another session, or with a time that is over, makes none', async () => {
  expect((await send(await fields({ token: 'x', name: 'foreign' }))).status).toBe(403)
  const late = await send(await fields({ name: 'late', expires_at: '2020-01-01T00:00:00.000Z' }))
  const html = await late.text()
  expect([late.status, html.includes('id="expires_at-wrong"')]).toEqual([422, true])
  expect(await namesOf('member')).not.toEqual(expect.arrayContaining(['foreign']))
})

test('every scope has words', async () => {
  const { body } = await home.call('owner', 'GET', '/scopes')
  const named = Object.values(areas)
    .flat()
    .map(([name]) => name)
  expect(named.toSorted()).toEqual(body.scopes.map(({ name }: { name: string }) => name).toSorted())
})

test('a key that must be confirmed says so, and leads to the second factor', async () => {
  const made = await home.call('member', 'POST', '/api-keys', { name: 'unconfirmed', scopes: ['runs:read'] })
  const key = `/console/keys/${made.body.id}`
  const token = await home.tokenOf(key, 'member')
  expect(plain(await home.main(key, 'member'))).toContain('Made')
  await requireFactors(home.server.context, home.server.identities.organization_id)
  const answer = await home.post(key, { token, action: 'confirm' }, {}, await home.cookieOf('member'))
  expect(plain(await answer.text())).toContain('A second factor is needed')
})
