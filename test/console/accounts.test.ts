import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { totp } from '../api/browser.ts'
import { requireFactors } from '../api/fixtures.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { mailTo } from '../api/signed-in.ts'
import { connectSlack } from '../governance/notifications/people.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
import { startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { fillSignIn, heldCall, holdAgents, signedInAt, violations, type Who } from './support.ts'

/* Accounts in a real browser: invitation, sign-up, confirmed address, second factor, new password, Slack and mails. */

const phone = { viewport: { width: 360, height: 740 } }
/** Tests with JavaScript and without. */
const eitherWay = inBrowser.each([true, false])

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
  const { pathname, search } = new URL(/http\S+token=\S+/.exec(await mailTo(sink, email, subject))?.[0] ?? '')
  return pathname + search
}

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
/** Fills in fields by their labels, and presses a button. */
async function submit(page: Page, fields: Readonly<Record<string, string>>, button: string): Promise<void> {
  for (const [label, text] of Object.entries(fields))
    await page.getByLabel(label, { exact: label === 'Code' || label === 'Password' }).fill(text)
  await press(page, button)
}
const heading = (page: Page, name: string) => page.getByRole('heading', { name, level: 1 }).waitFor()
const password = 'a long password'
/** The secret of a second factor that the page shows. */
const keyOn = async (page: Page): Promise<string> =>
  ((await page.locator('.steps code').first().textContent()) ?? '').replaceAll(' ', '')
const call = (who: Who, method: string, path: string, body?: unknown) =>
  server.call(server.identities.users[who].api_key, method, path, body)
/** Confirms the address of a person, or withdraws that. */
const setConfirmed = (who: Who, to: boolean) =>
  server.context.pool.query('update users set email_verified = $1 where id = $2', [
    to,
    server.identities.users[who].user_id,
  ])

async function invite(email: string): Promise<void> {
  const path = `/organizations/${server.identities.organization_id}/invitations`
  expect((await call('owner', 'POST', path, { email, role: 'member' })).status).toBe(201)
}

