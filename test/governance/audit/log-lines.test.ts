import { describe, expect, test } from '@jest/globals'
import { auditEvents } from '../../../src/contract/audit-events.ts'
import { logEntries } from '../../../src/governance/audit/log-lines.ts'
import type { EntryDraft } from '../../../src/governance/audit/entry.ts'
import { pino } from 'pino'

/** The lines that the log file would contain for these entries. */
function linesOf(level: string, drafts: readonly EntryDraft[]) {
  const lines: Record<string, unknown>[] = []
  const log = pino(
    { level, base: null, timestamp: false },
    { write: (line) => void lines.push(JSON.parse(line)) },
  )
  logEntries(log, 'org_1', drafts, (runId) => (runId === 'run_1' ? 'req-of-run' : null))
  return lines
}

const person = { type: 'user', id: 'usr_1', apiKeyId: 'key_1', ip: '10.1.2.3', requestId: 'req-1' } as const
const run = { type: 'system', id: 'run_1' } as const
const call = (state: string, more: EntryDraft['metadata'] = {}): EntryDraft => ({
  eventType: `tool_call.${state}`,
  action: 'mail_send',
  status: state,
  actor: run,
  workflowId: 'wf_1',
  runId: 'run_1',
  durationMs: 12,
  metadata: {
    step_id: 'send',
    item_index: null,
    attempt: 1,
    decision_id: 'dec_1',
    params_hash: 'abc',
    ...more,
  },
})

test('a vote names the person, the request, the run, the step and the approval', () => {
  const vote = {
    eventType: 'approval.granted',
    action: 'approve',
    status: 'approved',
    actor: person,
    workflowId: 'wf_1',
    runId: 'run_1',
    metadata: {
      approval_id: 'apr_1',
      step_id: 'send',
      item_index: 7,
      counting: 1,
      needed: 1,
      params_hash: 'abc',
    },
    logged: { tool: 'mail_send' },
  }
  // An agent chooses the names of its tools, so these names are not logged.
  const ofAgent = { ...vote, logged: { tool: 'Secret name' } }
  expect(linesOf('info', [ofAgent])[0]).not.toHaveProperty('tool')
  expect(linesOf('info', [vote])).toEqual([
    {
      level: 30,
      msg: 'approval granted',
      event: 'approval.granted',
      status: 'approved',
      organization_id: 'org_1',
      request_id: 'req-1',
      workflow_id: 'wf_1',
      run_id: 'run_1',
      user_id: 'usr_1',
      tool: 'mail_send',
      approval_id: 'apr_1',
      step_id: 'send',
      item_index: 7,
      counting: 1,
      needed: 1,
    },
  ])
})

test('a failed call has the code of its error and the request that started its run', () => {
  expect(linesOf('info', [call('failed', { error_code: 'timeout' })])).toEqual([
    expect.objectContaining({ msg: 'tool call failed', error_code: 'timeout', step_id: 'send', request_id: 'req-of-run', duration_ms: 12, tool: 'mail_send' }),
  ]) // prettier-ignore
})

test('the end of a run has the step and the code that ended it', () => {
  const end: EntryDraft = {
    eventType: 'workflow.execute',
    action: 'finish',
    status: 'failed',
    actor: { type: 'user', id: 'usr_1' },
    runId: 'run_2',
    metadata: { nodes_executed: 1, nodes_failed: 1, input_hash: 'abc' },
    logged: { request_id: 'req-2', step_id: 'send', error_code: 'timeout' },
  }
  expect(linesOf('info', [end])).toEqual([
    expect.objectContaining({ msg: 'run ended', status: 'failed', request_id: 'req-2', step_id: 'send', error_code: 'timeout', nodes_failed: 1 }),
  ]) // prettier-ignore
})

describe('levels', () => {
  const wordsAt = (level: string, ...drafts: EntryDraft[]) => linesOf(level, drafts).map(({ msg }) => msg)

  test('single calls are shown with `debug` only, retries and unknown outcomes always', () => {
    const calls = ['decided', 'completed', 'retry', 'unknown_outcome'].map((state) => call(state))
    expect(wordsAt('debug', ...calls)).toEqual(['tool call decided', 'tool call completed', 'tool call retry', 'tool call unknown outcome']) // prettier-ignore
    expect(wordsAt('info', ...calls)).toEqual(['tool call retry', 'tool call unknown outcome'])
    expect(wordsAt('warn', ...calls)).toEqual(['tool call unknown outcome'])
  })

  test('one of the items of a step fails at `debug`: its step has a line', () => {
    expect(wordsAt('info', call('failed', { item_index: 3 }))).toEqual([])
    expect(wordsAt('debug', call('failed', { item_index: 3 }))).toEqual(['tool call failed'])
  })
})

test('no field of any event shows a name, a reason, a label, a hash or a value that people choose', () => {
  const secret = 'planted7f3a'
  // Fields that hold an id, a count, or a value that the service itself chooses.
  const ours =
    /(_id|_index|_by|count|items|counting|needed|value|limit|version|attempt|risk|outcome|code|nodes_\w+)$/
  const drafts = Object.entries(auditEvents).map(([eventType, { metadata }]): EntryDraft => ({
    eventType,
    action: secret,
    status: 'success',
    actor: { type: 'user', id: 'usr_1', ip: secret },
    metadata: Object.fromEntries(Object.keys(metadata).map((name) => [name, ours.test(name) ? 'x' : secret])),
  }))
  const lines = linesOf('debug', drafts)
  expect(lines.length).toBe(drafts.length)
  expect(lines.filter((line) => JSON.stringify(line).includes(secret))).toEqual([])
})
