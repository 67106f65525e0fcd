import type { JsonObject } from '../../policy/types.ts'
import type { ChangingRuns } from '../context.ts'
import { previewRun, type Preview } from '../runs/start/preview.ts'
import { nextTimes } from './due-times.ts'
import { callerOf } from './firings.ts'
import { inputsFor, labelsFor } from './inputs.ts'
import { isSchedule, openKept } from './trigger-view.ts'
import { findTrigger } from './triggers.ts'

/** Due times that a test shows. */
const shownTimes = 5

export interface TriedTrigger {
  readonly inputs: JsonObject
  readonly verdict: Preview['verdict']
  readonly executable: boolean
  readonly not_executable_because: string | null
  /** Empty for a webhook. */
  readonly next_due_at: readonly string[]
}

/** What a firing would start. Starts nothing. Throws `validation_error` if the inputs have no value. */
export async function tryTrigger(
  context: ChangingRuns,
  organizationId: string,
  id: string,
  arrived: JsonObject,
): Promise<TriedTrigger> {
  const row = await findTrigger(context.db, organizationId, id)
  const written = (await openKept(context.sealer, row)).inputs
  const times = isSchedule(row)
    ? [row.next_due_at, ...nextTimes(row.settings, row.next_due_at, shownTimes - 1)].map((at) =>
        at.toISOString(),
      )
    : []
  const inputs = inputsFor(row.kind, written, isSchedule(row) ? { due_at: times[0] ?? '' } : arrived)
  const { verdict, executable, not_executable_because } = await previewRun(context, {
    caller: await callerOf(context.db, row),
    workflowId: row.workflow_id,
    version: row.version ?? undefined,
    inputs,
    inputLabels: labelsFor(row, inputs),
  })
  return { inputs, verdict, executable, not_executable_because, next_due_at: times }
}