describe('the account page', () => {
  const slackOf = (who: Who): string => {
    const { organization_id: organization, users } = server.identities
    return `/organizations/${organization}/members/${users[who].user_id}/accounts/slack`
  }

  inBrowser('leads to the confirmation of an address that is not confirmed', async () => {
    const { page } = await signedInAt(server, 'viewer', '/console/account', phone)
    const link = page.getByRole('link', { name: 'Confirm your address' })
    expect(await link.count()).toBe(0)
    await setConfirmed('viewer', false)
    try {
      await page.reload()
      await link.click()
      await page.getByRole('button', { name: 'Send the mail' }).waitFor()
    } finally {
      await setConfirmed('viewer', true)
    }
  })

  beforeAll(async () => {
    const { organization_id: organizationId, users } = server.identities
    const caller = () => ({ userId: users.owner.user_id })
    await connectSlack({ context: server.context, organizationId, caller })
  })

  eitherWay(
    'links an admin when the test message has arrived, and keeps when mails come (JavaScript: %s)',
    async (javaScriptEnabled) => {
      const options = { ...phone, javaScriptEnabled }
      const { page } = await signedInAt(server, 'approver', '/console/account', options)
      await submit(page, { 'Your member id in Slack': 'U0APPROVER' }, 'Link it')
      await page.getByText('A test message is on its way to U0APPROVER').waitFor()
      // No worker sends it here.
      await server.context.db.deleteFrom('slack_claims').execute()
      await server.context.db
        .updateTable('memberships')
        .set({ slack_account: 'U0APPROVER', slack_linked_at: new Date() })
        .where('user_id', '=', server.identities.users.approver.user_id)
        .execute()
      await page.reload()
      await page.getByText('Messages about what waits for you go to U0APPROVER').waitFor()
      await press(page, 'Unlink')
      const choice = page.getByLabel('Mail me what nobody has decided')
      const chosen = () => choice.locator('option:checked').textContent()
      const before = (await call('approver', 'GET', '/me/notifications')).body
      for (const [label, saved] of [
        ['after 1 hour', { mail: true, delay_seconds: 3_600 }],
        ['never', { mail: false, delay_seconds: 3_600 }],
        ['at once', { mail: true, delay_seconds: 0 }],
      ] as const) {
        await choice.selectOption({ label })
        await press(page, 'Save')
        await page.getByRole('status').getByText('Your choice is saved.').waitFor()
        expect((await call('approver', 'GET', '/me/notifications')).body).toMatchObject(saved)
        await page.goto(`${server.base}/console/account`)
        expect(await chosen()).toBe(label)
      }
      await call('approver', 'PUT', '/me/notifications', { mail: true, delay_seconds: before.delay_seconds })
      if (javaScriptEnabled) expect(await violations(page)).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
    },
  )

  eitherWay('links and unlinks one Slack account (JavaScript: %s)', async (javaScriptEnabled) => {
    const who = javaScriptEnabled ? 'viewer' : 'member'
    const options = { ...phone, javaScriptEnabled }
    const account = javaScriptEnabled ? 'U0VIEWER1' : 'U0MEMBER1'
    const { page } = await signedInAt(server, who, '/console/account', options)
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await submit(page, { 'Your member id in Slack': account.toLowerCase() }, 'Send the code')
    await page.getByText(`A message with eight digits goes to ${account}`).waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    const sent = 'select code from slack_claims where slack_account = $1'
    const { code } = (await server.context.pool.query(sent, [account])).rows[0]
    await submit(page, { 'Code from Slack': code === '00000000' ? '0000 0001' : '0000 0000' }, 'Link it')
    await page.getByRole('alert').getByText('That is not the code.').waitFor()
    await submit(page, { 'Code from Slack': `${code.slice(0, 4)} ${code.slice(4)}` }, 'Link it')
    await page.getByText(`Messages about what waits for you go to ${account}`).waitFor()
    await page.getByLabel('Another member id').fill('U0TAKEN11')
    const taken = { slack_account: 'U0TAKEN11', slack_linked_at: new Date() }
    const { user_id: ownerId } = server.identities.users.owner
    await server.context.db.updateTable('memberships').set(taken).where('user_id', '=', ownerId).execute()
    await press(page, 'Send the code')
    await page.getByRole('alert').getByText('linked to another member').waitFor()
    await press(page, 'Unlink')
    await page.getByText('No Slack account is linked to you.').waitFor()
    await call('admin', 'DELETE', slackOf('owner'))
  })
})

