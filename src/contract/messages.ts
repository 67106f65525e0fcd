import type { BadOutcome, Outcome } from './status.ts'

/**
 * Messages between API, workers and Temporal. They contain ids, outcomes, counts and parts of the definition, but never
 * the data of a run.
 */

export const workflowType = 'governedRun'
/**
 * The version of the interpreter for new runs. A released interpreter never changes, and each run keeps the version
 * with which it began.
 */
export const interpreterVersion = 1

/** Input of a run's workflow: the graph of one frozen version. */
export interface RunInput {
  readonly runId: string
  readonly interpreterVersion: number
  readonly steps: readonly SkeletonStep[]
  /**
   * Is true if the run itself needs an approval. In this case, `enterRun` must admit the run before the first step
   * begins.
   */
  readonly gated: boolean
  readonly heartbeatSeconds: number
  /** Is true if the search attributes are registered on this cluster. The workflow may set them only in this case. */
  readonly searchAttributes: boolean
  /** The progress that the run made in its earlier Temporal histories. Is absent in the first Temporal history. */
  readonly carried?: Carried
}

/**
 * The progress that a run carries into a new Temporal history (continue-as-new): ids, counts and deadlines. The
 * progress only saves reading the rows again, and nothing relies on it. If a call is missing here, the workflow
 * schedules the call again. The activity then answers with the state of the call's row.
 */
export interface Carried {
  /** The ids of the steps that have ended. */
  readonly ended: readonly string[]
  /** The `for_each` steps in progress. The key is the id of the step. */
  readonly items: Readonly<Record<string, CarriedItems>>
  /** The waiting calls for which no wake-up has come. The key is the call's key in `Wake`. */
  readonly waiting: Readonly<Record<string, WaitReason>>
}

export interface CarriedItems {
  readonly count: number
  /** The index of the first item that has not begun. */
  readonly next: number
  /** The indexes of the items that have begun and have not ended. */
  readonly open: readonly number[]
}

/**
 * The reason why a call waits:
 * - `approval`: the call waits for an approval, until `expiresAt` (ISO 8601; null if the approval never expires);
 * - `slot`: the call waits for a concurrency slot of its run, at most until the call's approval expires (`expiresAt`);
 * - `time`: the step waits until `expiresAt` (a step `wait`);
 * - `resolution`: the outcome of the call is unknown, and the call waits until a person resolves the outcome.
 */
export type WaitReason =
  | { readonly kind: HeldFor; readonly expiresAt: string | null }
  | { readonly kind: 'resolution'; readonly expiresAt: null }

export interface SkeletonStep {
  readonly id: string
  /** The name of the activity that runs the step: its tool, or its kind if it calls none. */
  readonly activity: string
  readonly dependsOn: readonly string[]
  readonly forEach: boolean
  readonly continueOnError: boolean
  /** Time limit of one attempt. */
  readonly timeoutSeconds: number
  /**
   * Is true if the call takes a few seconds and can be repeated. Such a call may run as a local activity. Is absent for
   * all other calls.
   */
  readonly quick?: true
  /**
   * The maximum number of items of a `for_each` step that are in progress at the same time. If it is absent, the
   * interpreter decides.
   */
  readonly itemsAtOnce?: number
  /**
   * What the step does, cut to 256 bytes: its `summary` in the definition, or words of its kind. Only operators read it.
   */
  readonly summary: string
}

/** The result of a step's activity, if the run may continue. */
export interface StepDone {
  readonly outcome: Extract<Outcome, 'completed' | 'skipped'>
}

