import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import type { Context } from '../../../src/governance/context.ts'
import type { Repeat, ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { getTool } from '../../../src/tools/index.ts'
import { sealWith, type SealedText } from '../../../src/governance/sealing/format.ts'
import { outputBinding, paramsBinding } from '../../../src/governance/sealing/bindings.ts'
import { newId } from '../../../src/contract/ids.ts'
import type { FinishInput } from '../../../src/contract/messages.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import { sealState } from '../../../src/governance/approvals/approved-state.ts'
import { prepareChange } from '../../../src/governance/applying/apply.ts'
import { vote } from '../../../src/governance/approvals/vote.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { canonicalJson, hashOf } from '../../../src/shared/canonical-json.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { setFreeze } from '../../../src/governance/rules/freeze.ts'
import { createRule, deleteRule } from '../rules/free-changes.ts'
import { cancelRun } from '../../../src/governance/runs/end/cancel.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import type { Basis, CallOutcome, Decision, DefinedCall, ResolvedCall } from '../../../src/calls/runs/call.ts'
import { readDefinedCall } from '../../../src/calls/runs/call.ts'
import { decideSteps } from '../../../src/calls/runs/effect.ts'
import { decideNoCalls } from '../../../src/calls/runs/no-call.ts'
import { prepareNoCall } from '../../../src/calls/runs/prepare.ts'
import { markSent, recordOutcomes, type MayAct } from '../../../src/calls/runs/outcome.ts'
import { resolveStep, type ResolveRequest } from '../../../src/calls/runs/resolve.ts'
import { openOutput } from '../../../src/governance/runs/values/outputs.ts'
import { changeGovernance } from '../rules/free-changes.ts'
import { createWorkflow, insertWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { ruleInput } from '../../../src/governance/rules/rule-kinds.ts'
import type { Json, JsonObject } from '../../../src/policy/types.ts'
import { expandStep } from '../../../src/calls/runs/items.ts'
import { readRun } from './whole-run.ts'
import { testContext, testDataKey, withPeople, type TestContext, messagesOf } from '../support.ts'

/** A definition in which no value passes between steps: one step `s`, for a tool of any `repeat`. */
export const oneStep = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }

export interface Engine extends TestContext {
  readonly organizationId: string
  readonly caller: (name: BootstrapName) => Caller
  readonly keyOf: (name: BootstrapName) => string
  /** Saves a workflow as `author`, and accepts a run of it that `by` starts. */
  run(definition?: object, inputs?: JsonObject, by?: BootstrapName, author?: BootstrapName): Promise<string>
  /** Saves a workflow as this person, with all checks, and accepts a run of it. */
  runAs(caller: Caller, definition: object, over?: { name?: string; inputs?: JsonObject }): Promise<string>
  /** Starts a run with one step of this many items. Returns the run’s id and the calls of the items. */
  items(count: number): Promise<[string, ResolvedCall[]]>
  /** Reads a run in the API’s form. */
  readRun(runId: string): ReturnType<typeof readRun>
  decide(op: ResolvedCall): Promise<Decision>
  record(op: CallOutcome): ReturnType<typeof recordNow>
  vote(
    approvalId: string,
    name: BootstrapName,
    decision?: 'approve' | 'reject',
    comment?: string,
  ): Promise<void>
  /** Replaces all rules with these, and turns approvals on. */
  rules(...bodies: object[]): Promise<void>
  settings(patch: Parameters<typeof changeGovernance>[2]): Promise<void>
  cancel(runId: string, by?: BootstrapName, reason?: string): Promise<unknown>
  finish(runId: string, status: FinishInput['status']): Promise<unknown>
  /** Resolves the unknown outcome of a step, by default of the only step. */
  resolve(runId: string, outcome: ResolveRequest['outcome'], over?: Partial<ResolveRequest>): Promise<unknown>
  /** Does `work` while the organization is frozen. */
  frozen<T>(work: () => Promise<T>, reason?: string): Promise<T>
  /** Decides a call that must be allowed. Returns the number of its attempt. */
  go(op: ResolvedCall): Promise<number>
  /** Decides a call that must be held. Returns the id of its approval. */
  hold(op: ResolvedCall): Promise<string>
  /** Marks the call as sent, with the basis of its last decision. */
  mark(op: ResolvedCall, attempt: number, sentWith?: string): Promise<MayAct>
  /** Makes a call whose outcome nobody knows. */
  lose(op: ResolvedCall): Promise<ResolvedCall>
  makeLate(approvalId: string): Promise<unknown>
  basisOf(op: ResolvedCall): Promise<Basis>
  keptOutput(op: ResolvedCall): Promise<Json>
  effectOf(op: Pick<ResolvedCall, 'key'>): ReturnType<typeof effectOf>
  runOf(runId: string): ReturnType<typeof runOf>
  stepOf(runId: string, stepId?: string): ReturnType<typeof stepOf>
  approvalsOf(runId: string): ReturnType<typeof approvalsOf>
  eventsOf(runId: string): Promise<string[]>
  /** The payloads of the wake-ups that were sent to the run. */
  wakesOf(runId: string): Promise<unknown[]>
}

const recordNow = (context: Context, organizationId: string, op: CallOutcome) =>
  context.combiner.join(organizationId, recordOutcomes, op)

export async function startEngine(overrides: NodeJS.ProcessEnv = {}): Promise<Engine> {
  // No mail is sent, because the work of the tools is simulated. Without an SMTP server, `mail_send` would not be
  // available.
  const test = await testContext({ SMTP_URL: 'smtp://127.0.0.1:9', ...overrides })
  const { context } = test
  const { identities, caller } = await withPeople(context)
  const organizationId = identities.organization_id
  const engine: Engine = {
    ...test,
    organizationId,
    keyOf: (name) => identities.users[name].api_key,
    caller,
    async run(definition = oneStep, inputs = {}, by = 'member', author = 'member') {
      const workflowId = newId('workflow')
      const input = { name: 'w', description: '', definition: workflowDefinition.parse(definition) }
      // Saved without the check of paths: simulated tools return outputs of other forms than the catalogue says.
      await context.combiner.run(organizationId, 'org.change', (tx) =>
        insertWorkflow(tx, caller(author), workflowId, input),
      )
      return (await acceptRun(context, { caller: caller(by), workflowId, inputs })).runId
    },
    async runAs(by, definition, { name = 'w', inputs = {} } = {}) {
      const body = { name, description: '', definition: workflowDefinition.parse(definition) }
      const { id: workflowId } = await createWorkflow(context, by, body)
      return (await acceptRun(context, { caller: by, workflowId, inputs })).runId
    },
    async items(count) {
      const items = Array.from({ length: count }, (_, item) => item)
      const runId = await engine.run({ steps: [{ ...oneStep.steps[0], for_each: items }] })
      await expandStep(context, runId, 's')
      return [runId, items.map((item) => opOf(runId, { item }))]
    },
    readRun: (runId) => readRun(context, organizationId, runId),
    decide: (op) => context.combiner.join(organizationId, decideSteps, op),
    record: (op) => recordNow(context, organizationId, op),
    vote: (approvalId, name, decision = 'approve', comment = '') =>
      vote(context, {
        caller: caller(name),
        approvalId,
        decision,
        comment,
        prepareChange: prepareChange(context),
      }),
    async rules(...bodies) {
      const own = context.db.selectFrom('rules').where('organization_id', '=', organizationId)
      const rows = await own.select('id').execute()
      for (const { id } of rows) await deleteRule(context, 'rule', caller('admin'), id)
      for (const body of bodies) await createRule(context, 'rule', caller('admin'), ruleInput.parse(body))
    },
    async settings(patch) {
      await changeGovernance(context, caller('owner'), patch)
    },
    cancel: (runId, by = 'member', reason) =>
      cancelRun(context, { caller: caller(by), runId, ...(reason === undefined ? {} : { reason }) }),
    finish: (runId, status) => finishRun(context, { runId, status }),
    resolve: (runId, outcome, over = {}) =>
      resolveStep(context, { caller: caller('admin'), runId, stepId: 's', items: null, outcome, ...over }),
    async frozen(work, reason = 'incident') {
      await setFreeze(context, caller('owner'), true, {
        reason: reason,
        askedAt: performance.now(),
        once: null,
      })
      try {
        return await work()
      } finally {
        await setFreeze(context, caller('owner'), false, {
          reason: 'over',
          askedAt: performance.now(),
          once: null,
        })
      }
    },
    go: (op) => go(engine, op),
    hold: (op) => hold(engine, op),
    mark: (op, attempt, sentWith) => mark(context, op, attempt, sentWith),
    async lose(op) {
      await engine.mark(op, await engine.go(op))
      await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
      return op
    },
    makeLate: (approvalId) => makeLate(context, approvalId),
    basisOf: (op) => basisOf(context, op),
    keptOutput: (op) => keptOutput(context, op),
    effectOf: (op) => effectOf(context, op),
    runOf: (runId) => runOf(context, runId),
    stepOf: (runId, stepId) => stepOf(context, runId, stepId),
    approvalsOf: (runId) => approvalsOf(context, runId),
    eventsOf: (runId) => eventsOf(context, runId),
    async wakesOf(runId) {
      const messages = await messagesOf(context, runId)
      return messages.flatMap(({ kind, payload }) => (kind === 'run.wake' ? [payload] : []))
    },
  }
  await engine.settings({ approvals_enabled: true })
  return engine
}

/** Starts an engine for all tests of a file, and passes it to `use`. Its rules are removed before each test. */
export function useEngine(use: (engine: Engine) => void, overrides: NodeJS.ProcessEnv = {}): void {
  let engine: Engine | undefined
  beforeAll(async () => {
    engine = await startEngine(overrides)
    use(engine)
  })
  afterAll(() => engine?.close())
  beforeEach(() => engine?.rules())
}

/** A tool of the catalogue with this `repeat`. */
export const toolOf = (repeat: Repeat): ToolDeclaration => ({
  ...(getTool('mail_send') as ToolDeclaration),
  repeat,
})

/** One call, prepared as the interceptor prepares it. */
export function opOf(runId: string, over: Partial<ResolvedCall> & { item?: number } = {}): ResolvedCall {
  const { item, ...rest } = over
  const params = over.params ?? { to: 'a@b.test' }
  const tool = over.tool ?? toolOf('unsafe')
  const key = { runId, stepId: 's', itemIndex: item ?? -1 }
  return {
    ...({ run: { id: runId } } as DefinedCall),
    key,
    stopped: null,
    tool,
    wanted: true,
    problem: null,
    params,
    paramsHash: hashOf({ tool: tool.name, params }),
    paramLabels: new Map(),
    sealed: sealWith(testDataKey, paramsBinding(key), canonicalJson({ params, paramLabels: [] })),
    labels: [],
    labelSources: [],
    installation: { installationTools: 'all', smtpUrl: 'smtp://127.0.0.1:1' },
    mustBeConfirmed: true,
    approvalSeconds: 3600,
    earlier: { reused: null, repeats: null },
    ...rest,
  }
}

/** An output in the form in which an attempt records it. */
export function outputOf(key: ResolvedCall['key'], value: Json): SealedText {
  const text = JSON.stringify(value)
  return { sealed: sealWith(testDataKey, outputBinding(key), text), bytes: Buffer.byteLength(text) }
}

export function outcomeOf(
  op: ResolvedCall,
  attempt: number,
  result: CallOutcome['result'] | string,
): CallOutcome {
  const error = { code: 'e', message: 'm', retryable: false }
  const call = { source: 'workflows', tool: op.tool.name, sideEffect: op.tool.sideEffect, params: op.params, labels: op.labels } as const // prettier-ignore
  const named: Record<string, CallOutcome['result']> = {
    completed: { state: 'completed', output: outputOf(op.key, { ok: true }), labels: [], call },
    failed: { state: 'failed', error },
    retry: { state: 'retry', error },
    cancelled: { state: 'cancelled' },
    unknown_outcome: { state: 'unknown_outcome' },
  }
  const full = typeof result === 'string' ? (named[result] as CallOutcome['result']) : result
  return { key: op.key, attempt, result: full, durationMs: 5 }
}

const mailRule =
  (name: string, verdict: string) =>
  (over: object = {}) => ({
    ...{ name, verdict, tools: ['mail_send'] },
    ...over,
  })
export const holdRule = mailRule('hold', 'require_approval')
export const denyRule = mailRule('deny', 'deny')

/** Asks, or goes on with, the question of a step, as a worker does whenever its run is woken. */
export async function askStep(context: Context, runId: string, stepId = 's', itemIndex = -1) {
  const defined = await readDefinedCall(context, { runId, stepId, itemIndex })
  const op = await prepareNoCall(context, defined, { as: 'ask' }, new AbortController().signal)
  return context.combiner.join(defined.run.organizationId, decideNoCalls, op)
}

/** The opened output that is stored in the call’s row. */
export async function keptOutput(context: Context, op: ResolvedCall): Promise<Json> {
  const row = await effectOf(context, op)
  return openOutput(context, op.key, row?.output_sealed ?? null)
}

export async function effectOf(context: Context, op: Pick<ResolvedCall, 'key'>) {
  return context.db
    .selectFrom('effects')
    .selectAll()
    .where('run_id', '=', op.key.runId)
    .where('step_id', '=', op.key.stepId)
    .where('item_index', '=', op.key.itemIndex)
    .executeTakeFirst()
}

export const runOf = (context: Context, runId: string) =>
  context.db.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow()

export const stepOf = (context: Context, runId: string, stepId = 's') =>
  context.db
    .selectFrom('run_steps')
    .selectAll()
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .executeTakeFirstOrThrow()

export const approvalsOf = (context: Context, runId: string) =>
  context.db.selectFrom('approvals').selectAll().where('run_id', '=', runId).orderBy('id').execute()

export async function eventsOf(context: Context, runId: string): Promise<string[]> {
  const rows = await context.db
    .selectFrom('run_events')
    .select(['seq', 'type'])
    .where('run_id', '=', runId)
    .orderBy('seq')
    .execute()
  const numbers = rows.map((row) => row.seq)
  if (numbers.some((seq, index) => seq !== index + 1))
    throw new Error(`events have gaps: ${numbers.join(' ')}`)
  return rows.map((row) => row.type)
}

/** Decides a call that must be held. Returns the id of its approval. */
export async function hold(engine: Engine, op: ResolvedCall): Promise<string> {
  const verdict = await engine.decide(op)
  if (!verdict.go && verdict.state === 'unseen')
    return hold(engine, { ...op, seen: await nothingSeen(engine) })
  if (verdict.go || verdict.state !== 'held') throw new Error(`not held: ${JSON.stringify(verdict)}`)
  return verdict.approvalId as string
}

/** The value for a call in which no existing data was read for the approvers. */
export async function nothingSeen({ context }: Engine) {
  const approvalId = newId('approval')
  const state = { revision: null, fields: [] }
  return { approvalId, sealed: await sealState(context.sealer, approvalId, state) }
}

/** Decides a call that must be allowed. Returns the number of its attempt. */
export async function go(engine: Engine, op: ResolvedCall): Promise<number> {
  const verdict = await engine.decide(op)
  if (!verdict.go) throw new Error(`did not go: ${JSON.stringify(verdict)}`)
  return verdict.attempt
}

/** The basis of the call’s last decision. */
async function basisOf(context: Context, op: ResolvedCall): Promise<Basis> {
  const row = await context.db
    .selectFrom('effects as e')
    .innerJoin('decisions as d', 'd.id', 'e.decision_id')
    .innerJoin('memberships as m', (join) =>
      join.onRef('m.user_id', '=', 'd.requested_by').onRef('m.organization_id', '=', 'e.organization_id'),
    )
    .select(['d.policy_version', 'm.role'])
    .where('e.run_id', '=', op.key.runId)
    .where('e.step_id', '=', op.key.stepId)
    .where('e.item_index', '=', op.key.itemIndex)
    .executeTakeFirstOrThrow()
  // Nobody has edited the call.
  return { policyVersion: row.policy_version, role: row.role, typists: {} }
}

/** Marks the call as sent, with the basis of its last decision. */
export const mark = async (
  context: Context,
  op: ResolvedCall,
  attempt: number,
  sentWith: string | null = null,
): Promise<MayAct> => markSent(context, op.key, attempt, await basisOf(context, op), sentWith)

/** Moves an approval’s expiry into the past. The write is made as superuser. */
export const makeLate = (context: Context, approvalId: string) =>
  context.db
    .updateTable('approvals')
    .set({ expires_at: new Date(Date.now() - 60_000) })
    .where('id', '=', approvalId)
    .execute()

export type { ResolvedCall }
