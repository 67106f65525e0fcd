import { afterAll, expect } from '@jest/globals'
import type { Express } from 'express'
import type { Page } from 'playwright-core'
import { createApp } from '../../src/api/app.ts'
import { createHttpServer } from '../../src/api/http-server.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { addPerson, sessionCookie } from '../api/fixtures.ts'
import { listen, usualServices } from '../api/server.ts'
import { until } from '../stack/until.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
import { startCompanyProvider, type CompanyProvider } from '../support/company-provider.ts'
import { useTestStack, type Stack } from '../workflows/worker-fixture.ts'

/*
 * An owner has the finance group approve mails with confidential data, and the legal group confirm them. An auditor
 * signs in with the company's provider, and sees who decided. All of them use pages alone.
 */

const planted = 'planted-text-5c1f'
let stack: Stack
let base = ''
let close = () => Promise.resolve()
let company: CompanyProvider
useTestStack(
  (started) => (stack = started),
  {},
  async ({ context, organizationId, startWorker }) => {
    let app: Express | undefined
    const http = createHttpServer(((request: never, response: never) => app?.(request, response)) as Express)
    base = await listen(http)
    const { config } = context
    const here = { ...context, config: { ...config, http: { ...config.http, publicUrl: base } } }
    app = createApp(here, usualServices(here))
    company = await startCompanyProvider(
      `${base}/console/sign-in/answer/${organizationId}`,
      `${base}/api/v1/organizations/${organizationId}/sign-in/logout`,
    )
    close = async () => {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    }
    await startWorker()
  },
)
afterAll(async () => {
  await company?.close()
  await close()
})

/** A window in which this person is signed in. */
async function windowOf(userId: string): Promise<Page> {
  const { page } = await openPage()
  const [name = '', value = ''] = (await sessionCookie(stack.context, userId)).split('=', 2)
  await page.context().addCookies([{ name, value, url: base }])
  return page
}
const idOf = (name: BootstrapName) => stack.caller(name).userId

async function makeGroup(page: Page, name: string, member: string): Promise<void> {
  await page.goto(`${base}/console/groups`)
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Members').fill(member)
  await page.getByRole('button', { name: 'Make the group' }).click()
  await page.getByRole('heading', { level: 1, name }).waitFor()
}

/** The owner's work. */
async function setUp(legal: string): Promise<void> {
  const page = await windowOf(idOf('owner'))
  await makeGroup(page, 'finance', stack.caller('viewer').email)
  await makeGroup(page, 'legal', legal)
  await page.getByRole('link', { name: 'All rules', exact: true }).click()
  await page.getByRole('button', { name: 'Turn approvals on' }).click()
  await page.getByRole('link', { name: 'Make a rule' }).click()
  await page.getByLabel('Name', { exact: true }).fill('confidential mails')
  await page.getByLabel('Tools').fill('mail_send')
  await page.getByLabel('confidential', { exact: true }).check()
  await page.getByLabel('Who approves, line 1').selectOption({ label: 'group finance' })
  await page.getByLabel('Who approves, line 2').selectOption({ label: 'group legal' })
  await page.getByRole('button', { name: 'Make the rule' }).click()
  await page.getByText('The rule is saved').waitFor()

  await page.getByRole('link', { name: 'Company sign-in' }).click()
  await page.getByRole('link', { name: 'OpenID Connect' }).click()
  await page.getByLabel('Issuer').fill(company.url)
  await page.getByLabel('Client id').fill(company.client.id)
  await page.getByLabel('Client secret').fill(company.client.secret)
  await page.getByLabel('Mail domains').fill('acme.example')
  await page.getByLabel('Role without a group').selectOption('viewer')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByRole('button', { name: 'Look for the record' }).click()
  await page.getByText('The domain is proven').waitFor()
}

