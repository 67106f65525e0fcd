import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { totp } from '../api/browser.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { until } from '../stack/until.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
import { startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { fillSignIn, heldCall, holdAgents, signedInAt, violations } from './support.ts'

/* Accounts in a real browser: invitation, sign-up, confirmed address, second factor, new password. */

const phone = { viewport: { width: 360, height: 740 } }

let sink: SmtpSink
let server: TestServer
beforeAll(async () => {
  sink = await startSmtpSink()
  server = await startTestServer({ env: { SMTP_URL: sink.url, SIGN_UP: 'invited' } })
})
beforeEach(() => server.context.pool.query('delete from auth_rate_limits'))
afterAll(async () => {
  await server?.close()
  await sink?.close()
})

/** The path of the link in the newest mail with this subject to an address, once it has come. */
async function linkIn(subject: string, email: string): Promise<string> {
  const found = () =>
    sink.deliveries.findLast((mail) => mail.recipients.includes(email) && mail.subject === subject)
  await until(subject, async () => found() !== undefined)
  // Long lines of the mail are quoted-printable.
  const text = (found()?.raw ?? '').replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=')
  const { pathname, search } = new URL(/http\S+token=\S+/.exec(text)?.[0] ?? '')
  return pathname + search
}

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
const heading = (page: Page, name: string) => page.getByRole('heading', { name, level: 1 }).waitFor()
const password = 'a long password'

async function invite(email: string): Promise<void> {
  const { organization_id: id, users } = server.identities
  const body = { email, role: 'member' }
  const { status } = await server.call(users.owner.api_key, 'POST', `/organizations/${id}/invitations`, body)
  expect(status).toBe(201)
}

describe.each([
  ['with', true],
  ['without', false],
])('%s JavaScript', (_, javaScriptEnabled) => {
  inBrowser('an invited person makes an account, confirms the address, signs in and joins', async () => {
    const email = `mira-${javaScriptEnabled}@larkspur.example`
    await invite(email)
    const { page, errors } = await openPage({ ...phone, javaScriptEnabled })
    const invitation = await linkIn('An invitation to Countersign', email)
    await page.goto(server.base + invitation)
    await page.getByRole('link', { name: 'Create one with that address' }).click()
    await page.getByLabel('Your name').fill('Mira')
    await page.getByLabel('E-mail address').fill(email)
    await page.getByLabel('New password').fill(password)
    await press(page, 'Create the account')
    await heading(page, 'Check your mail')
    await page.goto(server.base + (await linkIn('Confirm your address', email)))
    await press(page, 'Yes, it is mine')
    await heading(page, 'Your address is confirmed')
    await page.goto(server.base + invitation)
    await page.getByRole('link', { name: 'Sign in' }).click()
    await page.getByLabel('E-mail address').fill(email)
    await page.getByLabel('Password').fill(password)
    await press(page, 'Sign in')
    await press(page, 'Accept the invitation')
    await heading(page, 'You have joined')
    await page.getByText('You are now member of', { exact: false }).waitFor()
    // The link works once.
    await page.goto(server.base + invitation)
    await press(page, 'Accept the invitation')
    await page.getByText('There is no open invitation for you here', { exact: false }).waitFor()
    expect(errors.filter((each) => !each.includes('404'))).toEqual([])
  })

  inBrowser('a person adds a second factor, signs in with it, and sets a new password by mail', async () => {
    const who = javaScriptEnabled ? 'member' : 'viewer'
    const { email } = server.identities.users[who]
    const { page } = await signedInAt(server, who, '/console/second-factor', { ...phone, javaScriptEnabled })
    await page.getByLabel('Password').fill(server.identities.users[who].password)
    await press(page, 'Continue')
    const key = ((await page.locator('.steps code').first().textContent()) ?? '').replaceAll(' ', '')
    const [backup = ''] = await page.locator('.codes code').allTextContents()
    await page.getByLabel('Code', { exact: true }).fill('000000')
    await press(page, 'Turn it on')
    await page.getByRole('alert').waitFor()
    await page.getByLabel('Code', { exact: true }).fill(totp(key))
    await press(page, 'Turn it on')
    // The first page of a viewer lists runs.
    await page.waitForURL(javaScriptEnabled ? '**/console/approvals' : '**/console/runs')
    await page.goto(`${server.base}/console/second-factor`)
    await page.getByText('It is on').waitFor()

    const second = await openPage({ ...phone, javaScriptEnabled })
    await second.page.goto(`${server.base}/console/sign-in?return=/console/second-factor`)
    await fillSignIn(second.page, server, who)
    await second.page.waitForURL('**/console/sign-in/code?**')
    if (javaScriptEnabled) expect(await violations(second.page)).toEqual([])
    await second.page.getByLabel('Code of', { exact: false }).fill('no such code')
    await press(second.page, 'Continue')
    await second.page.getByRole('alert').waitFor()
    await second.page.getByLabel('Code of', { exact: false }).fill(backup)
    await press(second.page, 'Continue')
    await second.page.waitForURL('**/console/second-factor')
    await second.page.getByText('It is on').waitFor()

    await page.context().clearCookies()
    await page.goto(`${server.base}/console/sign-in`)
    await page.getByRole('link', { name: 'Forgot your password?' }).click()
    await page.getByLabel('E-mail address').fill(email)
    await press(page, 'Send the mail')
    await heading(page, 'Check your mail')
    const link = await linkIn('A new password', email)
    await page.goto(server.base + link)
    await page.getByLabel('New password').fill('another long password')
    await press(page, 'Set the password')
    await heading(page, 'Your password is set')
    // The mailed link works once, and all earlier sessions have ended.
    await page.goto(server.base + link)
    await page.getByLabel('New password').fill('a third long password')
    await press(page, 'Set the password')
    await page.getByText('This link has ended', { exact: false }).waitFor()
    await second.page.goto(`${server.base}/console/approvals`)
    await second.page.waitForURL('**/console/sign-in?**')
  })
})

describe('what these pages answer', () => {
  const post = async (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) => {
    const answer = await fetch(`${server.base}${path}`, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { origin: server.base, ...headers },
      redirect: 'manual',
    })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  }
  /** The answer without the parts that differ in every answer. */
  const shape = ({ status, text }: { status: number; text: string }, email: string) =>
    [status, text.replaceAll(email, 'EMAIL').replace(/data-now="[^"]*"/, '')] as const

  test('is the same for addresses with an account, with an invitation, and with neither', async () => {
    const { email } = server.identities.users.owner
    await invite('invited@larkspur.example')
    const emails = [email, 'invited@larkspur.example', 'nobody@larkspur.example']
    for (const [path, fields] of [
      ['/console/sign-up', { name: 'N', password }],
      ['/console/reset-password', {}],
      ['/console/confirm-address', {}],
    ] as const) {
      await server.context.pool.query('delete from auth_rate_limits')
      const answers = []
      for (const each of emails) answers.push(shape(await post(path, { ...fields, email: each }), each))
      expect(answers[1]).toEqual(answers[0])
      expect(answers[2]).toEqual(answers[0])
      expect(answers[0]?.[0]).toBe(200)
    }
  })

  test.each([
    '/console/sign-up',
    '/console/reset-password',
    '/console/confirm-address',
    '/console/invitation',
  ])('%s is refused to other sites, and limited', async (path) => {
    for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }])
      expect((await post(path, { email: 'a@b.example' }, headers)).status).toBe(403)
  })

  test('a mailed token is in no Referer, and opening its link changes nothing', async () => {
    const email = 'opened@larkspur.example'
    await invite(email)
    await post('/console/sign-up', { name: 'O', email, password })
    const link = await linkIn('Confirm your address', email)
    for (const path of [link, await linkIn('An invitation to Countersign', email)]) {
      const answer = await fetch(server.base + path)
      expect([
        answer.status,
        answer.headers.get('referrer-policy'),
        answer.headers.get('cache-control'),
      ]).toEqual([200, 'strict-origin', 'no-store'])
      await answer.text()
    }
    const { rows } = await server.context.pool.query('select email_verified from users where email = $1', [
      email,
    ])
    expect(rows).toEqual([{ email_verified: false }])
  })

  test('a refused sign-in leads to the confirmation, with or without an account', async () => {
    const email = 'waits@larkspur.example'
    await invite(email)
    await post('/console/sign-up', { name: 'W', email, password })
    const answers = []
    for (const each of [email, 'nobody@larkspur.example'])
      answers.push(shape(await post('/console/sign-in', { email: each, password }), each))
    expect(answers[1]).toEqual(answers[0])
    expect(answers[0]).toEqual([401, expect.stringContaining('Confirm your address first')])
  })

  test('mails about one account are limited, with words', async () => {
    const answers = []
    for (let times = 0; times < 7; times += 1)
      answers.push(await post('/console/reset-password', { email: 'often@larkspur.example' }))
    expect(answers.at(-1)).toMatchObject({ status: 429 })
    expect(Number(answers.at(-1)?.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(answers.at(-1)?.text).toContain('role="alert"')
  })

  test('a token that is none is not repeated', async () => {
    for (const path of ['/console/invitation', '/console/reset-password', '/console/confirm-address'])
      expect(
        await (await fetch(`${server.base}${path}?token=%3Cb%3Ehostile-token-text`)).text(),
      ).not.toContain('hostile')
  })

  test.each(['/console/reset-password', '/console/confirm-address'])(
    '%s says that a cut link does not work',
    async (path) => {
      const text = async (query: string) => (await fetch(`${server.base}${path}${query}`)).text()
      expect(await text('?token=cut=')).toMatch(/role="alert".*is not whole/s)
      expect(await text('')).not.toContain('role="alert"')
    },
  )
})