describe.each([
  ['with', true],
  ['without', false],
])('%s JavaScript', (_, javaScriptEnabled) => {
  inBrowser('an invited person makes an account and joins with one form, without a second mail', async () => {
    const email = `mira-${javaScriptEnabled}@larkspur.example`
    await invite(email)
    const { page, errors } = await openPage({ ...phone, javaScriptEnabled })
    const invitation = await linkIn('An invitation to Countersign', email)
    await page.goto(server.base + invitation)
    await page.getByText('invites you to').waitFor()
    await page.getByText(email).waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await submit(page, { 'Your name': 'Mira', 'New password': password }, 'Create the account and join')
    await heading(page, 'You have joined')
    await page.getByText('You are now member of').waitFor()
    await page.getByRole('link', { name: 'Continue' }).click()
    await page.waitForURL('**/console/')
    const account = 'select email_verified, time_zone is not null as has_zone from users where email = $1'
    const { rows } = await server.context.pool.query(account, [email])
    expect(rows).toEqual([{ email_verified: true, has_zone: javaScriptEnabled }])
    const toPerson = sink.deliveries.filter(({ recipients }) => recipients.includes(email))
    expect(toPerson.map(({ subject }) => subject)).toEqual(['An invitation to Countersign'])
    // The link works once.
    await page.goto(server.base + invitation)
    await page.getByText('This address has no invitation').waitFor()
    expect(errors.filter((each) => !each.includes('404'))).toEqual([])
  })

  inBrowser('a person adds a second factor, signs in with it, and sets a new password by mail', async () => {
    const who = javaScriptEnabled ? 'member' : 'viewer'
    const { email } = server.identities.users[who]
    const { page } = await signedInAt(server, who, '/console/second-factor', { ...phone, javaScriptEnabled })
    await submit(page, { Password: server.identities.users[who].password }, 'Continue')
    const key = await keyOn(page)
    const backups = await page.locator('.codes code').allTextContents()
    const [backup = ''] = backups
    await submit(page, { Code: '000000' }, 'Turn it on')
    await page.getByRole('alert').waitFor()
    await submit(page, { Code: totp(key) }, 'Turn it on')
    await page.waitForURL('**/console/')
    await page.goto(`${server.base}/console/second-factor`)
    await page.getByText('It is on').waitFor()

    const second = await openPage({ ...phone, javaScriptEnabled })
    await second.page.goto(`${server.base}/console/sign-in?return=/console/second-factor`)
    await fillSignIn(second.page, server, who)
    await second.page.waitForURL('**/console/sign-in/code?**')
    if (javaScriptEnabled) expect(await violations(second.page)).toEqual([])
    await submit(second.page, { 'Code of': 'no such code' }, 'Continue')
    await second.page.getByRole('alert').waitFor()
    await submit(second.page, { 'Code of': backup }, 'Continue')
    await second.page.waitForURL('**/console/second-factor')
    await second.page.getByText('It is on').waitFor()

    await page.goto(`${server.base}/console/account/sessions`)
    const rows = page.getByRole('listitem').filter({ hasText: 'on Linux' })
    await rows.nth(1).waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    const backupRow = rows.filter({ hasText: 'with the password and a backup code' })
    const token = await page.locator('input[name=token]').first().inputValue()
    const backupId = await backupRow.locator('input[name=session]').inputValue()
    await backupRow.getByRole('button', { name: 'End it' }).click()
    await page.getByText('It has ended').waitFor()
    expect(await rows.allTextContents()).toEqual([expect.stringContaining('This one')])
    // Nothing says that it has ended what it did not.
    for (const form of [
      { action: 'end', session: 'no-such' },
      { action: 'none', session: backupId },
    ]) {
      const sent = await page.request.post(`${server.base}/console/account/sessions`, {
        form: { token, ...form },
        headers: { origin: server.base },
        maxRedirects: 0,
      })
      expect(sent.status()).toBe(422)
    }
    await second.page.goto(`${server.base}/console/approvals`)
    await fillSignIn(second.page, server, who)
    await submit(second.page, { 'Code of': backups[1] ?? '' }, 'Continue')
    await second.page.waitForURL('**/console/approvals')

    await page.context().clearCookies()
    await page.goto(`${server.base}/console/sign-in`)
    await page.getByRole('link', { name: 'Forgot your password?' }).click()
    await submit(page, { 'E-mail address': email }, 'Send the mail')
    await heading(page, 'Check your mail')
    const link = await linkIn('A new password', email)
    await page.goto(server.base + link)
    await submit(page, { 'New password': 'another long password' }, 'Set the password')
    await heading(page, 'Your password is set')
    // The mailed link works once, and all earlier sessions have ended.
    await page.goto(server.base + link)
    await submit(page, { 'New password': 'a third long password' }, 'Set the password')
    await page.getByText('This link has ended').waitFor()
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

  const forms = ['sign-in', 'sign-up', 'reset-password', 'confirm-address', 'invitation']
  test.each(forms)('%s is refused to other sites', async (name) => {
    const { email, password: own } = server.identities.users.admin
    const foreign = [
      { origin: 'https://evil.example' },
      { 'sec-fetch-site': 'cross-site' },
      { origin: 'null' },
    ] as const
    for (const headers of foreign)
      expect((await post(`/console/${name}`, { email, password: own }, headers)).status).toBe(403)
  })

  test('only the link of the mail makes an account: the one that the inviter sees does not', async () => {
    const email = 'handed@larkspur.example'
    const path = `/organizations/${server.identities.organization_id}/invitations`
    const { token } = (await call('owner', 'POST', path, { email, role: 'member' })).body
    const page = await fetch(`${server.base}/console/invitation?token=${token}`)
    expect(await page.text()).not.toContain('Create the account and join')
    for (const proof of ['', 'p'.repeat(43), token]) {
      const form = { invitation: token, proof, name: 'Inviter', password }
      expect((await post('/console/invitation', form)).text).not.toContain('You have joined')
    }
    const { rows } = await server.context.pool.query('select from users where email = $1', [email])
    expect(rows).toEqual([])
  })

  test('the link of the mail does not confirm an account that somebody else has made', async () => {
    const email = 'squatted@larkspur.example'
    await invite(email)
    await post('/console/sign-up', { name: 'Squatter', email, password: 'the squatter’s own' })
    const query = new URL(await linkIn('An invitation to Countersign', email), server.base).searchParams
    const form = {
      invitation: query.get('token') ?? '',
      proof: query.get('proof') ?? '',
      name: 'M',
      password,
    }
    expect((await post('/console/invitation', form)).text).not.toContain('You have joined')
    const { rows } = await server.context.pool.query('select email_verified from users where email = $1', [
      email,
    ])
    expect(rows).toEqual([{ email_verified: false }])
  })

  test('a mailed token is in no Referer, and opening its link changes nothing', async () => {
    const email = 'opened@larkspur.example'
    await invite(email)
    await post('/console/sign-up', { name: 'O', email, password })
    const link = await linkIn('Confirm your address', email)
    for (const path of [link, await linkIn('An invitation to Countersign', email)]) {
      const answer = await fetch(server.base + path)
      const policies = ['referrer-policy', 'cache-control'].map((name) => answer.headers.get(name))
      expect([answer.status, ...policies]).toEqual([200, 'strict-origin', 'no-store'])
      await answer.text()
    }
    const statement = 'select email_verified from users where email = $1'
    const { rows } = await server.context.pool.query(statement, [email])
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
    for (const path of ['/console/invitation', '/console/reset-password', '/console/confirm-address']) {
      const answer = await fetch(`${server.base}${path}?token=%3Cb%3Ehostile-token-text`)
      expect(await answer.text()).not.toContain('hostile')
    }
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
    await requireFactors(server.context, id)
    try {
      const { page } = await openPage(phone)
      await page.goto(server.base + approval)
      await fillSignIn(page, server, 'admin')
      await heading(page, 'A second factor is needed')
      expect(await violations(page)).toEqual([])
      await page.getByRole('link', { name: 'Go to the second factor' }).click()
      await submit(page, { Password: users.admin.password }, 'Continue')
      await page.getByRole('img', { name: 'QR code', exact: false }).waitFor()
      expect(await violations(page)).toEqual([])
      const key = await keyOn(page)
      await submit(page, { Code: totp(key) }, 'Turn it on')
      // The console leads back to the approval whose link the person followed.
      await page.waitForURL(server.base + approval)
      await heading(page, 'Run “git push”')
      await page.goto(`${server.base}/console/second-factor`)
      await page.getByRole('button', { name: 'Confirm the key' }).click()
      await page.getByText('It is on').waitFor()
      expect(await page.getByRole('button', { name: 'Confirm the key' }).count()).toBe(0)
    } finally {
      await server.context.pool.query(
        `update organizations set settings = settings - 'require_mfa' where id = $1`,
        [id],
      )
    }
  })
})
