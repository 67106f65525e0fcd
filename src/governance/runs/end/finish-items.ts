import { shownWhat } from '../../../steps/index.ts'
import { sql } from 'kysely'
import type { ChangingRuns, Telling, Changing } from '../../context.ts'
import {
  badOutcomeOf,
  isBadOutcome,
  isOutcome,
  runEnded,
  type EffectState,
  type Outcome,
} from '../../../contract/status.ts'
import type { Db } from '../../../db/schema/index.ts'
import type { StepError } from '../../../db/schema/runs.ts'
import { cutLabels, mostLabels, type Label } from '../../../policy/types.ts'
import { mostItems } from '../../../contract/definition.ts'
import { stepError } from '../../../contract/tool-faults.ts'
import { isConnectionError } from '../../../db/errors.ts'
import { TransactionTooLong } from '../../audit/lane-transactions.ts'
import { DomainError } from '../../errors.ts'
import { NotReady, readDefinedCall } from '../../../calls/runs/call.ts'
import { readStep } from '../../../calls/runs/items.ts'
import { runActor } from '../../../calls/runs/ledger-moves.ts'
import { endRun, countUnexpected } from './finish.ts'

/** The items are read at most this many times. They are read again if an item has changed before the lock is held. */
const mostReadings = 5

/** After so many failed tries, about an hour, the step and its run fail. Outages do not count. */
const mostFailures = 200

class ItemsChange extends DomainError {
  constructor() {
    super('unavailable', 'the items of the step are still changing')
  }
}

type Finishing = ChangingRuns

/** If this fails too often, the step and its run fail with `step_not_finished`. */
export async function finishItems(
  context: Finishing & Telling,
  runId: string,
  stepId: string,
): Promise<void> {
  try {
    await finish(context, runId, stepId)
  } catch (error) {
    if (!isLasting(error)) throw error
    const failures = await countUnexpected(context.db, runId, `${stepId}#finish`)
    if (failures < mostFailures) throw error
    context.log.error({ err: error, run_id: runId, step_id: stepId }, 'a step could not be finished')
    await giveUp(context, runId, stepId, failures)
  }
}

/** Returns whether the error can come back at every try. The error of an outage cannot, because the outage ends. */
function isLasting(error: unknown): boolean {
  if (error instanceof TransactionTooLong || error instanceof ItemsChange) return true
  return !isConnectionError(error) && !(error instanceof DomainError) && !(error instanceof NotReady)
}

/** The labels of the step's output stay unknown, so no call may use this output. */
async function giveUp(context: Changing, runId: string, stepId: string, failures: number): Promise<void> {
  const message = `the step could not be finished: ${failures} tries failed`
  const { organization_id: organizationId } = await context.db
    .selectFrom('runs')
    .select('organization_id')
    .where('id', '=', runId)
    .executeTakeFirstOrThrow()
  await context.combiner.run(organizationId, 'run.finish', async (tx) => {
    const run = await tx.trx.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow()
    if (runEnded(run.status)) return
    await tx.trx
      .updateTable('run_steps')
      .set({
        status: 'failed',
        finished_at: tx.now,
        error: JSON.stringify(stepError({ code: 'step_not_finished', message })),
      })
      .where('run_id', '=', runId)
      .where('step_id', '=', stepId)
      .where('finished_at', 'is', null)
      .execute()
    tx.event(runId, 'step.failed', { step_id: stepId })
    const cause = { step_id: stepId, error_code: 'step_not_finished' }
    await endRun(tx, run, 'failed', `step \`${stepId}\` ended the run: ${message}`, null, cause)
  })
}

/**
 * Commit point `step.finish`. The items are read before the lock is taken, and again if one has changed
 * since. With more than `mostLabels` labels, every call that uses the step's output fails (`cutLabels`).
 */
