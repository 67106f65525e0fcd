import type { ChangingRuns, UnsealingRuns, Reading } from '../../governance/context.ts'
import { mostItems } from '../../contract/definition.ts'
import { words } from '../../contract/forms.ts'
import { typeOfJson } from '../../contract/json.ts'
import { runEnded } from '../../contract/status.ts'
import type { ExpandResult } from '../../contract/messages.ts'
import { kindOf } from '../../steps/index.ts'
import { resolve, type Scope } from '../../policy/templates.ts'
import { mostLabels, tooManyLabels, type Json } from '../../policy/types.ts'
import { explainFrozen } from '../../policy/decide.ts'
import { stepError } from '../../contract/tool-faults.ts'
import type { StepError } from '../../db/schema/runs.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { DomainError } from '../../governance/errors.ts'
import { readDefinedCall, type DefinedCall } from './call.ts'
import { loadLedger, writeLedger } from './ledger-store.ts'
import { load } from './loading.ts'
import { ResourceExhausted } from '../../governance/runs/values/outputs.ts'
import { runActor, updateRunStatus } from './ledger-moves.ts'

const inWords = (count: number): string => count.toLocaleString('en-US')

/** Throws TemplateError, and TypeError if the value is not a list or has too many items. */
export function itemsOf(defined: DefinedCall, scope: Scope): readonly Json[] {
  const { value } = resolve(defined.step.for_each as Json, scope)
  if (value === null) return []
  if (!Array.isArray(value))
    throw new TypeError(
      `\`for_each\` must resolve to a list, and it resolved to ${words[typeOfJson(value) as keyof typeof words]}`,
    )
  if (value.length > mostItems)
    throw new TypeError(
      `\`for_each\` resolved to ${inWords(value.length)} items, more than ${inWords(mostItems)}: split the list`,
    )
  return value
}

/**
 * Stores the number of items (commit point `step.expand`), which later calls return. A list that cannot be
 * resolved fails the step, and a freeze denies it. Throws `conflict` if the run waits for its own approval,
 * and `unavailable` if a freeze has just ended.
 */
export async function expandStep(
  context: ChangingRuns,
  runId: string,
  stepId: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<ExpandResult> {
  const known = await readStep(context, runId, stepId)
  if (known.item_count !== null) return { count: known.item_count }
  const key = { runId, stepId, itemIndex: -1 }
  const defined = await readDefinedCall(context, key)
  const counted =
    defined.stopped === null && !defined.isPassedOver
      ? await countItems(context, defined, signal)
      : { count: 0, error: null }
  return context.combiner.run(
    defined.run.organizationId,
    'step.expand',
    async (tx): Promise<ExpandResult> => {
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
      // `readDefinedCall` found a freeze, which has ended since then. So the caller must ask again.
      if (defined.stopped !== null && frozen === null) throw new DomainError('unavailable', 'asked too early')
      const bad = frozen === null ? 'failed' : 'denied'
      const error = frozen === null ? counted.error : stepError({ code: bad, message: explainFrozen(frozen) })
      const { count } = counted
      if (error !== null) run.nodes_failed += 1
      updateRunStatus({ tx, ledger, run })
      writeLedger(tx, ledger)
      await saveExpansion(tx, defined, stepId, { count, error, bad })
      return error === null ? { count } : { ended: bad }
    },
  )
}

/** If the items could not be counted, writes the step's bad outcome instead. */
async function saveExpansion(
  tx: ChainTx,
  defined: DefinedCall,
  stepId: string,
  { count, error, bad }: Counted & { readonly bad: 'failed' | 'denied' },
): Promise<void> {
  const runId = defined.run.id
  await tx.trx
    .updateTable('run_steps')
    .set(
      error === null
        ? { item_count: count, started_at: tx.now, status: 'running' }
        : {
            started_at: tx.now,
            finished_at: tx.now,
            status: bad,
            labels: defined.labels,
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
    tool: defined.step.tool ?? null,
    ...(error ? { error } : {}),
  })
  tx.append({
    eventType: 'step.expanded',
    action: defined.step.tool ?? kindOf(defined.step).name,
    status: error === null ? 'running' : bad,
    actor: runActor({ id: runId }),
    workflowId: defined.run.workflowId,
    runId,
    metadata: { step_id: stepId, items: count },
  })
}

interface Counted {
  readonly count: number
  readonly error: StepError | null
}

async function countItems(
  context: UnsealingRuns,
  defined: DefinedCall,
  signal: AbortSignal,
): Promise<Counted> {
  const what = { ...defined, templates: defined.step.for_each as Json, sealedBytes: null }
  const none = (code: string, problem: unknown): Counted => ({
    count: 0,
    error: stepError({ code, message: (problem as Error).message }),
  })
  const count = (scope: Scope): Counted => {
    try {
      return { count: itemsOf(defined, scope).length, error: null }
    } catch (problem) {
      return none('template_unresolved', problem)
    }
  }
  if (defined.labels.length > mostLabels)
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

export async function readStep(context: Reading, runId: string, stepId: string) {
  return context.db
    .selectFrom('run_steps')
    .select(['item_count', 'status', 'finished_at', 'kind', 'tool'])
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .executeTakeFirstOrThrow()
}
