import type { BadOutcome, Outcome } from './status.ts'

/**
 * Messages between API, workers and Temporal. They contain ids, outcomes, counts and parts of the definition, but never
 * the data of a run.
 */

export const workflowType = 'governedRun'
/** The version of the interpreter for new runs. A released interpreter never changes, and a run keeps its version. */
export const interpreterVersion = 1

/** Input of a run's workflow: the graph of one frozen version. */
export interface RunInput {
  readonly runId: string
  readonly interpreterVersion: number
  readonly steps: readonly SkeletonStep[]
  /** True if the run itself needs an approval. Then `enterRun` must admit the run before its first step. */
  readonly gated: boolean
  readonly heartbeatSeconds: number
  /** True if the workflow may set search attributes, because they are registered on this cluster. */
  readonly searchAttributes: boolean
  /** The progress that the run made in its earlier Temporal histories; absent in its first Temporal history. */
  readonly carried?: Carried
}

/**
 * The progress that a run carries into a new Temporal history (continue-as-new): ids, counts and deadlines. The
 * progress only saves reading the rows again, and nothing relies on it. If a call is missing here, the workflow
 * schedules the call again, and gets the state of its row.
 */
export interface Carried {
  /** Steps that have ended. */
  readonly ended: readonly string[]
  /** `for_each` steps in progress, by id. */
  readonly items: Readonly<Record<string, CarriedItems>>
  /** The waiting calls for which no wake-up has come, by their key in `Wake`. */
  readonly waiting: Readonly<Record<string, WaitReason>>
}

export interface CarriedItems {
  readonly count: number
  /** The first item that has not begun. */
  readonly next: number
  /** Items before `next` that have not ended. */
  readonly open: readonly number[]
}

/**
 * The reason why a call waits:
 * - `approval`: for an approval, until `expiresAt` (ISO 8601; null if the approval never expires);
 * - `slot`: for a concurrency slot of its run, at most until its approval expires (`expiresAt`);
 * - `resolution`: for a person to resolve its unknown outcome.
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
  /** true if the call takes a few seconds and can be repeated. Then it may run as a local activity. Absent if not. */
  readonly quick?: true
  /**
   * The maximum number of items of a `for_each` step that are in progress at the same time. If it is absent, the
   * interpreter decides.
   */
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

/** The result of a tool activity, if the run may continue. */
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
  /**
   * Nobody can know whether the call took effect. The workflow waits until a person has resolved this, and then
   * schedules the call again.
   */
  unknownOutcome: 'UnknownOutcome',
  /**
   * The call ended badly. The details of the failure are `EndedDetails`. The message names the rule or the code of the
   * error.
   */
  ended: 'StepEnded',
  /** A temporary problem (a database outage, a tool's retryable failure): Temporal tries again. */
  unavailable: 'Unavailable',
  /** The call was not scheduled by this service. */
  refused: 'Refused',
} as const

/** The reason why a call or a run is held. */
export type HeldFor = 'approval' | 'slot'

/** Details of a failed quick call (a local activity) that the workflow schedules again as an ordinary activity. */
export interface AgainDetails {
  /** Time to wait before the ordinary activity. */
  readonly afterMilliseconds: number
}

export interface HeldDetails {
  readonly waitsFor: HeldFor
  /** null if the call needs no approval and waits only for a slot of its run. */
  readonly approvalId: string | null
  /** The time when the approval expires, in ISO 8601; null if it never expires. */
  readonly expiresAt: string | null
}

export interface EndedDetails {
  readonly outcome: BadOutcome
}

/** The signal for a change on which a run may wait. It only wakes the workflow and carries no decision. */
export const wakeSignal = 'wake'
export interface Wake {
  /**
   * Says what the signal wakes: calls (`stepId#itemIndex`), the approval of the run itself (empty text), or all calls
   * that wait for a slot of the run (`slotKey`). Without a key, the signal wakes everything that waits.
   */
  readonly key?: string | readonly string[]
  /**
   * The id of the person whose decision has caused the signal. It is only for operators: the interpreter does not read
   * it.
   */
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

/** The end of a run as the workflow saw it. All other facts about the end are in the database. */
export interface FinishInput {
  readonly runId: string
  readonly status: FinalStatus
  /** The step that ended the run. */
  readonly stepId?: string
}

/**
 * The message with which the workflow of a run fails. It names the run's end and the step that ended the run, and
 * contains no value.
 */
export const endMessage = (status: FinalStatus, stepId: string | undefined): string =>
  stepId === undefined ? status : `${status}: step ${stepId}`
const anEnd = /^(failed|denied|rejected|expired|cancelled)(: step |$)/
/** True for a message of `endMessage`: the workflow failed because its run ended, and not because of an error. */
export const isEndMessage = (message: string): boolean => anEnd.test(message)

/** The names of the search attributes in Temporal. temporal-dev.yml registers them on the development server. */
export const searchAttributes = {
  organization: 'CountersignOrganization',
  workflow: 'CountersignWorkflow',
  workflowName: 'CountersignWorkflowName',
  version: 'CountersignVersion',
  state: 'CountersignState',
  /**
   * What the run waits for, as a list of words: `slot`, `approval` or `resolution`, and also each word with its step
   * (`approval of send`).
   */
  waitingOn: 'CountersignWaitingOn',
  risk: 'CountersignRisk',
} as const
