import type { Json, JsonObject } from '../../policy/types.ts'
import type { ChangingRuns } from '../context.ts'
import { previewRun, type Preview } from '../runs/start/preview.ts'
import { nextTimes } from './due-times.ts'
import { callerOf } from './firings.ts'
import { inputsFor, labelsFor } from './inputs.ts'
import { itemsIn } from './poll-items.ts'
import { isPoll, isSchedule, openKept, type TriggerRow } from './trigger-view.ts'
import { findTrigger } from './triggers.ts'

/** Due times that a test shows. */
const shownTimes = 5

type Judged = Pick<Preview, 'verdict' | 'executable' | 'not_executable_because'>

export interface TriedTrigger extends Judged {
  readonly inputs: JsonObject
  /** Only for a schedule. */
  readonly next_due_at: readonly string[]
  /** In a poll's output; null without one. */
  readonly items: number | null
  /** null: it is no poll. */
  readonly call: Judged | null
}

/** An example of what arrives. */
export interface Sample {
  readonly message: JsonObject
  /** What the tool of a poll gives. Undefined: nothing is known about the items. */
  readonly output: Json | undefined
}

/** What a firing would start. Starts nothing, and makes no call. Throws `validation_error` if the inputs have no value. */
export async function tryTrigger(
  context: ChangingRuns,
  organizationId: string,
  id: string,
  sample: Sample,
): Promise<TriedTrigger> {
  const row = await findTrigger(context.db, organizationId, id)
  const written = (await openKept(context.sealer, row)).inputs
  const { arrived, items = null, times = [] } = arrivalOf(row, sample)
  const inputs = arrived === null ? null : inputsFor(row.kind, written, arrived)
  const caller = await callerOf(context.db, row)
  const ofRun = await previewRun(context, {
    caller,
    workflowId: row.workflow_id,
    version: row.version ?? undefined,
    inputs: inputs ?? undefined,
    inputLabels: labelsFor(row, inputs ?? written),
  })
  const call = isPoll(row) ? await previewRun(context, { caller, workflowId: row.poll_workflow_id }) : null
  return {
    inputs: inputs ?? {},
    ...judged(ofRun),
    next_due_at: times,
    items,
    call: call === null ? null : judged(call),
  }
}

const judged = ({ verdict, executable, not_executable_because }: Preview): Judged => ({
  verdict,
  executable,
  not_executable_because,
})

interface Arrival {
  /** null: nothing is known about it. */
  readonly arrived: JsonObject | null
  readonly items?: number
  readonly times?: readonly string[]
}

function arrivalOf(row: TriggerRow, { message, output }: Sample): Arrival {
  if (isSchedule(row)) {
    const next = [row.next_due_at, ...nextTimes(row.settings, row.next_due_at, shownTimes - 1)]
    const times = next.map((at) => at.toISOString())
    return { arrived: { due_at: times[0] ?? '' }, times }
  }
  if (!isPoll(row)) return { arrived: message }
  if (output === undefined) return { arrived: null }
  const items = itemsIn(row.settings, output)
  const [first] = items
  return { arrived: first === undefined ? null : { item: first.value, output }, items: items.length }
}
