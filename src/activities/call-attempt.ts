import type { Context as ActivityContext } from '@temporalio/activity'
import type { StepVerdict, Unseen } from '../calls/runs/effect.ts'
import type { DecidedAhead } from './decided-ahead.ts'
import type { CallInHand } from './seen-state.ts'

/** One attempt at a call. */
export interface Attempt extends CallInHand {
  readonly activity: ActivityContext
  /** The decision that allows the call, with the number of the attempt. */
  readonly verdict: Allowed
  /**
   * Keeps decisions about next calls that were made early. Each decision waits here until this worker gets the activity
   * of its call.
   */
  readonly ahead: DecidedAhead
}

export type Allowed = Extract<StepVerdict, { go: true }>
export type Refused = Exclude<Extract<StepVerdict, { go: false }>, Unseen>

/**
 * The end of an attempt that has not acted. `refused` is the new decision, if the call was decided again and refused.
 * `changed` names a thing that has changed since the approvers of the call saw it.
 */
export type Stopped = { readonly refused: Refused } | { readonly changed: string }
