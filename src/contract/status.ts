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

/** The final outcomes of a call. Each outcome is also a state of an effect. */
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

/** The states of an effect. ARCHITECTURE.md explains them. */
export const effectStates = ['held', 'intent', 'sent', 'retry', 'unknown_outcome', ...outcomes] as const
export type EffectState = (typeof effectStates)[number]

export const isOutcome = (state: EffectState): state is Outcome =>
  (outcomes as readonly string[]).includes(state)

/** The outcomes that end the run. With `on_error: continue`, only `cancelled` ends the run. */
export type BadOutcome = Exclude<Outcome, 'completed' | 'skipped'>
export const isBadOutcome = (outcome: Outcome): outcome is BadOutcome =>
  outcome !== 'completed' && outcome !== 'skipped'

/**
 * Returns whether this outcome of a call ends the run. A cancelled call ends the run even with `on_error: continue`.
 */
export const endsRun = (bad: BadOutcome, continueOnError: boolean): boolean =>
  !continueOnError || bad === 'cancelled'

/**
 * Returns the bad outcome of a `for_each` step. Returns null if `items` is empty. `items` are the bad outcomes of the
 * step's items, in the order of the items.
 *
 * Without `continueOnError`, an item that fails ends the step, and other items can be cancelled because of this. So the
 * first outcome that is not `cancelled` counts, and the result does not depend on timing. With `continueOnError`, a
 * failed item does not end the step. So a cancelled item was cancelled for another reason, and the step counts as
 * cancelled.
 */
export function badOutcomeOf(items: readonly BadOutcome[], continueOnError: boolean): BadOutcome | null {
  if (continueOnError && items.includes('cancelled')) return 'cancelled'
  return items.find((outcome) => outcome !== 'cancelled') ?? items[0] ?? null
}

/** Maximum number of unknown outcomes that one request resolves. */
export const mostResolved = 1_000

/** A call that has had this many attempts is not tried again. An attempt counts even if its worker process crashed. */
export const mostAttempts = 100

export const approvalStatuses = ['pending', 'approved', 'rejected', 'cancelled', 'expired'] as const
export type ApprovalStatus = (typeof approvalStatuses)[number]
export const approvalKinds = ['step', 'run', 'agent_call'] as const
export type ApprovalKind = (typeof approvalKinds)[number]
