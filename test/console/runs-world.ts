import { decideSteps } from '../../src/governance/runs/effects/effect.ts'
import { expandStep } from '../../src/governance/runs/effects/items.ts'
import { recordOutcomes } from '../../src/governance/runs/effects/outcome.ts'
import type { TestServer } from '../api/server.ts'
import { mark, opOf, outcomeOf } from '../governance/runs/engine-fixture.ts'
import type { Who } from './support.ts'

/*
 * Runs without a worker. The tests call the functions with which a worker writes its results.
 */

const step = { id: 's', tool: 'memory_get', params: { key: 'k' }, summary: 'Look it up' }

async function saved(server: TestServer, who: Who, method: string, path: string, body: object) {
  const answer = await server.call(server.identities.users[who].api_key, method, path, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`)
  return answer.body
}

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
  const { organization_id: id } = server.identities
  await saved(server, 'owner', 'PATCH', `/organizations/${id}/governance`, { approvals_enabled: true })
  const params = [{ param: 'to', operator: 'equals', value: 'a@b.test' }]
  const rule = { name: 'Mail needs a person', verdict: 'require_approval', tools: ['mail_send'], params }
  await saved(server, 'admin', 'POST', `/organizations/${id}/rules`, rule)
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

/** A run whose step `s` has this many items with an unknown outcome. */
export async function unknownRun(server: TestServer, count: number): Promise<string> {
  const { context, identities } = server
  const items = Array.from({ length: count }, (_, item) => item)
  const runId = await startRun(server, { name: 'Pay the bills', steps: [{ ...step, for_each: items }] })
  await expandStep(context, runId, 's')
  for (const item of items) {
    const op = opOf(runId, { item, params: { to: 'bo@b.test' } })
    await context.combiner.join(identities.organization_id, decideSteps, op)
    await mark(context, op, 1)
    const outcome = outcomeOf(op, 1, 'unknown_outcome')
    await context.combiner.join(identities.organization_id, recordOutcomes, outcome)
  }
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
