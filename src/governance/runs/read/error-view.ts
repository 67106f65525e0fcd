import type { EffectState } from '../../../contract/status.ts'
import type { StepError } from '../../../db/schema/runs.ts'
import type { Json, JsonObject } from '../../../policy/types.ts'

/** `detail` contains values, so only people who may see the parameters get it. */
export type ErrorView = Omit<StepError, 'bytes'> & { readonly detail?: JsonObject }

export function errorOf(error: StepError): ErrorView {
  const { bytes: _bytes, ...shown } = error
  return shown
}

/** An item that ended badly, or that is tried again after an error. */
export interface FailedItem {
  readonly item_index: number
  readonly status: EffectState
  readonly error: ErrorView
  /** Is absent if the person may not see `{{item}}`, or if the call has large parameters. */
  readonly value?: Json
}
