import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import type { Page } from 'playwright-core'
import { startTestServer, type TestServer } from '../api/server.ts'
import { connectSlack } from '../governance/notifications/people.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations, type Who } from './support.ts'

/* A person's own account in a real browser: Slack and mails. */

const phone = { viewport: { width: 360, height: 740 } }

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
const call = (who: Who, method: string, path: string, body?: unknown) =>
  server.call(server.identities.users[who].api_key, method, path, body)
const codeOf = async (account: string): Promise<string> =>
  (
    await server.context.db
      .selectFrom('slack_claims')
      .select('code')
      .where('slack_account', '=', account)
      .executeTakeFirstOrThrow()
  ).code

describe('the account page', () => {
  inBrowser('leads to the confirmation of an address that is not confirmed', async () => {
    const { page } = await signedInAt(server, 'viewer', '/console/account', phone)
    const link = page.getByRole('link', { name: 'Confirm your address' })
    expect(await link.count()).toBe(0)
    const change = (to: boolean) =>
      server.context.pool.query('update users set email_verified = $1 where id = $2', [
        to,
        server.identities.users.viewer.user_id,
      ])
    await change(false)
    try {
      await page.reload()
      await link.click()
      await page.getByRole('button', { name: 'Send the mail' }).waitFor()
    } finally {
      await change(true)
    }
  })

  beforeAll(async () => {
    const { organization_id: organizationId, users } = server.identities
    const caller = () => ({ userId: users.owner.user_id })
    await connectSlack({ context: server.context, organizationId, caller })
  })

  inBrowser.each([true, false])(
    'links an admin at once, and keeps when mails come (JavaScript: %s)',
    async (javaScriptEnabled) => {
      const options = { ...phone, javaScriptEnabled }
      const { page } = await signedInAt(server, 'approver', '/console/account', options)
      await page.getByLabel('Your member id in Slack').fill('U0APPROVER')
      await press(page, 'Link it')
      await page.getByText('Messages about what waits for you go to U0APPROVER', { exact: false }).waitFor()
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

  inBrowser.each([true, false])(
    'links and unlinks one Slack account (JavaScript: %s)',
    async (javaScriptEnabled) => {
      const who = javaScriptEnabled ? 'viewer' : 'member'
      const options = { ...phone, javaScriptEnabled }
      const account = javaScriptEnabled ? 'U0VIEWER1' : 'U0MEMBER1'
      const { page } = await signedInAt(server, who, '/console/account', options)
      if (javaScriptEnabled) expect(await violations(page)).toEqual([])
      await page.getByLabel('Your member id in Slack').fill(account.toLowerCase())
      await press(page, 'Send the code')
      await page.getByText(`A message with eight digits goes to ${account}`, { exact: false }).waitFor()
      if (javaScriptEnabled) expect(await violations(page)).toEqual([])
      const code = await codeOf(account)
      await page.getByLabel('Code from Slack').fill(code === '00000000' ? '0000 0001' : '0000 0000')
      await press(page, 'Link it')
      await page.getByRole('alert').getByText('That is not the code.', { exact: false }).waitFor()
      await page.getByLabel('Code from Slack').fill(`${code.slice(0, 4)} ${code.slice(4)}`)
      await press(page, 'Link it')
      await page.getByText(`Messages about what waits for you go to ${account}`, { exact: false }).waitFor()
      await page.getByLabel('Another member id').fill('U0TAKEN11')
      await call('admin', 'PUT', slackOf('owner'), { external_id: 'U0TAKEN11' })
      await press(page, 'Send the code')
      await page.getByRole('alert').getByText('linked to another member', { exact: false }).waitFor()
      await press(page, 'Unlink')
      await page.getByText('No Slack account is linked to you.', { exact: false }).waitFor()
      await call('admin', 'DELETE', slackOf('owner'))
    },
  )
})

const slackOf = (who: Who): string =>
  `/organizations/${server.identities.organization_id}/members/${server.identities.users[who].user_id}/accounts/slack`
