import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { crashHome, type CrashHome } from '../support/chaos.ts'
import { jsonLines } from '../support/json-lines.ts'
import { startModel, type Model } from '../support/model.ts'
import { sendPlanted } from '../support/planted-requests.ts'
import { formsOf } from '../support/scan.ts'
import { until } from '../stack/until.ts'
import { plantedRuns } from './planted-runs.ts'
import { callServices } from './planted-services.ts'
import { expectMetrics } from './shown-metrics.ts'
import { Client, Connection } from '@temporalio/client'
import { readTemporalConfig } from '../../src/stack/temporal.ts'

/*
 * The logs of a whole stack show an operator each event once, with its ids. Secrets are planted in every
 * value. No log, no metric and no part of Temporal's database contains them.
 */

let home: CrashHome
let model: Model
/** One word without spaces, because some services repeat words of a request in their error codes. */
const secret = `s3cr3t_${randomBytes(12).toString('hex')}`

beforeAll(async () => {
  model = await startModel(`key-${secret}`)
  home = await crashHome({ env: { LOG_LEVEL: 'debug', TRACKER_BASE_URL: model.url } })
  await home.owner.settings({ approvals_enabled: true })
  await home.admin.createRule({
    name: `held ${secret}`,
    verdict: 'require_approval',
    tools: ['mail_send', 'Write'],
  })
})
afterAll(() => Promise.all([home?.close(), model?.close()]))

type Line = Readonly<Record<string, unknown>> & { readonly msg: string; readonly process: string }

/** All lines of API and worker, in order of time. */
function lines(): Line[] {
  const folder = join(home.stack.dataDir, 'logs')
  return ['api.log', 'worker.log']
    .flatMap((name) => jsonLines<Line>(join(folder, name)))
    .toSorted((a, b) => Number(a['time']) - Number(b['time']))
}
const linesOf = (runId: string, msg: string) =>
  lines().filter((line) => line['run_id'] === runId && line.msg === msg)

/** Waits for the line; fails if it was written more than once. */
async function theLine(runId: string, msg: string): Promise<Line> {
  await until(`the log says \`${msg}\``, () => linesOf(runId, msg).length > 0)
  const found = linesOf(runId, msg)
  expect(found).toHaveLength(1)
  return found[0] as Line
}

/** Temporal's UI shows the names of workflows and steps, so no secret is planted there. */
const workflow = async (steps: object[]): Promise<string> => {
  const definition = { inputs: { text: { type: 'string' } }, steps }
  const body = { name: 'Report', description: secret, definition }
  return (await home.member.good<{ id: string }>('POST', '/workflows', body)).id
}
const mail = { id: 'send', tool: 'mail_send', params: { to: 'ana@acme.test', subject: '{{input.text}}', text: '{{input.text}}' } } // prettier-ignore

describe('a run that is held, approved and sent', () => {
  test('leaves a line for its start, its hold, its approval and its end', async () => {
    const id = await workflow([mail])
    const accepted = await home.member.call<{ execution_id: string }>(
      'POST',
      `/workflows/${id}/execute?wait=0`,
      { inputs: { text: secret } },
    )
    const runId = accepted.body.execution_id
    const requestId = accepted.headers.get('x-request-id')
    const approvalId = await home.approver.untilHeld(runId, 'step')
    const vote = await home.approver.decide(approvalId, 'approve')
    await home.member.untilStatus(runId, 'completed')
    const ids = { organization_id: home.member.bootstrap.organization_id, run_id: runId, workflow_id: id }
    const ofRun = { ...ids, request_id: requestId }
    expect(await theLine(runId, 'run accepted')).toMatchObject({
      ...ofRun,
      status: 'accepted',
      process: 'api',
    })
    expect(await theLine(runId, 'approval requested')).toMatchObject({ ...ofRun, approval_id: approvalId, step_id: 'send', process: 'worker' }) // prettier-ignore
    expect(await theLine(runId, 'approval granted')).toMatchObject({ ...ids, request_id: vote.headers.get('x-request-id'), user_id: home.approver.bootstrap.users.approver.user_id, approval_id: approvalId, step_id: 'send', tool: 'mail_send' }) // prettier-ignore
    expect(await theLine(runId, 'run ended')).toMatchObject({
      ...ofRun,
      status: 'completed',
      process: 'worker',
    })
    // With `debug`, the log also has the states of the call, in order.
    const states = ['tool call decided', 'the call starts', 'the call is sent', 'tool call completed']
    await theLine(runId, 'tool call completed')
    const seen = lines().filter((line) => line['run_id'] === runId && states.includes(line.msg))
    expect(seen.map(({ msg }) => msg)).toEqual(['tool call decided', ...states])
    expect(seen.every((line) => line['step_id'] === 'send' && typeof line['time'] === 'number')).toBe(true)
  })
})