/** Failure types for all other results of a tool activity. */
export const failureTypes = {
  /**
   * The call is held. The details of the failure are `HeldDetails`. The workflow waits, and then schedules the call
   * again.
   */
  approvalRequired: 'ApprovalRequired',
  /** The step waits for a time. The details are those of `approvalRequired`. */
  waiting: 'Waiting',
  /**
   * Nobody can know whether the call took effect. The workflow waits until a person has resolved the outcome, and then
   * schedules the call again.
   */
  unknownOutcome: 'UnknownOutcome',
  /**
   * The call ended badly. The details of the failure are `EndedDetails`. The message is the outcome, such as `denied`.
   */
  ended: 'StepEnded',
  /** A temporary problem, such as a database outage or a tool's retryable failure. The call is tried again. */
  unavailable: 'Unavailable',
  /**
   * The service refuses the call, and Temporal does not try again. Example: the run's step does not call the scheduled
   * tool.
   */
  refused: 'Refused',
} as const

/** The reason why a call, a wait or a run is held. */
export type HeldFor = 'approval' | 'slot' | 'time'

/**
 * Details of the failure of a quick call (a local activity). The workflow schedules the call again as an ordinary
 * activity.
 */
export interface AgainDetails {
  /** Time to wait before the ordinary activity. */
  readonly afterMilliseconds: number
}

export interface HeldDetails {
  readonly waitsFor: HeldFor
  /** Is null if the call waits only for a slot of its run, or for a time. */
  readonly approvalId: string | null
  /** The time when the approval expires, or the time for which a step waits, in ISO 8601. Is null if there is none. */
  readonly expiresAt: string | null
}

export interface EndedDetails {
  readonly outcome: BadOutcome
}

/**
 * Tells the workflow that something has changed for which the run may wait. The signal only wakes the workflow and
 * carries no decision.
 */
export const wakeSignal = 'wake'
export interface Wake {
  /**
   * Says what the signal wakes. `stepId#itemIndex` wakes one call. An empty text wakes the run that waits for its own
   * approval. `slotKey` wakes all calls that wait for a slot of the run. Without a key, the signal wakes everything
   * that waits.
   */
  readonly key?: string | readonly string[]
  /**
   * The id of the person whose decision has caused the signal. Only operators use the id, and the interpreter does not
   * read it.
   */
  readonly by?: string
}

/** Wakes calls that wait for a slot. This text cannot be the key of a call, because a call's key always has a `#`. */
export const slotKey = 'slot'
export const wakeKey = (stepId: string, itemIndex: number | null): string => `${stepId}#${itemIndex ?? -1}`

export type EnterResult =
  | { readonly state: 'go' }
  | { readonly state: 'wait'; readonly waitsFor: 'approval' | 'slot'; readonly expiresAt: string | null }
  | { readonly state: 'ended' }

export type ExpandResult = { readonly count: number } | { readonly ended: BadOutcome }

export type FinalStatus = 'completed' | 'failed' | 'denied' | 'rejected' | 'expired' | 'cancelled'

/** The end of a run as the workflow saw it. All other facts about the end are in the database. */
export interface FinishInput {
  readonly runId: string
  readonly status: FinalStatus
  /** The step that ended the run. */
  readonly stepId?: string
}

/**
 * Returns the message with which the workflow of a run fails. The message names the run's end and the step that ended
 * the run, and contains no value.
 */
export const endMessage = (status: FinalStatus, stepId: string | undefined): string =>
  stepId === undefined ? status : `${status}: step ${stepId}`
const anEnd = /^(failed|denied|rejected|expired|cancelled)(: step |$)/
/**
 * Returns true for a message of `endMessage`. Such a message means that the run ended badly. The workflow then fails
 * without an error of its own.
 */
export const isEndMessage = (message: string): boolean => anEnd.test(message)

/** The names of the search attributes in Temporal. temporal-dev.yml registers them on the development server. */
export const searchAttributes = {
  organization: 'CountersignOrganization',
  workflow: 'CountersignWorkflow',
  workflowName: 'CountersignWorkflowName',
  version: 'CountersignVersion',
  state: 'CountersignState',
  /**
   * What the run waits for, as a list of words. The words are `slot`, `approval`, `resolution` and `time`. The list also has
   * each word with its step, such as `approval of send`.
   */
  waitingOn: 'CountersignWaitingOn',
  risk: 'CountersignRisk',
} as const
