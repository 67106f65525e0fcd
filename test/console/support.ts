import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { decideSteps } from '../../src/calls/runs/effect.ts'
import { expandStep } from '../../src/calls/runs/items.ts'
import { recordOutcomes } from '../../src/calls/runs/outcome.ts'
import { execute } from '../activities/execute.ts'
import type { Answer, TestServer } from '../api/server.ts'
import { mark, askStep, opOf, outcomeOf } from '../governance/runs/engine-fixture.ts'
import { openPage } from '../support/chromium.ts'

export type Who = 'owner' | 'admin' | 'approver' | 'member' | 'viewer'

/** Fills in the form of the sign-in page that is open. */
export async function fillSignIn(page: Page, server: TestServer, who: Who): Promise<void> {
  const { email, password } = server.identities.users[who]
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
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
  const rule = { name: 'Agents ask before they send', applies_to: ['agents'], side_effects: ['egress'] }
  await hold(server, rule)
}

/** Switches approvals on, and creates a rule that holds calls. */
async function hold(server: TestServer, rule: object): Promise<void> {
  const { organization_id: id } = server.identities
  await saved(server, 'owner', 'PATCH', `/organizations/${id}/governance`, { approvals_enabled: true })
  await saved(server, 'admin', 'POST', `/organizations/${id}/rules`, { verdict: 'require_approval', ...rule })
}

