import type { OutcomeOp } from '../governance/runs/effects/outcome.ts'
import type { JsonObject } from '../policy/types.ts'
import type { ToolResult } from './tools/executor.ts'

type Completed = Extract<OutcomeOp['result'], { state: 'completed' }>
type Failed = Extract<OutcomeOp['result'], { state: 'failed' | 'retry' }>

/** How one body has ended. */
export interface Ended {
  /** Values are not sealed yet: `output` is JSON text. */
  readonly result:
    | Extract<OutcomeOp['result'], { state: 'cancelled' | 'unknown_outcome' }>
    | (Omit<Failed, 'errorDetail'> & { readonly detail?: JsonObject | undefined })
    | (Omit<Completed, 'output'> & { readonly output: string })
  readonly commit?: ToolResult['commit']
  /** Seconds that the service asks to wait before the next attempt. Only a failed call that is tried again has them. */
  readonly retryAfterSeconds?: number | null
}