test('a run that fails names the step and the code of its error', async () => {
  const id = await workflow([{ id: 'lost', tool: 'file_read', params: { path: '{{input.text}}.md' } }])
  const runId = await home.member.execute(id, { text: secret })
  await home.member.untilStatus(runId, 'failed')
  expect(await theLine(runId, 'tool call failed')).toMatchObject({ step_id: 'lost', tool: 'file_read' })
  expect(await theLine(runId, 'run ended')).toMatchObject({ status: 'failed', step_id: 'lost', error_code: 'file_not_found' }) // prettier-ignore
})

plantedRuns({
  secret,
  workflow,
  get home() {
    return home
  },
  get model() {
    return model
  },
})

test('runs that use Google, Jira, Trello and Resend say of refusals only what to do', () =>
  callServices(home, model, secret))

test('a rejection, a cancellation and a held call of an agent', async () => {
  const id = await workflow([mail])
  const [rejected, cancelled] = (await Promise.all(
    [0, 1].map(() => home.member.execute(id, { text: secret }, { key: randomBytes(8).toString('hex') })),
  )) as [string, string]
  await home.approver.good('POST', `/approvals/${await home.approver.untilHeld(rejected, 'step')}/reject`, { comment: secret }) // prettier-ignore
  await home.member.untilStatus(rejected, 'rejected')
  expect(await theLine(rejected, 'approval rejected')).toMatchObject({ status: 'rejected', step_id: 'send' })
  expect(await theLine(rejected, 'run ended')).toMatchObject({ status: 'rejected', step_id: 'send', error_code: 'rejected' }) // prettier-ignore
  await home.approver.untilHeld(cancelled, 'step')
  await home.member.cancel(cancelled)
  expect(await theLine(cancelled, 'workflow cancel')).toMatchObject({ user_id: home.member.bootstrap.users.member.user_id }) // prettier-ignore
  expect(await theLine(cancelled, 'run ended')).toMatchObject({ status: 'cancelled' })
  const held = await home.member.good<{ approval_id: string; session_run_id: string; decision_id: string }>('POST', '/authorize', { agent: { name: secret, kind: 'hook' }, session_id: secret, tool_name: 'Write', tool_input: { file_path: `/tmp/${secret}`, content: secret }, tool_use_id: secret }) // prettier-ignore
  expect(await theLine(held.session_run_id, 'approval requested')).toMatchObject({
    approval_id: held.approval_id,
    decision_id: held.decision_id,
  })
  expect(await theLine(held.session_run_id, 'agent call decided')).toMatchObject({ decision_id: held.decision_id, status: 'require_approval' }) // prettier-ignore
})

test('a denied call names the rule', async () => {
  const runId = await home.member.execute(await workflow([mail]), { text: secret })
  const approvalId = await home.approver.untilHeld(runId, 'step')
  const rule = await home.admin.createRule({
    name: `denied ${secret}`,
    verdict: 'deny',
    tools: ['mail_send'],
  })
  try {
    await home.approver.decide(approvalId, 'approve')
    await home.member.untilStatus(runId, 'denied')
    expect(await theLine(runId, 'tool call denied')).toMatchObject({ step_id: 'send', rule_id: rule.id })
  } finally {
    await home.admin.deleteRule(rule.id)
  }
})

