import type { BadOutcome, Outcome } from './status.ts'

/** What passes between API, workers and Temporal: ids, verdicts and counts, never data. */

export const workflowType = 'governedRun'
/** Selects the frozen interpreter module; new runs take the newest. */
export const interpreterVersion = 1

/** Input of a run's workflow: the skeleton of one frozen version. */
export interface RunInput {
  readonly runId: string
  readonly interpreterVersion: number
  readonly steps: readonly SkeletonStep[]
  /** Whether the run must be let in first (`enterRun`): it waits for its own approval. */
  readonly gated: boolean
  readonly heartbeatSeconds: number
  /** Search attributes registered on this cluster are kept up to date only if true. */
  readonly searchAttributes: boolean
  /** What the run did in its earlier histories; absent in its first. */
  readonly carried?: Carried
}

/**
 * What a run takes along into a new history (continue-as-new): ids, counts and deadlines. It saves asking the rows again
 * and is no authority: a call that it left out is made again, and answers what its row says.
 */
export interface Carried {
  /** Steps that have ended. */
  readonly ended: readonly string[]
  /** `for_each` steps under way, by id. */
  readonly items: Readonly<Record<string, CarriedItems>>
  /** Calls that wait for a person and were not woken meanwhile, by wake key. */
  readonly waiting: Readonly<Record<string, Waiting>>
}

export interface CarriedItems {
  readonly count: number
  /** First item that has not begun. */
  readonly next: number
  /** Items before it that have not ended. */
  readonly open: readonly number[]
}

/**
 * A call that waits: for an approval until `expiresAt` (ISO 8601; null: for ever), for a slot of its run as long as its
 * approval may be used, or for a person to resolve its unknown outcome.
 */
export type Waiting =
  | { readonly kind: 'approval' | 'slot'; readonly expiresAt: string | null }
  | { readonly kind: 'resolution'; readonly expiresAt: null }

export interface SkeletonStep {
  readonly id: string
  readonly tool: string
  readonly dependsOn: readonly string[]
  readonly forEach: boolean
  readonly continueOnError: boolean
  /** Wall-clock limit of one attempt. */
  readonly timeoutSeconds: number
}

/** Argument of every tool activity. */
export interface StepRef {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number | null
}

/** What a tool activity answers when the call has an outcome that lets the run go on. */
export interface StepDone {
  readonly outcome: Extract<Outcome, 'completed' | 'skipped'>
}

/** Types of the failures by which a tool activity tells everything else. */
export const failureTypes = {
  /** Details: HeldDetails. The workflow waits and schedules the call again. */
  approvalRequired: 'ApprovalRequired',
  /** The workflow waits until a person has resolved it, and schedules the call again. */
  unknownOutcome: 'UnknownOutcome',
  /** Details: {outcome}. The call ended badly; message names the rule or the error's code. */
  ended: 'StepEnded',
  /** Passing trouble (database away, a tool's retryable failure): Temporal tries again. */
  unavailable: 'Unavailable',
  /** Somebody other than us scheduled this call. */
  refused: 'Refused',
} as const

/** What a held call, or a held run, waits for. */
export type HeldFor = 'approval' | 'slot'

export interface HeldDetails {
  readonly waitsFor: HeldFor
  /** null: it needs none, and waits for a slot of its run. */
  readonly approvalId: string | null
  /** ISO 8601, or null for never. */
  readonly expiresAt: string | null
}

export interface EndedDetails {
  readonly outcome: BadOutcome
}

/** Signal that something changed. Only a wake-up. */
export const wakeSignal = 'wake'
export interface Wake {
  /** Of what: calls (`stepId#itemIndex`), the run's own approval (empty), the run's slot (`slotKey`). None: of all. */
  readonly key?: string | readonly string[]
}

/** Of a wake-up for what waits for a slot; no call's key is without a `#`. */
export const slotKey = 'slot'
export const wakeKey = (stepId: string, itemIndex: number | null): string => `${stepId}#${itemIndex ?? -1}`

export type EnterResult =
  | { readonly state: 'go' }
  | { readonly state: 'wait'; readonly waitsFor: HeldFor; readonly expiresAt: string | null }
  | { readonly state: 'ended' }

export type ExpandResult = { readonly count: number } | { readonly ended: BadOutcome }

/** How a run ended, as the workflow saw it; the rows decide the rest. */
export interface FinishInput {
  readonly runId: string
  readonly status: 'completed' | 'failed' | 'denied' | 'rejected' | 'expired' | 'cancelled'
  /** The step that ended it. */
  readonly stepId?: string
}

/** Search attributes (temporal-dev.yml registers them on the development server). */
export const searchAttributes = {
  organization: 'CountersignOrganization',
  workflow: 'CountersignWorkflow',
  version: 'CountersignVersion',
  state: 'CountersignState',
  /** A list: each kind of thing, and each thing, that it waits for. */
  waitingOn: 'CountersignWaitingOn',
  risk: 'CountersignRisk',
} as const
