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

/** Each outcome is also a state of an effect. */
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

/** ARCHITECTURE.md explains them. */
export const effectStates = ['held', 'intent', 'sent', 'retry', 'unknown_outcome', ...outcomes] as const
export type EffectState = (typeof effectStates)[number]

export const isOutcome = (state: EffectState): state is Outcome =>
  (outcomes as readonly string[]).includes(state)

/** With `on_error: continue`, only `cancelled` ends the run. */
export type BadOutcome = Exclude<Outcome, 'completed' | 'skipped'>
export const isBadOutcome = (outcome: Outcome): outcome is BadOutcome =>
  outcome !== 'completed' && outcome !== 'skipped'

export const endsRun = (bad: BadOutcome, continueOnError: boolean): boolean =>
  !continueOnError || bad === 'cancelled'

/**
 * `items` are in the order of the step's items. Without `continueOnError`, a failed item ends the step and
 * can cancel others, so the first outcome that is not `cancelled` counts, and timing does not matter. With
 * it, a cancelled item was cancelled for another reason, so the step counts as cancelled.
 */
export function badOutcomeOf(items: readonly BadOutcome[], continueOnError: boolean): BadOutcome | null {
  if (continueOnError && items.includes('cancelled')) return 'cancelled'
  return items.find((outcome) => outcome !== 'cancelled') ?? items[0] ?? null
}

/** One request resolves at most this many calls. */
export const mostResolved = 1_000

/** An attempt counts even if its worker process crashed. */
export const mostAttempts = 100

export const approvalStatuses = [
  'pending',
  'approved',
  'rejected',
  'cancelled',
  'expired',
  'answered',
  'revised',
] as const
export type ApprovalStatus = (typeof approvalStatuses)[number]
export const approvalKinds = [
  'step',
  'run',
  'agent_call',
  'change',
  'ask',
  'repeat',
  'revision',
  'edit',
] as const
export type ApprovalKind = (typeof approvalKinds)[number]

/** What becomes of a write or an egress that an earlier run of the chain has made with the same parameters. */
export const onRepeats = ['hold', 'skip', 'allow'] as const
export type OnRepeat = (typeof onRepeats)[number]
