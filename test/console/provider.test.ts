import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { aProvider } from '../api/access-matrix/world.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/provider`, and what `/console/people` has of it. */

let home: PagesHome
const organization = () => `/organizations/${home.server.identities.organization_id}`
beforeAll(async () => {
  home = await startPages({})
  await home.call('owner', 'PUT', `${organization()}/sign-in`, aProvider(['larkspur.example']))
  await proven()
})
const proven = () =>
  home.server.context.pool.query(`update sign_in_domains set proven_at = now(), proven_by = 'operator'`)
afterAll(() => home?.server.close())

const phone = { viewport: { width: 390, height: 844 } }

test('the form has the fields of the chosen kind only', async () => {
  await home.call('owner', 'DELETE', `${organization()}/sign-in`)
  const fields = async (query = '') =>
    [
      ...(await home.main(`/console/provider${query}`, 'owner')).matchAll(
        /name="(issuer|client_id|client_secret|sso_url|certificates)"/g,
      ),
    ].map(([, name]) => name)
  expect(await fields()).toEqual([])
  expect(await home.main('/console/provider', 'owner')).toContain(
    'href="/console/provider?kind=saml#setting"',
  )
  expect(await fields('?kind=oidc')).toEqual(['issuer', 'client_id', 'client_secret'])
  expect(await fields('?kind=saml')).toEqual(['issuer', 'sso_url', 'certificates'])
  const form = { token: await home.tokenOf('/console/account', 'owner'), action: 'save', kind: 'saml' }
  const sent = {
    ...form,
    issuer: 'idp',
    sso_url: 'nowhere',
    certificates: 'none',
    domains: 'larkspur.example',
  }
  const refused = await home.post('/console/provider', sent, {}, await home.cookieOf('owner'))
  const text = await refused.text()
  expect([refused.status, text.includes('name="client_id"'), text.includes('value="nowhere"')]).toEqual([
    422,
    false,
    true,
  ])
  expect(plain(text)).toContain('Address of the sign-in: ')
  await home.call('owner', 'PUT', `${organization()}/sign-in`, aProvider(['larkspur.example']))
  await proven()
  expect(await fields()).toEqual(['issuer', 'client_id', 'client_secret'])
})

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an owner makes a token for the directory, reads it once, and ends it', async () => {
    const { page } = await signedInAt(home.server, 'owner', '/console/provider', {
      ...phone,
      javaScriptEnabled,
    })
    await page.getByLabel('Name', { exact: true }).fill('Okta')
    await page.getByRole('button', { name: 'Create the token' }).click()
    const token = (await page.locator('#secret').textContent()) ?? ''
    const people = () =>
      fetch(`${home.server.base}/scim/v2/Users`, { headers: { authorization: `Bearer ${token}` } })
    expect((await people()).status).toBe(200)
    await page.getByRole('link', { name: 'Back to the company sign-in' }).click()
    const row = page.getByRole('row', { name: 'Okta' })
    await row.getByText(home.server.identities.users.owner.email).waitFor()
    expect(await page.content()).not.toContain(token)
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await row.locator('summary', { hasText: 'End Okta' }).click()
    await row.getByRole('button', { name: 'End the token' }).click()
    await page.getByText('The token is ended').waitFor()
    expect((await people()).status).toBe(401)
  })

  inBrowser('an owner unlinks the sign-in of a member', async () => {
    const { email, user_id: userId } = home.server.identities.users.member
    await home.server.context.pool.query(
      `insert into sign_in_identities (organization_id, issuer, subject, user_id, linked_at)
       select organization_id, issuer, 's', $1, now() from sign_in_providers`,
      [userId],
    )
    const { page } = await signedInAt(home.server, 'owner', '/console/people', {
      ...phone,
      javaScriptEnabled,
    })
    const row = page.getByRole('row', { name: email })
    await row.locator('summary', { hasText: 'Change' }).click()
    await row.locator('summary', { hasText: 'Unlink the company sign-in' }).click()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await row.getByRole('button', { name: 'Unlink it' }).click()
    await page.getByText('The company sign-in is unlinked').waitFor()
    await row.locator('summary', { hasText: 'Change' }).click()
    expect(await row.getByText('Unlink the company sign-in').count()).toBe(0)
  })
})
