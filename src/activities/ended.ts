import { stepError } from '../contract/tool-faults.ts'
import type { OutcomeOp } from '../calls/runs/outcome.ts'
import type { JsonObject } from '../policy/types.ts'
import { isTooLarge, mostHeapBytes, mostValues } from '../shared/json-size.ts'
import type { ToolResult } from '../tools/kit/executor.ts'

type Completed = Extract<OutcomeOp['result'], { state: 'completed' }>
type Failed = Extract<OutcomeOp['result'], { state: 'failed' | 'retry' }>

/** The end of one body. It has the body's result. For a `transactional` tool, it also has the write. */
export interface Ended {
  /** The values in the result are not sealed yet, so `output` is JSON text. */
  readonly result:
    | Extract<OutcomeOp['result'], { state: 'cancelled' | 'unknown_outcome' }>
    | (Omit<Failed, 'errorDetail'> & { readonly detail?: JsonObject | undefined })
    | (Omit<Completed, 'output'> & { readonly output: string })
  readonly stores?: ToolResult['stores']
  /**
   * Seconds that the service asks to wait before the next attempt. This number is used only if the failed call is tried
   * again.
   */
  readonly retryAfterSeconds?: number | null
}

export const failed = (code: string, message: string): Ended => ({
  result: { state: 'failed', error: stepError({ code, message }) },
})

export const unknownOutcome: Ended = { result: { state: 'unknown_outcome' } }

/** The maximum number of characters of an output's JSON text. The text goes to PostgreSQL, and never to Temporal. */
export const maxOutputLength = 32 * 1024 * 1024
const tooLarge = `the output has more than ${mostValues} values, or takes more than ${mostHeapBytes / 1024 / 1024} MiB in memory`

/** Returns the refusal for an output's JSON text. Returns null if the text is small enough to be stored. */
export function refusalOfSize(output: string): Ended | null {
  if (output.length > maxOutputLength)
    return failed('output_too_large', `the output is larger than ${maxOutputLength / 1024 / 1024} MiB`)
  return isTooLarge(output) ? failed('output_too_large', tooLarge) : null
}