/** The body of the answer to a request of this person. Throws if the request is refused. */
async function saved(server: TestServer, who: Who, method: string, path: string, body: object) {
  const answer = await server.call(server.identities.users[who].api_key, method, path, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`)
  return answer.body
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
  { items, ...run }: Omit<RunOptions, 'steps'> & { readonly items?: readonly string[] } = {},
): Promise<string> {
  const each = items === undefined ? {} : { for_each: items }
  const runId = await startRun(server, { ...run, steps: [{ id: 'send', ...step, ...each }] })
  if (items !== undefined) await expandStep(server.context, runId, 'send')
  for (const item of items === undefined ? [null] : items.keys())
    await decideCall(server, runId, step.tool, item)
  return runId
}

/** A worker decides the call of the step `send`, as a run does that was woken. */
async function decideCall(
  server: TestServer,
  runId: string,
  activityType: string,
  item: number | null = null,
): Promise<void> {
  const args = [{ runId, stepId: 'send', itemIndex: item }]
  const { answer } = await execute(server.context, { workflowId: runId, activityType, args })
  const told = JSON.stringify(answer)
  if (told.includes('"failed"')) throw new Error(told)
}

/** A held mail that an approver has sent back, and what its approvers edit. Returns the ids of its approvals. */
export async function sentBack(server: TestServer): Promise<{ runId: string; ids: string[] }> {
  const to = 'ana@larkspur.example'
  const text = '{{input.name}}, here is the report of the third quarter.\n\nAll numbers are final.'
  const params = { to, subject: 'Third quarter', text }
  const runId = await heldStep(server, { tool: 'mail_send', params }, { inputs: { name: 'Ana' } })
  const [id = ''] = await approvalsOf(server, runId)
  const comment = 'The numbers are not final: say so, please.'
  await saved(server, 'admin', 'POST', `/approvals/${id}/reject`, { request_changes: true, comment })
  await decideCall(server, runId, 'mail_send')
  return { runId, ids: await approvalsOf(server, runId) }
}

/** After an edit. Returns the ids of all approvals of the run. */
export async function decidedAnew(server: TestServer, runId: string): Promise<string[]> {
  await decideCall(server, runId, 'mail_send')
  return approvalsOf(server, runId)
}

/** The approvals of a run, the oldest first. */
export async function approvalsOf(server: TestServer, runId: string): Promise<string[]> {
  const { api_key: key } = server.identities.users.admin
  const { body } = await server.call(key, 'GET', `/approvals?run_id=${runId}`)
  return (body.data as { id: string }[]).map(({ id }) => id).reverse()
}

const lostParams = { to: 'team@inside.example', subject: 'Lost', text: 'Did it arrive?' }

/** A call with an unknown outcome: its worker died after bytes had left. Returns the run's id. */
export async function lostCall(server: TestServer): Promise<string> {
  const step = { id: 's', tool: 'mail_send', params: lostParams, summary: 'Tells the team' }
  const runId = await startRun(server, { name: 'Lost', steps: [step] })
  await loseAttempt(server, opOf(runId, { params: lostParams }), 1)
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
  await saved(server, 'owner', 'POST', `/runs/${runId}/steps/s/resolve`, { outcome: 'retry' })
  await loseAttempt(server, opOf(runId, { params: lostParams }), 2)
}

/** Creates a rule that holds calls of runs, except for mail to inside addresses. */
export async function holdSteps(server: TestServer, tools: readonly string[]): Promise<void> {
  const params = [{ param: 'to', operator: 'domain_not_in', value: ['inside.example'] }]
  await hold(server, { name: 'What leaves needs a second person', applies_to: ['workflows'], tools, params })
}

/* Runs without a worker: the functions with which a worker writes its results are called here. */

const step = { id: 's', tool: 'memory_get', params: { key: 'k' }, summary: 'Look it up' }

interface RunOptions {
  readonly name?: string
  readonly steps?: readonly object[]
  readonly inputs?: Readonly<Record<string, string>>
  readonly by?: Who
}

/** Starts a run of a new workflow. */
export async function startRun(
  server: TestServer,
  { name = 'Send the report', steps = [step], inputs = {}, by = 'member' }: RunOptions = {},
): Promise<string> {
  const declared = Object.fromEntries(Object.keys(inputs).map((each) => [each, { type: 'string' }]))
  const definition = { steps, inputs: declared }
  const { id } = await saved(server, 'member', 'POST', '/workflows', { name, definition })
  return (await saved(server, by, 'POST', `/workflows/${id}/execute?wait=0`, { inputs })).execution_id
}

/** Creates a rule that holds a mail to this address. The call of step `s` is such a mail. */
export async function holdMail(server: TestServer): Promise<void> {
  const params = [{ param: 'to', operator: 'equals', value: 'a@b.test' }]
  await hold(server, { name: 'Mail needs a person', tools: ['mail_send'], params })
}

/** A waiting run with three steps: `first`, the held call `s`, and `last`. */
export async function heldRun(server: TestServer, by: Who = 'member'): Promise<string> {
  const first = { id: 'first', tool: 'memory_get', params: { key: 'a' } }
  const last = { id: 'last', tool: 'memory_set', params: { key: 'b', value: '{{steps.s.output}}' } }
  const held = { ...step, depends_on: ['first'] }
  const runId = await startRun(server, { steps: [first, held, last], inputs: { topic: 'secret-topic' }, by })
  const { context, identities } = server
  await context.combiner.join(identities.organization_id, decideSteps, opOf(runId))
  return runId
}

/** A question to the member, with a form. Returns its id. */
export async function aQuestion(server: TestServer): Promise<string> {
  const fields = { action: { type: 'string', options: ['refund', 'refuse'] }, message: { type: 'string' } }
  const ask = { to: 'requester', title: 'Refund this order?', show: { order: '4711' }, form: fields }
  const held = await askStep(server.context, await startRun(server, { steps: [{ id: 's', ask }] }))
  return held.state === 'held' ? (held.approvalId ?? '') : ''
}

/** A run whose step `s` has this many items with an unknown outcome. */
export async function unknownRun(server: TestServer, count: number): Promise<string> {
  const items = Array.from({ length: count }, (_, item) => item)
  const runId = await startRun(server, { name: 'Pay the bills', steps: [{ ...step, for_each: items }] })
  await expandStep(server.context, runId, 's')
  for (const item of items) await loseAttempt(server, opOf(runId, { item, params: { to: 'bo@b.test' } }), 1)
  return runId
}

/** A session of an agent: one call is held, and another one ran without a decision. Returns the session's id. */
export async function agentSession(server: TestServer, name = 'Claude Code'): Promise<string> {
  const { agent_key: key, users } = server.identities
  const session_id = `session of ${name}`
  const agent = { name, kind: 'claude-code' }
  for (const [tool_name, tool_input] of [
    ['Read', { file_path: 'a' }],
    ['Bash', { command: 'git push' }],
    [`mcp__board__get_${'card_'.repeat(30)}`, {}],
    ['mcp__board__list', {}],
  ] as const)
    await server.call(key, 'POST', '/authorize', { agent, session_id, tool_name, tool_input })
  const finished = { session_id, tool_name: 'Write', tool_input: { file_path: 'b' } }
  await server.call(key, 'POST', '/authorize/observe', finished)
  const found = `/agent-sessions?session_id=${encodeURIComponent(session_id)}`
  return (await server.call(users.admin.api_key, 'GET', found)).body.data[0].id
}

/** A trigger of a new workflow, which takes messages with a bearer token. */
export async function aWebhookTrigger(
  { call, identities }: TestServer,
  accountName = 'clerk',
): Promise<Answer> {
  const { owner } = identities.users
  const accounts = `/organizations/${identities.organization_id}/service-accounts`
  const account = await call(owner.api_key, 'POST', accounts, { name: accountName })
  const definition = { inputs: { text: { type: 'string' } }, steps: [step] }
  const workflow = await call(owner.api_key, 'POST', '/workflows', { name: 'notes', definition })
  return call(owner.api_key, 'POST', `/workflows/${workflow.body.id}/triggers`, {
    name: 'orders',
    service_account: account.body.id,
    version: 'latest',
    inputs: { text: '{{ body.text }}' },
    webhook: { verify: 'bearer' },
  })
}