test('a worker that dies after a mail was sent: the unknown outcome and its resolution', async () => {
  const id = await workflow([mail])
  const runId = await home.member.execute(id, { text: secret })
  const approvalId = await home.approver.untilHeld(runId, 'step')
  await home.faults.at('effect.sent:after', () => void home.approver.decide(approvalId, 'approve'))
  await home.admin.untilRun(runId, 'unknown', (run) => run.steps[0]?.status === 'unknown_outcome')
  expect(await theLine(runId, 'tool call unknown outcome')).toMatchObject({ level: 40, step_id: 'send' })
  await home.admin.resolve(runId, 'send', 'fail')
  await home.member.untilStatus(runId, 'failed')
  expect(await theLine(runId, 'tool call resolved')).toMatchObject({
    level: 30,
    outcome: 'fail',
    step_id: 'send',
    user_id: home.admin.bootstrap.users.admin.user_id,
  })
  expect(await theLine(runId, 'run ended')).toMatchObject({
    error_code: 'resolved_as_failed',
    step_id: 'send',
  })
})

test('a temporary failure is one line for each retry, with the code of the error', async () => {
  await home.sink.behave({ kind: 'refuse', at: 'rcpt', code: 450 })
  const id = await workflow([{ ...mail, retry: { attempts: 2, backoff_seconds: 1 } }])
  const runId = await home.member.execute(id, { text: secret })
  await home.approver.decide(await home.approver.untilHeld(runId, 'step'), 'approve')
  await home.member.untilStatus(runId, 'failed')
  expect(await theLine(runId, 'tool call retry')).toMatchObject({ step_id: 'send', attempt: 1, error_code: expect.any(String) }) // prettier-ignore
  await home.sink.behave({ kind: 'accept' })
})

test('a mail through a service that refuses it with its words', async () => {
  const { answer } = model
  model.answer = ({ path }) =>
    path === '/domains'
      ? { status: 200, body: { data: [] } }
      : { status: 422, body: { name: 'missing_required_field', message: `${secret} is wrong` } }
  const from = 'desk@larkspur.example'
  const credential = { provider: 'resend', api_key: `key-${secret}`, from, base_url: model.url }
  const connecting = { credential, scope: 'organization' }
  const { id } = await home.admin.good<{ id: string }>('POST', '/tools/mail_send/connect', connecting)
  const runId = await home.member.execute(await workflow([mail]), { text: secret })
  await home.approver.decide(await home.approver.untilHeld(runId, 'step'), 'approve')
  const { steps } = await home.member.untilStatus(runId, 'failed')
  expect(model.arrived.at(-1)).toMatchObject({ path: '/emails', body: expect.stringContaining(secret) })
  expect(steps[0]?.error?.code).toBe('mail_refused')
  expect(JSON.stringify(steps)).not.toContain(secret)
  expect(await theLine(runId, 'tool call failed')).toMatchObject({ step_id: 'send', tool: 'mail_send' })
  await home.admin.good('DELETE', `/connections/${id}`)
  model.answer = answer
})

test('a refusal over a quota', async () => {
  const organization = `/organizations/${home.member.bootstrap.organization_id}/quota`
  await home.owner.good('PATCH', organization, { workflow_runs_per_hour: 1 })
  const id = await workflow([mail])
  const answer = await home.member.once('POST', `/workflows/${id}/execute?wait=0`, {
    inputs: { text: secret },
  })
  expect(answer.code).toBe('quota_exceeded')
  const requestId = answer.headers.get('x-request-id')
  const found = () => lines().filter((line) => line['event'] === 'quota.exceeded')
  await until('the log says it', () => found().length > 0)
  expect(found()).toMatchObject([{ request_id: requestId, limit: 'workflow_runs_per_hour', workflow_id: id }])
  await home.owner.good('PATCH', organization, { workflow_runs_per_hour: 600_000 })
})

test('the metrics of API and worker show what has happened', () => expectMetrics(home.stack))

test('requests of many kinds, none of which reaches Temporal with its words', async () => {
  const gated = await sendPlanted(home, secret, workflow)
  expect(await theLine(gated, 'run ended')).toMatchObject({ status: 'rejected', error_code: 'rejected' })
})