describe('the page of the second factor', () => {
  test('opens for members of an organization that requires one, who see nothing else', async () => {
    const { users, organization_id: id } = server.identities
    await holdAgents(server)
    const approval = `/console/approvals/${await heldCall(server)}`
    await server.context.pool.query(
      `update organizations set settings = settings || '{"require_mfa": true}' where id = $1`,
      [id],
    )
    try {
      const opened = await openPage(phone)
      await opened.page.goto(server.base + approval)
      await fillSignIn(opened.page, server, 'admin')
      await heading(opened.page, 'A second factor is needed')
      expect(await violations(opened.page)).toEqual([])
      await opened.page.getByRole('link', { name: 'Go to the second factor' }).click()
      await opened.page.getByLabel('Password').fill(users.admin.password)
      await press(opened.page, 'Continue')
      await opened.page.getByRole('img', { name: 'QR code', exact: false }).waitFor()
      expect(await violations(opened.page)).toEqual([])
      const key = ((await opened.page.locator('.steps code').first().textContent()) ?? '').replaceAll(' ', '')
      await opened.page.getByLabel('Code', { exact: true }).fill(totp(key))
      await press(opened.page, 'Turn it on')
      // The console leads back to the approval whose link the person followed.
      await opened.page.waitForURL(server.base + approval)
      await heading(opened.page, 'Run “git push”')
      await opened.page.goto(`${server.base}/console/second-factor`)
      await opened.page.getByRole('button', { name: 'Confirm the key' }).click()
      await opened.page.getByText('It is on').waitFor()
      expect(await opened.page.getByRole('button', { name: 'Confirm the key' }).count()).toBe(0)
    } finally {
      await server.context.pool.query(
        `update organizations set settings = settings - 'require_mfa' where id = $1`,
        [id],
      )
    }
  })
})
