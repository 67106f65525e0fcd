import type { Context as ActivityContext } from '@temporalio/activity'
import type { StepVerdict, Unseen } from '../governance/runs/effects/effect.ts'
import type { DecidedAhead } from './decided-ahead.ts'
import type { CallInHand } from './seen-state.ts'

/** One attempt at a call. */
export interface Attempt extends CallInHand {
  readonly activity: ActivityContext
  /** The decision that allows the call, with the number of the attempt. */
  readonly verdict: Allowed
  /** Keeps the decided next call until its activity arrives. */
  readonly ahead: DecidedAhead
}

export type Allowed = Extract<StepVerdict, { go: true }>
export type Refused = Exclude<Extract<StepVerdict, { go: false }>, Unseen>

/**
 * `refused`: the call was decided again before it acted, and was refused. `changed`: this thing is not as its approvers
 * saw it.
 */
export type Stopped = { readonly refused: Refused } | { readonly changed: string }
