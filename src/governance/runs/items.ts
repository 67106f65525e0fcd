import type { Context } from '../../context.ts'
import { runEnded } from '../../contract/status.ts'
import type { ExpandResult } from '../../contract/messages.ts'
import { resolve, type Scope } from '../../policy/templates.ts'
import { mostLabels, tooManyLabels, type Json } from '../../policy/types.ts'
import { explainFrozen } from '../../policy/decide.ts'
import type { StepError } from '../../db/schema/runs.ts'
import { DomainError } from '../errors.ts'
import { readFrame, type Frame } from './frame.ts'
import { loadLedger } from './ledger.ts'
import { load } from './loading.ts'
import { ResourceExhausted } from './outputs.ts'
import { runActor, updateRunStatus } from './ledger-moves.ts'

/** Items of one `for_each` (contract section 3). */
export const maxItems = 10_000

/** The list a `for_each` step runs over. Throws TemplateError, or TypeError when it is not a list of at most 10,000. */
export function itemsOf(frame: Frame, scope: Scope): readonly Json[] {
  const { value } = resolve(frame.step.for_each as Json, scope)
  if (value === null) return []
  if (!Array.isArray(value)) throw new TypeError('`for_each` did not resolve to a list')
  if (value.length > maxItems)
    throw new TypeError(`\`for_each\` resolved to ${value.length} items, at most ${maxItems} run`)
  return value
}

/**
 * Counts the items of a `for_each` step, once (commit point `step.expand`); later calls answer the stored count. A list
 * that cannot be had ends the step as failed, a frozen organization as denied. Throws `conflict` for a run that waits for
 * its own approval.
 */
export async function expandStep(
  context: Context,
  runId: string,
  stepId: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<ExpandResult> {
  const known = await readStep(context, runId, stepId)
  if (known.item_count !== null) return { count: known.item_count }
  const key = { runId, stepId, itemIndex: -1 }
  const frame = await readFrame(context, key)
  const counted =
    frame.stopped === null ? await countItems(context, frame, signal) : { count: 0, error: null }
  return context.combiner.run(frame.run.organizationId, 'step.expand', async (tx): Promise<ExpandResult> => {
    const ledger = await loadLedger(tx, [key])
    const run = ledger.runs.get(runId)
    const step = await readStep({ db: tx.trx }, runId, stepId)
    if (step.item_count !== null) return { count: step.item_count }
    if (step.finished_at !== null && (step.status === 'failed' || step.status === 'denied'))
      return { ended: step.status }
    if (run === undefined || runEnded(run.status) || run.cancel_requested_at !== null)
      return { ended: 'cancelled' }
    if (run.status === 'awaiting_approval')
      throw new DomainError('conflict', 'the run waits for its own approval')
    const { frozen } = tx.policy
    // Not counted, and no longer frozen: the count is asked for again.
    if (frame.stopped !== null && frozen === null) throw new DomainError('unavailable', 'asked too early')
    const bad = frozen === null ? 'failed' : 'denied'
    const error = frozen === null ? counted.error : { code: bad, message: explainFrozen(frozen) }
    const { count } = counted
    if (error !== null) run.nodes_failed += 1
    updateRunStatus(tx, ledger, run)
    ledger.write(tx)
    await tx.trx
      .updateTable('run_steps')
      .set(
        error === null
          ? { item_count: count, started_at: tx.now, status: 'running' }
          : {
              started_at: tx.now,
              finished_at: tx.now,
              status: bad,
              labels: frame.labels,
              error: JSON.stringify(error),
            },
      )
      .where('run_id', '=', runId)
      .where('step_id', '=', stepId)
      .execute()
    const event = error === null ? 'step.started' : `step.${bad}`
    tx.event(runId, event, {
      step_id: stepId,
      item_index: null,
      tool: frame.step.tool,
      ...(error ? { error } : {}),
    })
    tx.append({
      eventType: 'step.expanded',
      action: frame.step.tool,
      status: error === null ? 'running' : bad,
      actor: runActor({ id: runId }),
      workflowId: frame.run.workflowId,
      runId,
      metadata: { step_id: stepId, items: count },
    })
    return error === null ? { count } : { ended: bad }
  })
}

interface Counted {
  readonly count: number
  readonly error: StepError | null
}

async function countItems(context: Context, frame: Frame, signal: AbortSignal): Promise<Counted> {
  const what = { ...frame, templates: frame.step.for_each as Json, sealedBytes: null }
  const none = (code: string, problem: unknown): Counted => ({
    count: 0,
    error: { code, message: (problem as Error).message },
  })
  const count = (scope: Scope): Counted => {
    try {
      return { count: itemsOf(frame, scope).length, error: null }
    } catch (problem) {
      return none('template_unresolved', problem)
    }
  }
  if (frame.labels.length > mostLabels)
    return none('resource_exhausted', new Error(tooManyLabels('the inputs of the step carry')))
  try {
    const { value, permit } = await load(context, what, signal, count)
    permit.release()
    return value
  } catch (problem) {
    if (problem instanceof ResourceExhausted) return none('resource_exhausted', problem)
    throw problem
  }
}

export async function readStep(context: Pick<Context, 'db'>, runId: string, stepId: string) {
  return context.db
    .selectFrom('run_steps')
    .select(['item_count', 'status', 'finished_at', 'tool'])
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .executeTakeFirstOrThrow()
}
