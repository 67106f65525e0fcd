import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import type { CDPSession, Page } from 'playwright-core'
import { startBeside, startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
import { fillSignIn, violations } from './support.ts'

/* Passkeys in a real browser, with the virtual authenticator of Chromium. */

/** Passkeys need a name, and the name must be known before the server starts. So this passes connections on to it. */
let door: Server
let server: TestServer
let base = ''
beforeAll(async () => {
  door = createServer((socket) => {
    const inside = connect(Number(new URL(server.base).port), '127.0.0.1')
    socket.pipe(inside).pipe(socket)
    for (const each of [socket, inside])
      each.on('error', () => [socket, inside].forEach((end) => end.destroy()))
  })
  await once(door.listen(0, '127.0.0.1'), 'listening')
  base = `http://localhost:${(door.address() as AddressInfo).port}`
  server = await startTestServer({ env: { PUBLIC_URL: base } })
})
beforeEach(() => server.context.pool.query('delete from auth_rate_limits'))
afterAll(async () => {
  door?.close()
  await server?.close()
})

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
const withPasskey = 'Sign in with a passkey'
const home = /\/console\/(?!sign-in|second-factor)/

async function withAuthenticator(page: Page): Promise<{ cdp: CDPSession; authenticatorId: string }> {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return { cdp, authenticatorId }
}

async function signOut(page: Page): Promise<void> {
  await page.context().clearCookies()
  await page.goto(`${base}/console/sign-in`)
}

inBrowser('a person adds a passkey, signs in with it in both ways, and removes it', async () => {
  const { page, errors } = await openPage()
  const { cdp, authenticatorId } = await withAuthenticator(page)
  const { password } = server.identities.users.member
  await page.goto(`${base}/console/second-factor`)
  await fillSignIn(page, server, 'member')
  await page.getByLabel('Name of the passkey').fill('Laptop')
  await page.getByLabel('Your password').fill('a wrong password')
  await press(page, 'Add a passkey')
  await page.getByRole('alert').getByText('Invalid password').waitFor()
  await page.getByLabel('Your password').fill(password)
  await press(page, 'Add a passkey')
  await page.getByText('It is on').waitFor()
  await page.getByText('This passkey is your only second factor').waitFor()
  await page
    .locator('details')
    .evaluateAll((all) => all.forEach((each) => each.toggleAttribute('open', true)))
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 900 })
    expect(await violations(page)).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
  }

  await signOut(page)
  await press(page, withPasskey)
  await page.waitForURL(home)

  // In place of the code, after the password.
  await signOut(page)
  await fillSignIn(page, server, 'member')
  await page.getByText('Your second factor is a passkey.').waitFor()
  expect(await violations(page)).toEqual([])
  await press(page, withPasskey)
  await page.waitForURL(home)

  // A copy whose counter is behind.
  const { credentials } = await cdp.send('WebAuthn.getCredentials', { authenticatorId })
  const [credential] = credentials
  if (credential === undefined) throw new Error('the authenticator has no passkey')
  await cdp.send('WebAuthn.clearCredentials', { authenticatorId })
  await cdp.send('WebAuthn.addCredential', { authenticatorId, credential: { ...credential, signCount: 0 } })
  await signOut(page)
  await press(page, withPasskey)
  await page.getByText('this passkey opens no account here').waitFor()
  await cdp.send('WebAuthn.clearCredentials', { authenticatorId })
  await cdp.send('WebAuthn.addCredential', { authenticatorId, credential: { ...credential, signCount: 100 } })
  await press(page, withPasskey)
  await page.waitForURL(home)

  await page.goto(`${base}/console/second-factor`)
  await page.getByText('Rename or remove').click()
  await page.getByLabel('New name').fill('Old laptop')
  await press(page, 'Rename')
  await page.getByText('Old laptop').first().waitFor()
  await page.getByText('Rename or remove').click()
  await page.locator('form', { hasText: 'Remove' }).getByLabel('Password').fill(password)
  await press(page, 'Remove')
  await page.getByRole('heading', { name: 'Second factor', level: 1 }).waitFor()
  await signOut(page)
  await press(page, withPasskey)
  await page.getByText('this passkey opens no account here').waitFor()

  // Under another name of the service, the browser itself refuses.
  await page.goto(`${server.base}/console/sign-in`)
  await press(page, withPasskey)
  await page.getByText('Passkeys work only at the public address of this service.').waitFor()
  expect(errors.filter((each) => !each.includes('status of 4'))).toEqual([])
})

inBrowser('without script, the pages say what a passkey needs, and the other ways stay', async () => {
  const { page } = await openPage({ javaScriptEnabled: false })
  await page.goto(`${base}/console/second-factor`)
  await page.getByText('A passkey needs the script of this page.').waitFor()
  await fillSignIn(page, server, 'viewer')
  await page.getByText('A passkey needs the script of this page.').waitFor()
  await page.getByRole('button', { name: 'Continue' }).waitFor()
})

test('at an address without a name, the answer says what the operator must do', async () => {
  const { http } = server.context.config
  const bare = await startBeside(server, { http: { ...http, publicUrl: 'http://127.0.0.1:9' } })
  const headers = { origin: bare.base }
  const { status, body } = await bare.call(null, 'POST', '/api/auth/passkey/begin-sign-in', {}, headers)
  expect([status, body.message]).toEqual([409, expect.stringContaining('ask the operator to set PUBLIC_URL')])
  await bare.close()
})
