import { sql, type Selectable } from 'kysely'
import { restartLane } from '../../../db/queries/lanes.ts'
import { endOpenEffects } from '../../../db/queries/runs.ts'
import type { Db } from '../../../db/schema/index.ts'
import { catalog } from '../../../tools/index.ts'
import type { ToolDeclaration } from '../../../tools/kit/tool.ts'
import type { ChangingRuns, ReadingRuns, UnsealingRuns } from '../../context.ts'
import type { FinalStatus, FinishInput } from '../../../contract/messages.ts'
import type { EventData } from '../../../contract/webhook-events.ts'
import { isBadOutcome, outcomes, runEnded, type RunStatus } from '../../../contract/status.ts'
import type { RunsTable, RunStepsTable } from '../../../db/schema/runs.ts'
import { references, resolve, type Scope } from '../../../policy/templates.ts'
import type { Json } from '../../../policy/types.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import type { LoggedFields } from '../../audit/entry.ts'
import { notFound } from '../../errors.ts'
import { announceWithdrawn, withdrawWhere } from '../../approvals/moves.ts'
import { grantSlots } from '../../limits/slots.ts'
import { readRunSnapshot, type RunSnapshot } from '../values/run-snapshot.ts'
import { load, readStarts } from '../../../calls/runs/loading.ts'
import { forgetRun, ResourceExhausted } from '../values/outputs.ts'
import { resultBinding } from '../../sealing/bindings.ts'
import { readVersion } from '../values/version-cache.ts'
import { quoted } from '../../approvals/votes.ts'

type Run = Selectable<RunsTable>

/** Commit point `run.finish`. An ended run does not change. */
export async function finishRun(
  context: ChangingRuns,
  input: FinishInput,
  signal: AbortSignal = new AbortController().signal,
): Promise<FinalStatus> {
  const fixed = await readRunSnapshot(context, input.runId)
  const now = await readEnd(context.db, input.runId)
  if (runEnded(now.status)) {
    await forgetCached(context, fixed)
    return now.status as FinalStatus
  }
  const resolved =
    input.status === 'completed' && now.cancel_requested_at === null
      ? await resolveResult(context, fixed, signal)
      : { result: null, problem: null }
  const result =
    resolved.result === null
      ? null
      : await context.sealer.seal(resultBinding(fixed.id), JSON.stringify(resolved.result))
  const status = await context.combiner.run(fixed.organizationId, 'run.finish', async (tx) => {
    const { run, steps } = await readRun(tx, input.runId)
    if (hasEnded(run)) return run.status
    const end = async (as: FinalStatus, reason: string, cause: LoggedFields = {}): Promise<FinalStatus> => {
      await endRun(tx, run, as, reason, as === 'completed' ? result : null, cause)
      return as
    }
    if (input.status === 'cancelled' || (input.status === 'completed' && run.cancel_requested_at !== null))
      return end('cancelled', await whyCancelled(tx, run))
    // Our Temporal workflow never reports this. Another program started a workflow with the run's id.
    if (input.status === 'completed' && !(await everyStepAllows(context, fixed, steps)))
      return end('failed', 'the workflow ended before its steps had', { error_code: 'ended_early' })
    if (resolved.problem !== null) return end('failed', resolved.problem, { error_code: 'unresolved_result' })
    const { reason, cause } = await whyEnded(tx, input, steps)
    return end(input.status, reason, cause)
  })
  await forgetCached(context, fixed)
  return status
}

/**
 * Commit point `run.finish`, in the transaction that saves the outcome of the last call. Never call this for
 * a run with a `result`: the outputs for it are read without a lock, so the Temporal workflow ends such a
 * run.
 */
export async function finishWithLastCall(context: ChangingRuns, fixed: RunSnapshot): Promise<void> {
  await context.combiner.run(fixed.organizationId, 'run.finish', async (tx) => {
    const { run, steps } = await readRun(tx, fixed.id)
    if (run.status !== 'running' || run.cancel_requested_at !== null) return
    if (!(await everyStepAllows(context, fixed, steps))) return
    const { reason } = await whyEnded(tx, { runId: run.id, status: 'completed' }, steps)
    await endRun(tx, run, 'completed', reason)
  })
}

