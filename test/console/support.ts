import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { decideSteps } from '../../src/governance/runs/effects/effect.ts'
import { expandStep } from '../../src/governance/runs/effects/items.ts'
import { recordOutcomes } from '../../src/governance/runs/effects/outcome.ts'
import { execute } from '../activities/execute.ts'
import type { TestServer } from '../api/server.ts'
import { mark, opOf, outcomeOf } from '../governance/runs/engine-fixture.ts'
import { openPage } from '../support/chromium.ts'

export type Who = 'owner' | 'admin' | 'approver' | 'member' | 'viewer'

/** Fills in the form of the sign-in page that is open. */
export async function fillSignIn(page: Page, server: TestServer, who: Who): Promise<void> {
  const { email, password } = server.identities.users[who]
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

type Cookies = Awaited<ReturnType<ReturnType<Page['context']>['cookies']>>
/** Sessions by server and person, for reuse: the number of sign-ins for an address is limited. */
const sessions = new Map<string, Cookies>()

/** A new signed-in browser window at `path`. Signs in again if the person's last session in these tests has ended. */
export async function signedInAt(
  server: TestServer,
  who: Who,
  path: string,
  options: Parameters<typeof openPage>[0] = {},
): Promise<Awaited<ReturnType<typeof openPage>>> {
  const opened = await openPage(options)
  const { page } = opened
  const key = `${server.base} ${who}`
  await page.context().addCookies(sessions.get(key) ?? [])
  await page.goto(`${server.base}${path}`)
  if (page.url() !== `${server.base}${path}`) {
    await fillSignIn(page, server, who)
    await page.waitForURL(`${server.base}${path}`)
    sessions.set(key, await page.context().cookies())
  }
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

/** Switches approvals on, and creates a rule that holds what agents send. */
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

/** The violations that axe finds, by axe's rule. The script runs outside the page's content security policy. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe)
  return page.evaluate(
    `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes.map(({ html }) => html).join(' ')))`,
  )
}

/** `tabTo` gives up after this many presses of the tab key. */
const mostTabs = 200

/** Presses the tab key until an element has the focus. */
export async function tabTo(page: Page, selector: string): Promise<void> {
  for (let count = 0; count < mostTabs; count += 1) {
    if (await page.evaluate(`document.activeElement?.matches(${JSON.stringify(selector)})`)) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`no press of the tab key leads to ${selector}`)
}

/** A held call of a run, as a worker leaves it; returns the run's id. With `items`, there is one call for each item. */
export async function heldStep(
  server: TestServer,
  step: { readonly tool: string; readonly params: object; readonly summary?: string },
  {
    name = 'Send the report',
    items,
    by = 'member',
  }: { readonly name?: string; readonly items?: readonly string[]; readonly by?: Who } = {},
): Promise<string> {
  const { [by]: person } = server.identities.users
  const each = items === undefined ? {} : { for_each: items }
  const workflow = await server.call(person.api_key, 'POST', '/workflows', {
    name,
    definition: { steps: [{ id: 'send', ...step, ...each }] },
  })
  if (workflow.status !== 201) throw new Error(workflow.text)
  const path = `/workflows/${workflow.body.id}/execute?wait=0`
  const runId = (await server.call(person.api_key, 'POST', path, {})).body.execution_id as string
  if (items !== undefined) await expandStep(server.context, runId, 'send')
  for (const item of items === undefined ? [null] : items.keys()) {
    const { answer } = await execute(server.context, {
      workflowId: runId,
      activityType: step.tool,
      args: [{ runId, stepId: 'send', itemIndex: item }],
    })
    const told = JSON.stringify(answer)
    if (told.includes('"failed"')) throw new Error(told)
  }
  return runId
}

/** The approvals of a run, the oldest first. */
export async function approvalsOf(server: TestServer, runId: string): Promise<string[]> {
  const { body } = await server.call(
    server.identities.users.admin.api_key,
    'GET',
    `/approvals?run_id=${runId}`,
  )
  return (body.data as { id: string }[]).map(({ id }) => id).reverse()
}

const lostParams = { to: 'team@inside.example', subject: 'Lost', text: 'Did it arrive?' }

/** A call with an unknown outcome: its worker died after bytes had left. Returns the run's id. */
export async function lostCall(server: TestServer): Promise<string> {
  const { identities } = server
  const step = { id: 's', tool: 'mail_send', params: lostParams, summary: 'Tells the team' }
  const key = identities.users.member.api_key
  const workflow = await server.call(key, 'POST', '/workflows', {
    name: 'Lost',
    definition: { steps: [step] },
  })
  const path = `/workflows/${workflow.body.id}/execute?wait=0`
  const runId = (await server.call(key, 'POST', path, {})).body.execution_id as string
  const op = opOf(runId, { params: lostParams })
  await loseAttempt(server, op, 1)
  return runId
}

/** Starts this attempt at the call. The attempt gets no answer. */
async function loseAttempt(
  { context, identities }: TestServer,
  op: ReturnType<typeof opOf>,
  attempt: number,
): Promise<void> {
  await context.combiner.join(identities.organization_id, decideSteps, op)
  await mark(context, op, attempt)
  const outcome = outcomeOf(op, attempt, 'unknown_outcome')
  await context.combiner.join(identities.organization_id, recordOutcomes, outcome)
}

/** An admin repeats the lost call, and the second attempt is lost too. */
export async function loseAgain(server: TestServer, runId: string): Promise<void> {
  const { users } = server.identities
  await server.call(users.owner.api_key, 'POST', `/runs/${runId}/steps/s/resolve`, { outcome: 'retry' })
  await loseAttempt(server, opOf(runId, { params: lostParams }), 2)
}

/** Creates a rule that holds calls of runs, except for mail to inside addresses. */
export async function holdSteps(server: TestServer, tools: readonly string[]): Promise<void> {
  const { organization_id: id, users } = server.identities
  const rule = {
    name: 'What leaves needs a second person',
    verdict: 'require_approval',
    applies_to: ['workflows'],
    tools,
    params: [{ param: 'to', operator: 'domain_not_in', value: ['inside.example'] }],
  }
  const { status, text } = await server.call(users.admin.api_key, 'POST', `/organizations/${id}/rules`, rule)
  if (status !== 201) throw new Error(text)
}
