/** Status words, from contract sections 4 and 6. */

export const runStatuses = [
  'queued',
  'awaiting_approval',
  'running',
  'paused',
  'completed',
  'failed',
  'denied',
  'rejected',
  'expired',
  'cancelled',
] as const
export type RunStatus = (typeof runStatuses)[number]

const openRunStatuses: ReadonlySet<RunStatus> = new Set(['queued', 'awaiting_approval', 'running', 'paused'])
/** Whether a run's status is its last. */
export const runEnded = (status: RunStatus): boolean => !openRunStatuses.has(status)

export const stepStatuses = [
  'pending',
  'running',
  'held',
  'completed',
  'failed',
  'denied',
  'rejected',
  'expired',
  'skipped',
  'cancelled',
  'unknown_outcome',
] as const
export type StepStatus = (typeof stepStatuses)[number]

/** How a call can end for good (states of an effect with an outcome). */
export const outcomes = [
  'completed',
  'failed',
  'denied',
  'rejected',
  'expired',
  'skipped',
  'cancelled',
] as const
export type Outcome = (typeof outcomes)[number]

/** States of an effect; governance/effect.ts tells them in prose. */
export type EffectState = 'held' | 'intent' | 'sent' | 'retry' | 'unknown_outcome' | Outcome

export const isOutcome = (state: EffectState): state is Outcome =>
  (outcomes as readonly string[]).includes(state)

/** Outcomes that end the run unless the step says `on_error: continue`. */
export type BadOutcome = Exclude<Outcome, 'completed' | 'skipped'>
export const isBadOutcome = (outcome: Outcome): outcome is BadOutcome =>
  outcome !== 'completed' && outcome !== 'skipped'

/** A cancelled call is none of what `on_error: continue` covers (contract section 3). */
export const endsRun = (bad: BadOutcome, continueOnError: boolean): boolean =>
  !continueOnError || bad === 'cancelled'

/**
 * What a `for_each` step ends as whose items ended badly so, in the items' order; null if none did. The first one's, so
 * that it does not depend on which was faster. Items are cancelled because another ended the step, unless the step goes on
 * past bad ones: then a cancelled item is what ends it.
 */
export function badOutcomeOf(items: readonly BadOutcome[], continueOnError: boolean): BadOutcome | null {
  if (continueOnError && items.includes('cancelled')) return 'cancelled'
  return items.find((outcome) => outcome !== 'cancelled') ?? items[0] ?? null
}

export const approvalStatuses = ['pending', 'approved', 'rejected', 'cancelled', 'expired'] as const
export type ApprovalStatus = (typeof approvalStatuses)[number]
export const approvalKinds = ['step', 'run', 'agent_call'] as const
export type ApprovalKind = (typeof approvalKinds)[number]
