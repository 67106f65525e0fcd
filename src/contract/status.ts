/** Statuses of runs, steps and approvals. */

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
/** True if this status of a run is final. */
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

/** The final outcomes of a call (states of an effect). */
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

/** States of an effect; ARCHITECTURE.md explains them. */
export const effectStates = ['held', 'intent', 'sent', 'retry', 'unknown_outcome', ...outcomes] as const
export type EffectState = (typeof effectStates)[number]

export const isOutcome = (state: EffectState): state is Outcome =>
  (outcomes as readonly string[]).includes(state)

/** Outcomes that end the run. With `on_error: continue`, only `cancelled` ends the run. */
export type BadOutcome = Exclude<Outcome, 'completed' | 'skipped'>
export const isBadOutcome = (outcome: Outcome): outcome is BadOutcome =>
  outcome !== 'completed' && outcome !== 'skipped'

/** True if this outcome of a call ends the run. `on_error: continue` does not cover cancelled calls. */
export const endsRun = (bad: BadOutcome, continueOnError: boolean): boolean =>
  !continueOnError || bad === 'cancelled'

/**
 * The outcome of a `for_each` step from the bad outcomes of its items, in the order of the items; null if there are
 * none. The first outcome that is not `cancelled` counts, so that the result does not depend on timing. Without
 * `continueOnError`, items can be cancelled because another item ended the step. With `continueOnError`, a failed item
 * does not end the step. So if an item is cancelled, this has another reason, and the step counts as cancelled.
 */
export function badOutcomeOf(items: readonly BadOutcome[], continueOnError: boolean): BadOutcome | null {
  if (continueOnError && items.includes('cancelled')) return 'cancelled'
  return items.find((outcome) => outcome !== 'cancelled') ?? items[0] ?? null
}

/** Maximum number of unknown outcomes that one request resolves. */
export const mostResolved = 1_000

/** Number of attempts after which a call is given up. Each attempt failed, or its worker process ended during it. */
export const mostAttempts = 100

export const approvalStatuses = ['pending', 'approved', 'rejected', 'cancelled', 'expired'] as const
export type ApprovalStatus = (typeof approvalStatuses)[number]
export const approvalKinds = ['step', 'run', 'agent_call'] as const
export type ApprovalKind = (typeof approvalKinds)[number]
