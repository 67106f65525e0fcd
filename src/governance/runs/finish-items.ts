import { sql, type Kysely } from 'kysely'
import type { Context } from '../../context.ts'
import {
  badOutcomeOf,
  isBadOutcome,
  isOutcome,
  type EffectState,
  type Outcome,
} from '../../contract/status.ts'
import type { Database } from '../../db/schema/index.ts'
import type { StepError } from '../../db/schema/runs.ts'
import { cutLabels, mostLabels, type Label } from '../../policy/types.ts'
import { DomainError } from '../errors.ts'
import { readFrame } from './frame.ts'
import { maxItems, readStep } from './items.ts'
import { runActor } from './ledger-moves.ts'

/** How often the items are read again because one of them moved meanwhile. */
const mostReadings = 5

/**
 * Ends a `for_each` step whose items have ended: its labels are theirs together (commit point `step.finish`). Of more than
 * `mostLabels` the first ones are kept (`cutLabels`), and every call that uses the step fails. All that grows with the items is read
 * before the lock: what an item ended with never changes.
 */
export async function finishItems(context: Context, runId: string, stepId: string): Promise<void> {
  const run = await context.db
    .selectFrom('runs')
    .select(['organization_id', 'workflow_id'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow()
  const frame = await readFrame(context, { runId, stepId, itemIndex: -1 })
  for (let readings = 0; readings < mostReadings; readings += 1) {
    const states = await readStates(context.db, runId, stepId)
    const step = await readStep(context, runId, stepId)
    if (step.finished_at !== null) return
    const status = stepOutcome(states, step.item_count ?? 0, frame.step.on_error === 'continue')
    const error = await errorOf(context.db, runId, stepId, status)
    const labels = await labelsOf(context.db, runId, stepId, frame.labels)
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
        action: step.tool,
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
  throw new DomainError('unavailable', 'the items of the step still move')
}

/** Items of one state: how many, and the index of the first. */
interface StateCount {
  readonly state: EffectState
  readonly count: number
  readonly first: number
}

async function readStates(db: Kysely<Database>, runId: string, stepId: string): Promise<StateCount[]> {
  const { rows } = await sql<StateCount>`
    select state, count(*)::int as count, min(item_index)::int as first from effects
    where run_id = ${runId} and step_id = ${stepId} group by state order by first`.execute(db)
  return rows
}

const isSame = (a: readonly StateCount[], b: readonly StateCount[]): boolean =>
  JSON.stringify(a) === JSON.stringify(b)

/** The step's word for its items: of bad ones badOutcomeOf's, `skipped` when all were, else `completed`. */
function stepOutcome(items: readonly StateCount[], count: number, continueOnError: boolean): Outcome {
  const ended = items.filter(({ state }) => isOutcome(state))
  const states = ended.map(({ state }) => state as Outcome)
  const bad = badOutcomeOf(states.filter(isBadOutcome), continueOnError)
  if (bad !== null) return bad
  if (ended.reduce((sum, each) => sum + each.count, 0) < count) return 'cancelled'
  return count > 0 && states.every((state) => state === 'skipped') ? 'skipped' : 'completed'
}

/** That of the first item which ended as the step did. */
async function errorOf(
  db: Kysely<Database>,
  runId: string,
  stepId: string,
  status: Outcome,
): Promise<StepError | null> {
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

/** So many items' labels are read in one statement. */
const batch = 500

/** Labels of all items and these, cut. Items of one call mostly carry the same: PostgreSQL takes equal lists together first. */
async function labelsOf(
  db: Kysely<Database>,
  runId: string,
  stepId: string,
  own: readonly Label[],
): Promise<Label[]> {
  const all = new Set(own)
  for (let from = 0; from < maxItems && all.size <= mostLabels; from += batch) {
    const { rows } = await sql<{ label: Label }>`
      select distinct unnest(output_labels) as label from (
        select distinct output_labels from effects
        where run_id = ${runId} and step_id = ${stepId} and item_index >= ${from} and item_index < ${from + batch}
      ) as lists limit ${2 * mostLabels}`.execute(db)
    for (const { label } of rows) all.add(label)
  }
  return cutLabels([...all].sort())
}