const hasEnded = (run: Run): run is Run & { status: FinalStatus } => runEnded(run.status)

/** Without the lock: an ended run does not change, and any other status is read again under the lock. */
function readEnd(db: Db, runId: string): Promise<Pick<Run, 'status' | 'cancel_requested_at'>> {
  return db
    .selectFrom('runs')
    .select(['status', 'cancel_requested_at'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow()
}

async function forgetCached(context: ReadingRuns, run: RunSnapshot): Promise<void> {
  const { definition } = await readVersion(context, run.workflowId, run.workflowVersion)
  forgetRun(
    context.runCaches,
    run.id,
    definition.steps.map((step) => step.id),
  )
}

async function readRun(tx: ChainTx, runId: string): Promise<{ run: Run; steps: readonly EndedStep[] }> {
  const runs = tx.send(tx.trx.selectFrom('runs').selectAll().where('id', '=', runId))
  const steps = tx.send(
    tx.trx
      .selectFrom('run_steps')
      .select(['step_id', 'status', 'error', 'item_count'])
      .where('run_id', '=', runId),
  )
  const [run] = await runs
  if (run === undefined) throw notFound('run', runId)
  return { run, steps: await steps }
}

/** Returns whether each step has ended well, or has ended badly with `on_error: continue`. */
async function everyStepAllows(
  context: ReadingRuns,
  run: RunSnapshot,
  steps: readonly EndedStep[],
): Promise<boolean> {
  const { definition } = await readVersion(context, run.workflowId, run.workflowVersion)
  const goesOn = new Set(
    definition.steps.filter((step) => step.on_error === 'continue').map((step) => step.id),
  )
  return steps.every(
    ({ step_id, status }) =>
      status === 'completed' ||
      status === 'skipped' ||
      (goesOn.has(step_id) && ['failed', 'denied', 'rejected', 'expired'].includes(status)),
  )
}

/**
 * Cancels open steps and calls, and withdraws pending approvals. A call that may have happened becomes
 * `unknown_outcome`, and so does its step. `result` is sealed.
 */
export async function endRun(
  tx: ChainTx,
  run: Run,
  status: FinalStatus,
  reason: string,
  result: Buffer | null = null,
  cause: LoggedFields = {},
): Promise<void> {
  const { trx } = tx
  const unknown = endEffects(tx, run.id)
  const ended = tx.send(endSteps(tx, run.id))
  const withdrawn = withdrawWhere(tx, sql`run_id = ${run.id} and status = 'pending'`)
  const row = {
    status: status satisfies RunStatus,
    status_reason: reason,
    finished_at: tx.now,
    result_sealed: result,
    slot: null,
  }
  void tx.send(trx.updateTable('runs').set(row).where('id', '=', run.id))
  if (run.poll_of !== null)
    void tx.send(restartLane({ kind: 'trigger', id: run.poll_of, organizationId: tx.organizationId }))
  if (run.slot === 'taken') grantSlots(tx, tx.policy.limits.concurrent_executions)
  const endedSteps = await ended
  // The calls of an ended run need not be resolved any more, so messages that ask a person to resolve them are updated.
  if (endedSteps.some((step) => step.status === 'unknown_outcome')) tx.notice('run', run.id)
  for (const step of endedSteps)
    if (step.started_at !== null)
      tx.event(run.id, `step.${step.status}`, { step_id: step.step_id, tool: step.tool })
  announceWithdrawn(tx, await withdrawn)
  tx.event(run.id, `run.${status}`, { reason })
  tx.runEnded = true
  tx.append({
    eventType: 'workflow.execute',
    action: 'finish',
    status,
    // This audit entry is about the whole run, so the entry's actor is the requester.
    actor: { type: 'user', id: run.requested_by, apiKeyId: run.api_key_id },
    workflowId: run.workflow_id,
    runId: run.id,
    durationMs: tx.now.getTime() - run.created_at.getTime(),
    metadata: {
      input_hash: run.input_hash,
      nodes_executed: run.nodes_executed,
      nodes_failed: run.nodes_failed,
      requested_by: run.requested_by,
    },
    logged: { request_id: run.request_id, ...cause },
  })
  const about = { run_id: run.id, workflow_id: run.workflow_id }
  for (const call of await unknown) tx.publish('effect.unknown', { ...about, ...call })
  const { step_id, item_index, error_code } = cause
  // Nobody who subscribes waits for the call of a poll.
  if (run.poll_of !== null) return
  tx.publish(`run.${status}`, {
    ...about,
    ...(step_id === undefined ? {} : { step_id }),
    ...(item_index === undefined ? {} : { item_index }),
    ...(error_code === undefined ? {} : { error_code }),
  })
}

type UnknownCall = Required<Pick<EventData, 'step_id' | 'item_index' | 'tool'>>

/** `effect.sent` marks only a call in `intent`, so no call is marked as sent after this one statement. */
function endEffects(tx: ChainTx, runId: string): Promise<readonly UnknownCall[]> {
  const keyed = Object.values(catalog).flatMap((tool: ToolDeclaration) =>
    tool.repeat === 'keyed' ? [tool.name] : [],
  )
  // Must equal `mayHaveHappened` in effect.ts. `sent_at` is never set for reads and transactional writes.
  const mayHaveHappened = sql`(sent_at is not null or (state = 'intent' and tool = any(${keyed}::text[])))`
  return tx.send(endOpenEffects<UnknownCall>({ runId, now: tx.now, mayHaveHappened }))
}

function endSteps(tx: ChainTx, runId: string) {
  return tx.trx
    .updateTable('run_steps')
    .set((eb) => ({
      status: eb
        .case()
        .when(
          eb.exists(
            eb
              .selectFrom('effects as e')
              .select('e.run_id')
              .whereRef('e.run_id', '=', 'run_steps.run_id')
              .whereRef('e.step_id', '=', 'run_steps.step_id')
              .where('e.state', '=', 'unknown_outcome'),
          ),
        )
        .then('unknown_outcome' as const)
        .else('cancelled' as const)
        .end(),
      finished_at: tx.now,
    }))
    .where('run_id', '=', runId)
    .where('finished_at', 'is', null)
    .returning(['step_id', 'status', 'tool', 'started_at'])
}

interface Result {
  readonly result: Json
  readonly problem: string | null
}

/** The starts of loads for the run's `result` are counted under this step id (loading.ts). */
const resultStepId = ''

/** If a reference has no value, returns the problem, and the run fails. */
async function resolveResult(context: UnsealingRuns, run: RunSnapshot, signal: AbortSignal): Promise<Result> {
  const { definition } = await readVersion(context, run.workflowId, run.workflowVersion)
  const templates = definition.result as Json | undefined
  if (templates === undefined) return { result: null, problem: null }
  const failed = (error: unknown): Result => ({
    result: null,
    problem: `the \`result\` could not be resolved: ${(error as Error).message}`,
  })
  const resolved = (scope: Scope): Result => {
    try {
      return { result: resolve(templates, scope).value, problem: null }
    } catch (error) {
      return failed(error)
    }
  }
  const stepIds = references(templates).flatMap((each) =>
    each.kind === 'step' && each.of === 'output' ? [each.stepId] : [],
  )
  const key = { runId: run.id, stepId: resultStepId, itemIndex: -1 }
  const starts = await readStarts(context.db, key)
  const what = { key, run, definition, sources: [...new Set(stepIds)], templates, starts, sealedBytes: null }
  try {
    const { value, permit } = await load(context, what, signal, resolved)
    permit.release()
    return value
  } catch (error) {
    if (error instanceof ResourceExhausted) return failed(error)
    throw error
  }
}

export type EndedStep = Pick<Selectable<RunStepsTable>, 'step_id' | 'status' | 'error' | 'item_count'>

interface WhyEnded {
  readonly reason: string
  readonly cause: LoggedFields
}

const verbs: Readonly<Partial<Record<FinalStatus, string>>> = {
  denied: 'was denied',
  rejected: 'was rejected',
  expired: 'expired',
}

const mostNamed = 5

/** Also names the steps that ended badly and let the run go on. */
function completedReason(steps: readonly EndedStep[]): string {
  const bad = steps.filter(({ status }) => outcomes.filter(isBadOutcome).some((each) => each === status))
  if (bad.length === 0) return 'every step has ended'
  const sorted = bad.toSorted((a, b) => (a.step_id < b.step_id ? -1 : 1))
  const named = sorted.slice(0, mostNamed).map(({ step_id, status }) => `\`${step_id}\` (${status})`)
  const more = bad.length > mostNamed ? ` and ${bad.length - mostNamed} more` : ''
  return `every step has ended; the run went on after ${named.join(', ')}${more}`
}

/** For a `for_each` step, also names the first item that ended with the status of the run. */
export async function whyEnded(
  tx: ChainTx,
  { runId, status, stepId }: FinishInput,
  steps: readonly EndedStep[],
): Promise<WhyEnded> {
  if (status === 'completed') return { reason: completedReason(steps), cause: {} }
  if (stepId === undefined) return { reason: `the run ${status}`, cause: { error_code: status } }
  const step = steps.find((each) => each.step_id === stepId)
  const what = step?.error?.message ?? status
  const cause = { step_id: stepId, error_code: step?.error?.code ?? status }
  const item = step?.item_count == null ? undefined : await firstItem(tx, runId, stepId, status)
  if (item === undefined) return { reason: `step \`${stepId}\` ended the run: ${what}`, cause }
  const verb = verbs[status] ?? 'failed'
  const reason = `step \`${stepId}\` ${verb} at item ${item} of ${step?.item_count} (counted from 0): ${what}`
  return { reason, cause: { ...cause, item_index: item } }
}

/** The error of this item is also the error of the step. */
async function firstItem(
  tx: ChainTx,
  runId: string,
  stepId: string,
  status: FinalStatus,
): Promise<number | undefined> {
  const row = await tx.trx
    .selectFrom('effects')
    .select('item_index')
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .where('state', '=', status)
    .where('item_index', '>=', 0)
    .orderBy('item_index')
    .limit(1)
    .executeTakeFirst()
  return row?.item_index
}

/** Commits at once; 0 for an unknown run. Temporal's attempts cannot be used, because they count outages. */
export async function countUnexpected(db: Db, runId: string, activityId: string): Promise<number> {
  const { rows } = await sql<{ errors: number }>`
    insert into unexpected_errors (run_id, activity_id)
    select id, ${activityId} from runs where id = ${runId}
    on conflict (run_id, activity_id) do update set errors = unexpected_errors.errors + 1, last_at = now()
    returning errors`.execute(db)
  return rows[0]?.errors ?? 0
}

/** Returns a part of a sentence, for example: by `ann@example.com` with the reason `wrong month`. */
export const byWhom = ({ by, reason }: { readonly by: string; readonly reason: string | null }): string =>
  `by \`${by}\`${reason === null ? '' : ` with the reason ${quoted(reason)}`}`

/** If no person is stored, the run was cancelled in Temporal. */
export async function whyCancelled(
  tx: ChainTx,
  {
    cancel_requested_by,
    cancel_reason,
  }: Pick<Selectable<RunsTable>, 'cancel_requested_by' | 'cancel_reason'>,
): Promise<string> {
  if (cancel_requested_by === null) return 'the run was cancelled in Temporal'
  const person = await tx.trx
    .selectFrom('users')
    .select('email')
    .where('id', '=', cancel_requested_by)
    .executeTakeFirst()
  return `the run was cancelled ${byWhom({ by: person?.email ?? cancel_requested_by, reason: cancel_reason })}`
}
