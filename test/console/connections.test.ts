import { afterAll, beforeAll, expect, test, describe } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-server.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/connections`: a service is connected by its form, renamed and revoked. A server plays GitHub. */

let home: PagesHome
let service: ScriptedServer
beforeAll(async () => {
  service = await startScriptedServer()
  service.answer = ({ headers }) =>
    headers.authorization === 'Bearer ghp_right'
      ? { status: 200, body: { login: 'octo-berg' } }
      : { status: 401, body: { message: 'Bad credentials' } }
  home = await startPages({ CONNECTION_HOSTS: new URL(service.url).host })
})
afterAll(async () => {
  await home?.server.close()
  await service?.close()
})

const path = '/console/connections'
const connections = async (who: 'admin' | 'member' = 'admin') =>
  (await home.call(who, 'GET', '/connections')).body.data

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an admin connects GitHub after a refusal, renames the connection, and revokes it', async () => {
    const phone = { viewport: { width: 390, height: 844 } }
    const { page } = await signedInAt(home.server, 'admin', path, { ...phone, javaScriptEnabled })
    await page.getByRole('link', { name: 'Connect a service' }).click()
    await page.getByRole('link', { name: 'GitHub', exact: true }).click()
    await page.getByLabel('Token').fill('ghp_wrong')
    await page.getByLabel('Whose runs use it').selectOption('organization')
    await page.getByLabel('Name of the connection').fill('Our GitHub')
    await page.locator('summary', { hasText: 'Another address' }).click()
    await page.getByLabel('Base address').fill(service.url)
    await page.getByRole('button', { name: 'Test and connect' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toContain('it answered 401')
    const kept = ['Token', 'Whose runs use it', 'Name of the connection', 'Base address']
    // The secret is not sent back.
    expect(await Promise.all(kept.map((label) => page.getByLabel(label).inputValue()))).toEqual([
      '',
      'organization',
      'Our GitHub',
      service.url,
    ])
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByLabel('Token').fill('ghp_right')
    await page.getByRole('button', { name: 'Test and connect' }).click()
    await page.getByText('The service has accepted it').waitFor()
    expect(await page.locator('main').textContent()).toMatch(/octo-berg.*Everybody’s.*github_get_issue/s)
    await page.getByLabel('Name').fill('Our bot')
    await page.getByRole('button', { name: 'Save the name' }).click()
    await page.getByRole('heading', { level: 1, name: 'Our bot' }).waitFor()
    await page.locator('summary', { hasText: 'Revoke the connection' }).click()
    const warned = page.locator('details[open]')
    expect(await warned.textContent()).toMatch(/These tools then work only for.*github_get_issue/s)
    await page.getByRole('button', { name: 'Revoke Our bot' }).click()
    await page.getByText('The connection is revoked').waitFor()
    expect((await connections()).map(({ status }: { status: string }) => status)).not.toContain('active')
  })
})

test('a member connects for themselves, an admin sees whose it is, and a viewer whom to ask', async () => {
  const form = plain(await home.main(`${path}/new?service=search&way=1`, 'member'))
  expect([form.includes('Whose runs use it'), form.includes('Another address')]).toEqual([false, false])
  const token = await home.tokenOf(`${path}/new?service=search`, 'member')
  const fields = {
    token,
    service: 'search',
    way: '1',
    scope: 'personal',
    'credential.api_key': 'brave-secret',
  }
  const made = await home.post(`${path}/new`, fields, {}, await home.cookieOf('member'))
  const place = made.headers.get('location') ?? ''
  expect(place).toMatch(/^\/console\/connections\/con_\w+\?done=connect$/)
  const [own] = await connections('member')
  expect(own).toMatchObject({ account: 'brave', owner_email: home.server.identities.users.member.email })
  expect(await home.html(place, 'member')).not.toContain('brave-secret')
  expect(plain(await home.main(path, 'admin'))).toContain(own.owner_email)
  expect(plain(await home.main(path, 'viewer'))).toContain('A member, admin or owner connects services.')
  const foreign = await home.post(
    `${path}/new`,
    { ...fields, scope: 'organization' },
    {},
    await home.cookieOf('member'),
  )
  expect([foreign.status, (await connections()).length]).toEqual([403, (await connections()).length])
  expect((await home.get(place, await home.cookieOf('viewer'))).status).toBe(404)
})

test('the services say which fields are secrets', async () => {
  const { data } = (await home.call('viewer', 'GET', '/services')).body
  type Schema = Record<'oneOf' | 'anyOf', Schema[] | undefined> & {
    properties: Record<string, { writeOnly?: boolean }>
  }
  const secrets = data.map(({ name, credential }: { name: string; credential: Schema }) => [
    name,
    (credential.oneOf ?? credential.anyOf ?? [credential]).map(({ properties }) =>
      Object.keys(properties).filter((each) => properties[each]?.writeOnly === true),
    ),
  ])
  expect(Object.fromEntries(secrets)).toEqual({
    github: [['token']],
    google: [['service_account'], ['client_id', 'client_secret', 'refresh_token']],
    jira: [['token']],
    llm: [['api_key'], ['api_key'], ['api_key']],
    mail: [['api_key']],
    search: [['api_key'], ['api_key'], ['api_key']],
    slack: [['token']],
    trello: [['key', 'token']],
  })
})