async function finish(context: Finishing, runId: string, stepId: string): Promise<void> {
  const run = await context.db
    .selectFrom('runs')
    .select(['organization_id', 'workflow_id'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow()
  const spec = await readDefinedCall(context, { runId, stepId, itemIndex: -1 })
  for (let readings = 0; readings < mostReadings; readings += 1) {
    const states = await readStates(context.db, runId, stepId)
    const step = await readStep(context, runId, stepId)
    if (step.finished_at !== null) return
    const status = spec.isPassedOver
      ? 'skipped'
      : stepOutcome(states, step.item_count ?? 0, spec.step.on_error === 'continue')
    const error = await errorOf(context.db, runId, stepId, status)
    const labels = await labelsOf(context.db, runId, stepId, spec.labels)
    const items = states.reduce((sum, { count }) => sum + count, 0)
    const metadata = {
      step_id: stepId,
      items,
      ...(labels.length > mostLabels ? { too_many_labels: true } : {}),
    }
    const isDone = await context.combiner.run(run.organization_id, 'step.finish', async (tx) => {
      const now = await readStep({ db: tx.trx }, runId, stepId)
      if (now.finished_at !== null) return true
      if (!isSame(states, await readStates(tx.trx, runId, stepId))) return false
      await tx.trx
        .updateTable('run_steps')
        .set({ status, finished_at: tx.now, labels, error: error === null ? null : JSON.stringify(error) })
        .where('run_id', '=', runId)
        .where('step_id', '=', stepId)
        .execute()
      tx.event(runId, `step.${status}`, { step_id: stepId, tool: step.tool, items })
      tx.append({
        eventType: `step.${status}`,
        action: shownWhat(step),
        status,
        actor: runActor({ id: runId }),
        workflowId: run.workflow_id,
        runId,
        metadata,
      })
      return true
    })
    if (isDone) return
  }
  throw new ItemsChange()
}

/** `first` is the lowest item index. */
interface StateCount {
  readonly state: EffectState
  readonly count: number
  readonly first: number
}

async function readStates(db: Db, runId: string, stepId: string): Promise<StateCount[]> {
  const { rows } = await sql<StateCount>`
    select state, count(*)::int as count, min(item_index)::int as first from effects
    where run_id = ${runId} and step_id = ${stepId} group by state order by first`.execute(db)
  return rows
}

const isSame = (a: readonly StateCount[], b: readonly StateCount[]): boolean =>
  JSON.stringify(a) === JSON.stringify(b)

/**
 * The outcome of `badOutcomeOf`, if there is one. Otherwise `cancelled` if an item has not ended, `skipped`
 * if there are items and all of them were skipped, and else `completed`.
 */
function stepOutcome(items: readonly StateCount[], count: number, continueOnError: boolean): Outcome {
  const ended = items.filter(({ state }) => isOutcome(state))
  const states = ended.map(({ state }) => state as Outcome)
  const bad = badOutcomeOf(states.filter(isBadOutcome), continueOnError)
  if (bad !== null) return bad
  if (ended.reduce((sum, each) => sum + each.count, 0) < count) return 'cancelled'
  return count > 0 && states.every((state) => state === 'skipped') ? 'skipped' : 'completed'
}

async function errorOf(db: Db, runId: string, stepId: string, status: Outcome): Promise<StepError | null> {
  const item = await db
    .selectFrom('effects')
    .select('error')
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .where('state', '=', status)
    .orderBy('item_index')
    .limit(1)
    .executeTakeFirst()
  return item?.error ?? null
}

/** The number of items whose labels one statement reads. */
const batch = 500

/** Most items have equal lists of labels, so PostgreSQL first removes equal lists. */
async function labelsOf(db: Db, runId: string, stepId: string, own: readonly Label[]): Promise<Label[]> {
  const all = new Set(own)
  for (let from = 0; from < mostItems && all.size <= mostLabels; from += batch) {
    const { rows } = await sql<{ label: Label }>`
      select distinct unnest(output_labels) as label from (
        select distinct output_labels from effects
        where run_id = ${runId} and step_id = ${stepId} and item_index >= ${from} and item_index < ${from + batch}
      ) as lists limit ${2 * mostLabels}`.execute(db)
    for (const { label } of rows) all.add(label)
  }
  return cutLabels([...all].sort())
}