async function approve(userId: string): Promise<void> {
  const page = await windowOf(userId)
  await page.goto(`${base}/console/`)
  await page.locator('main .item-link').first().click()
  await page.getByRole('heading', { name: 'Votes' }).waitFor()
  expect(await page.locator('main').textContent()).toContain(planted)
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByText('You cannot decide this').or(page.getByText('Approved').first()).first().waitFor()
  // The vote gives no right to write rules.
  expect((await page.goto(`${base}/console/rules/new`))?.status()).toBe(403)
}

/** The pages that lead the auditor from the list of runs to who decided; returns their HTML. */
async function audit(run: string): Promise<{ pages: string[]; texts: string[]; page: Page }> {
  company.people.set('auditor', { email: 'auditor@acme.example', email_verified: true, name: 'Auditor' })
  company.subject = 'auditor'
  const { page } = await openPage()
  await page.goto(`${base}/console/runs`)
  await page.getByRole('link', { name: 'Company sign-in' }).click()
  await page.getByLabel('E-mail address').fill('auditor@acme.example')
  await page.getByRole('button').click()
  await page.waitForURL(`${base}/console/runs`)
  const pages: string[] = [await page.content()]
  const texts: string[] = []
  const note = async () => {
    pages.push(await page.content())
    texts.push((await page.locator('main').textContent()) ?? '')
  }
  await page.locator(`a[href="/console/runs/${run}"]`).click()
  await page.getByRole('heading', { name: 'What was decided' }).waitFor()
  await note()
  await page.locator(`a[href="/console/runs/${run}/steps/send"]`).last().click()
  await page.getByRole('heading', { name: 'The call' }).or(page.getByText('The call')).first().waitFor()
  await note()
  return { pages, texts, page }
}

inBrowser(
  'finance approves, legal confirms, and an auditor sees who decided what, and no value',
  async () => {
    const { context, organizationId } = stack
    await stack.settings({ approvals_enabled: false })
    const legal = (await addPerson(context, organizationId, 'viewer')).userId
    const { email: legalMail } = await context.db
      .selectFrom('users')
      .select('email')
      .where('id', '=', legal)
      .executeTakeFirstOrThrow()
    await setUp(legalMail)

    const params = { to: 'partner@elsewhere.example', subject: planted, text: '{{input.text}}' }
    const run = await start({
      steps: [{ id: 'send', tool: 'mail_send', params }],
      inputs: { text: { type: 'string' } },
    })
    await stack.held(run)
    await approve(idOf('viewer'))
    expect(stack.sink.deliveries).toEqual([])
    await approve(legal)
    expect(await stack.ended(run)).toEqual({ run: 'completed', send: 'completed' })
    await until('the mail arrives', async () => Promise.resolve(stack.sink.count(planted) === 1))

    const { pages, texts, page } = await audit(run)
    for (const text of texts) {
      expect(text).toMatch(new RegExp(`${stack.caller('viewer').email} of finance approved it`))
      expect(text).toMatch(new RegExp(`${legalMail} of legal approved it`))
      expect(text).toContain('confidential')
    }
    const [approval] = await stack.approvalsOf(run)
    for (const [path, status] of [
      [`/console/approvals/${approval?.id ?? ''}`, 403],
      ['/console/approvals', 200],
      ['/console/account', 200],
      ['/console/rules', 403],
    ] as const) {
      expect([path, (await page.goto(`${base}${path}`))?.status()]).toEqual([path, status])
      pages.push(await page.content())
    }
    for (const secret of [planted, 'partner@elsewhere.example'])
      expect(pages.filter((each) => each.includes(secret))).toEqual([])
  },
)

/** A member's program starts a run whose input is confidential. */
async function start(definition: object): Promise<string> {
  const send = async (path: string, body: object) => {
    const answer = await fetch(`${base}/api/v1${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${stack.keyOf('member')}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return (await answer.json()) as { id: string; execution_id: string }
  }
  const { id } = await send('/workflows', { name: 'Tell the partner', definition })
  const labels = { input_labels: { text: ['confidential'] } }
  return (await send(`/workflows/${id}/execute?wait=0`, { inputs: { text: planted }, ...labels }))
    .execution_id
}
