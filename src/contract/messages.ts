import type { BadOutcome, Outcome } from './status.ts'

/** Messages between API, workers and Temporal. They contain ids, verdicts and counts, never data. */

export const workflowType = 'governedRun'
/** Selects the frozen interpreter module; new runs use the newest. */
export const interpreterVersion = 1

/** Input of a run's workflow: the graph of one frozen version. */
export interface RunInput {
  readonly runId: string
  readonly interpreterVersion: number
  readonly steps: readonly SkeletonStep[]
  /** Whether the run waits for its own approval and must be admitted first (`enterRun`). */
  readonly gated: boolean
  readonly heartbeatSeconds: number
  /** Whether to update search attributes; they must be registered on this cluster. */
  readonly searchAttributes: boolean
  /** Progress from the run's earlier histories; absent in its first history. */
  readonly carried?: Carried
}

/**
 * The progress that a run carries into a new history (continue-as-new): ids, counts and deadlines. It only saves
 * reading the rows again and is not trusted. A call that is missing here is made again, and returns the state of its
 * row.
 */
export interface Carried {
  /** Steps that have ended. */
  readonly ended: readonly string[]
  /** `for_each` steps in progress, by id. */
  readonly items: Readonly<Record<string, CarriedItems>>
  /** Calls that wait for a person and have not been woken, by wake key. */
  readonly waiting: Readonly<Record<string, WaitReason>>
}

export interface CarriedItems {
  readonly count: number
  /** First item that has not begun. */
  readonly next: number
  /** Earlier items that have not ended. */
  readonly open: readonly number[]
}

/**
 * Why a call waits: for an approval until `expiresAt` (ISO 8601; null means forever), for a slot of its run while its
 * approval is valid, or for a person to resolve its unknown outcome.
 */
export type WaitReason =
  | { readonly kind: 'approval' | 'slot'; readonly expiresAt: string | null }
  | { readonly kind: 'resolution'; readonly expiresAt: null }

export interface SkeletonStep {
  readonly id: string
  readonly tool: string
  readonly dependsOn: readonly string[]
  readonly forEach: boolean
  readonly continueOnError: boolean
  /** Time limit of one attempt. */
  readonly timeoutSeconds: number
  /** Whether the call takes few seconds and can be repeated, so that it may run as a local activity; absent if not. */
  readonly quick?: true
  /** Items of a `for_each` step in progress at the same time; absent: as many as the interpreter says. */
  readonly itemsAtOnce?: number
  /** The definition's `summary`, for operators, at most 256 bytes; absent if the step has none. */
  readonly summary?: string
}

/** Argument of every tool activity. */
export interface StepRef {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number | null
}

/** A tool activity's result when the run may continue. */
export interface StepDone {
  readonly outcome: Extract<Outcome, 'completed' | 'skipped'>
}

/** Failure types for all other results of a tool activity. */
export const failureTypes = {
  /** Details: HeldDetails. The workflow waits and schedules the call again. */
  approvalRequired: 'ApprovalRequired',
  /** The workflow waits until a person has resolved the outcome, and schedules the call again. */
  unknownOutcome: 'UnknownOutcome',
  /** Details: {outcome}. The call ended badly; the message names the rule or the error's code. */
  ended: 'StepEnded',
  /** A temporary problem (a database outage, a tool's retryable failure): Temporal tries again. */
  unavailable: 'Unavailable',
  /** The call was not scheduled by this service. */
  refused: 'Refused',
} as const

/** The reason why a call or a run is held. */
export type HeldFor = 'approval' | 'slot'

/** Details of a quick call's failure after which the workflow schedules the call again as an ordinary activity. */
export interface AgainDetails {
  /** Time to wait before the ordinary activity. */
  readonly afterMilliseconds: number
}

export interface HeldDetails {
  readonly waitsFor: HeldFor
  /** null: no approval is needed; the call waits for a slot of its run. */
  readonly approvalId: string | null
  /** ISO 8601; null means never. */
  readonly expiresAt: string | null
}

export interface EndedDetails {
  readonly outcome: BadOutcome
}

/** Signal that something has changed. It only wakes the workflow and carries no decision. */
export const wakeSignal = 'wake'
export interface Wake {
  /**
   * What to wake: calls (`stepId#itemIndex`), the run's own approval (empty text) or the run's slot (`slotKey`).
   * Without a key, everything that waits is woken.
   */
  readonly key?: string | readonly string[]
  /** Id of the person whose decision is the reason. Only for operators: the interpreter does not read it. */
  readonly by?: string
}

/** Wakes calls that wait for a slot. This text cannot be the key of a call, because a call's key always has a `#`. */
export const slotKey = 'slot'
export const wakeKey = (stepId: string, itemIndex: number | null): string => `${stepId}#${itemIndex ?? -1}`

export type EnterResult =
  | { readonly state: 'go' }
  | { readonly state: 'wait'; readonly waitsFor: HeldFor; readonly expiresAt: string | null }
  | { readonly state: 'ended' }

export type ExpandResult = { readonly count: number } | { readonly ended: BadOutcome }

export type FinalStatus = 'completed' | 'failed' | 'denied' | 'rejected' | 'expired' | 'cancelled'

/** How a run ended, as the workflow saw it. The rows decide everything else. */
export interface FinishInput {
  readonly runId: string
  readonly status: FinalStatus
  /** The step that ended the run. */
  readonly stepId?: string
}

/** The message with which the workflow of a run fails: the run's end and the step that ended it, without a value. */
export const endMessage = (status: FinalStatus, stepId: string | undefined): string =>
  stepId === undefined ? status : `${status}: step ${stepId}`
const anEnd = /^(failed|denied|rejected|expired|cancelled)(: step |$)/
/**
 * Whether this is a message of `endMessage`: the workflow failed because its run ended, and not because of an error.
 */
export const isEndMessage = (message: string): boolean => anEnd.test(message)

/** Search attributes. temporal-dev.yml registers them on the development server. */
export const searchAttributes = {
  organization: 'CountersignOrganization',
  workflow: 'CountersignWorkflow',
  workflowName: 'CountersignWorkflowName',
  version: 'CountersignVersion',
  state: 'CountersignState',
  /**
   * What the run waits for: a list of `slot`, `approval` or `resolution`, and the same with the step (`approval of
   * send`).
   */
  waitingOn: 'CountersignWaitingOn',
  risk: 'CountersignRisk',
} as const
