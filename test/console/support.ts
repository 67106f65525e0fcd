import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import type { TestServer } from '../api/server.ts'
import { openPage } from '../support/chromium.ts'

export type Who = 'owner' | 'admin' | 'approver' | 'member' | 'viewer'

/** Fills in the form of the sign-in page that is open. */
export async function fillSignIn(page: Page, server: TestServer, who: Who): Promise<void> {
  const { email, password } = server.identities.users[who]
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

/** A new browser window, signed in, at `path`. */
export async function signedInAt(
  server: TestServer,
  who: Who,
  path: string,
  options: Parameters<typeof openPage>[0] = {},
): Promise<Awaited<ReturnType<typeof openPage>>> {
  const opened = await openPage(options)
  await opened.page.goto(`${server.base}${path}`)
  await fillSignIn(opened.page, server, who)
  await opened.page.waitForURL(`${server.base}${path}`)
  return opened
}

/** A call of an agent that a rule holds; returns the approval's id. */
export async function heldCall(
  server: TestServer,
  input: object = { command: 'git push' },
  tool = 'Bash',
): Promise<string> {
  const { status, body } = await server.call(server.identities.agent_key, 'POST', '/authorize', {
    agent: { name: 'Claude Code', kind: 'claude-code' },
    session_id: `session-${(calls += 1)}`,
    tool_name: tool,
    tool_input: input,
  })
  if (status !== 200 || body.approval_id === undefined) throw new Error(JSON.stringify(body))
  return body.approval_id as string
}
let calls = 0

/** Approvals are on, and this rule holds what agents send. */
export async function holdAgents(server: TestServer): Promise<void> {
  const { organization_id: id, users } = server.identities
  await server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/governance`, {
    approvals_enabled: true,
  })
  const rule = {
    name: 'Agents ask before they send',
    verdict: 'require_approval',
    applies_to: ['agents'],
    side_effects: ['egress'],
  }
  const { status } = await server.call(users.admin.api_key, 'POST', `/organizations/${id}/rules`, rule)
  if (status !== 201) throw new Error(`the rule was not saved: ${status}`)
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** What axe finds wrong, by its rule. The script runs outside the page's policy. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe)
  return page.evaluate(
    `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes.map(({ html }) => html).join(' ')))`,
  )
}

/** The most elements of a page that take the focus. */
const mostTabs = 200

/** Presses the tab key until an element has the focus. */
export async function tabTo(page: Page, selector: string): Promise<void> {
  for (let count = 0; count < mostTabs; count += 1) {
    if (await page.evaluate(`document.activeElement?.matches(${JSON.stringify(selector)})`)) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`no press of the tab key leads to ${selector}`)
}