test('while Temporal does not answer, runs and the log say so', async () => {
  const runId = await home.member.execute(await workflow([mail]), { text: secret })
  const approvalId = await home.approver.untilHeld(runId, 'step')
  const seen = (msg: string) => lines().filter((line) => line.msg === msg).length
  const away = 'Temporal cannot be reached: runs wait until it is back'
  const before = seen(away)
  const [temporal] = home.stack.processes().filter(({ role }) => role === 'temporal')
  process.kill(temporal?.pid ?? 0, 'SIGSTOP')
  try {
    const run = await home.member.untilRun(runId, 'one that says it', ({ status_reason: reason }) =>
      reason.includes('Temporal cannot be reached'),
    )
    expect(run).toMatchObject({
      status: 'paused',
      status_reason: expect.stringMatching(
        /^step `send` waits for approval by .*; Temporal cannot be reached, so the run goes on only once it is back$/,
      ),
    })
    expect(seen(away)).toBe(before + 1)
  } finally {
    process.kill(temporal?.pid ?? 0, 'SIGCONT')
  }
  await until('the log says that it is back', () => seen('Temporal answers again') > 0)
  await home.approver.decide(approvalId, 'approve')
  expect((await home.member.untilStatus(runId, 'completed')).status_reason).toBe('every step has ended')
})

/** Makes a workflow task fail, and expects a line in the log of the worker. */
async function expectFailedTask(
  address: string,
  lines: () => readonly { readonly msg: string }[],
): Promise<void> {
  const connection = await Connection.connect({ address })
  const client = new Client({ connection, namespace: readTemporalConfig().namespace })
  try {
    // The worker has no workflow of this type, so each task of it fails until it is terminated.
    const options = { taskQueue: 'countersign', workflowId: 'unknown' }
    const workflow = await client.workflow.start('unknown', options)
    const failed = () => lines().filter(({ msg }) => msg === 'Temporal: Failing workflow task')
    await until('the log says it', () => failed().length > 0)
    expect(failed()[0]).toMatchObject({ level: 40, temporal_run_id: workflow.firstExecutionRunId })
    await workflow.terminate()
  } finally {
    await connection.close()
  }
}

test('a workflow task that fails is a line with the run’s id in Temporal', () =>
  expectFailedTask(home.member.bootstrap.temporal_address, lines))

test('a lost database', async () => {
  await home.stack.kill9('postgres')
  await until('the loss is logged', () => lines().some(({ msg }) => msg === 'a database connection was lost'))
  await until('it is up again', () => home.stack.output().includes('postgres is up again'))
})

test('the planted secrets are in no log, in no metric and not in Temporal’s database', async () => {
  for (const name of ['metrics_url', 'worker_metrics_url'])
    expect(
      await (await fetch(home.stack.bootstrap<Record<string, string>>()[name] as string)).text(),
    ).not.toContain(secret)
  const { dataDir } = home.stack
  await home.stack.stop()
  const inFolder = (folder: string) =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(folder, entry.name))
  const files = [
    ...inFolder(join(dataDir, 'logs')),
    ...inFolder(dataDir).filter((path) => /\.(log|db)/.test(path)),
  ]
  // Jira's credential is sent in base64.
  const isHeld = (bytes: Buffer) => formsOf(secret).some((form) => bytes.includes(form))
  expect(files.filter((path) => isHeld(readFileSync(path)))).toEqual([])
  expect(isHeld(Buffer.from(home.stack.output()))).toBe(false)
  expect(files.some((path) => path.endsWith('temporal.db'))).toBe(true)
  const kept = readdirSync(join(dataDir, 'audit-checkpoints'), { recursive: true })
  expect(kept.join()).toMatch(/\d{15}\.note/)
  expect(readdirSync(join(dataDir, 'logs'))).toEqual(
    expect.arrayContaining(['api.log', 'postgres.log', 'supervisor.log', 'temporal.log', 'worker.log']),
  )
  expect(readFileSync(join(dataDir, 'logs', 'supervisor.log'), 'utf8')).toContain('postgres is up again')
  // Names of steps are in Temporal's database, so the search works.
  expect(readFileSync(join(dataDir, 'temporal.db')).includes('send')).toBe(true)
})
