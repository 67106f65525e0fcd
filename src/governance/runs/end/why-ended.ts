import type { Selectable } from 'kysely'
import type { FinalStatus, FinishInput } from '../../../contract/messages.ts'
import type { RunStepsTable } from '../../../db/schema/runs.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import type { LoggedFields } from '../../audit/entry.ts'

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

/** For a `for_each` step, also names the first item that ended with the status of the run. */
export async function whyEnded(
  tx: ChainTx,
  { runId, status, stepId }: FinishInput,
  steps: readonly EndedStep[],
): Promise<WhyEnded> {
  if (status === 'completed') return { reason: 'every step has ended', cause: {} }
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
