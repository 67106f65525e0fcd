import type { BadOutcome, Outcome } from './status.ts'

/** Messages between API, workers and Temporal. They never contain the data of a run. */

export const workflowType = 'governedRun'
/** New runs get this version. A released interpreter never changes, and each run keeps its version. */
export const interpreterVersion = 1

/** The graph of one frozen version. */
export interface RunInput {
  readonly runId: string
  readonly interpreterVersion: number
  readonly steps: readonly SkeletonStep[]
  /** The run itself needs an approval, so `enterRun` must admit it before the first step begins. */
  readonly gated: boolean
  readonly heartbeatSeconds: number
  /** The cluster has the search attributes. Otherwise the workflow must not set them. */
  readonly searchAttributes: boolean
  /** Absent in the first Temporal history. */
  readonly carried?: Carried
}

/**
 * What a run carries into a new Temporal history (continue-as-new). It only saves reading the rows again. If
 * a call is missing here, it is scheduled again, and the activity answers with the state of the call's row.
 */
export interface Carried {
  /** The ids of the steps that have ended. */
  readonly ended: readonly string[]
  /** The key is the id of a `for_each` step in progress. */
  readonly items: Readonly<Record<string, CarriedItems>>
  /** The calls without a wake-up. The key is the call's key in `Wake`. */
  readonly waiting: Readonly<Record<string, WaitReason>>
}

export interface CarriedItems {
  readonly count: number
  /** The first item that has not begun. */
  readonly next: number
  /** Items that have begun and have not ended. */
  readonly open: readonly number[]
}

/**
 * The reason why a call waits:
 * - `approval`: the call waits for an approval, until `expiresAt` (ISO 8601; null if the approval never expires);
 * - `slot`: the call waits for a concurrency slot of its run, at most until the call's approval expires (`expiresAt`);
 * - `time`: the step waits until `expiresAt` (a step `wait`);
 * - `answer`: the step waits for a person's answer, until `expiresAt` (a step `ask`);
 * - `resolution`: the outcome of the call is unknown, and the call waits until a person resolves the outcome.
 */
export type WaitReason =
  | { readonly kind: HeldFor; readonly expiresAt: string | null }
  | { readonly kind: 'resolution'; readonly expiresAt: null }

export interface SkeletonStep {
  readonly id: string
  /** The step's tool, or its kind if it calls none. */
  readonly activity: string
  readonly dependsOn: readonly string[]
  readonly forEach: boolean
  readonly continueOnError: boolean
  /** This limits one attempt. */
  readonly timeoutSeconds: number
  /** The call takes a few seconds and can be repeated, so it may run as a local activity. */
  readonly quick?: true
  /** This limits the items that are in progress at the same time. If absent, the interpreter decides. */
  readonly itemsAtOnce?: number
  /** An item that waits for a person or a time keeps its place among them. */
  readonly keepsPlace?: true
  /** `summary` of the step or words of its kind, cut to 256 bytes. Only operators read it. */
  readonly summary: string
}

/** The run may continue. */
export interface StepDone {
  readonly outcome: Extract<Outcome, 'completed' | 'skipped'>
}

export const failureTypes = {
  /** The details are `HeldDetails`. The workflow waits, and then schedules the call again. */
  approvalRequired: 'ApprovalRequired',
  /** The step waits for a time or an answer. The details are `HeldDetails`. */
  waiting: 'Waiting',
  /** Nobody can know whether the call took effect. It is scheduled again after a person has resolved it. */
  unknownOutcome: 'UnknownOutcome',
  /** The details are `EndedDetails`. The message is the outcome, such as `denied`. */
  ended: 'StepEnded',
  /** A temporary problem, such as a database outage. The call is tried again. */
  unavailable: 'Unavailable',
  /** Temporal does not try again. Example: the run's step does not call the scheduled tool. */
  refused: 'Refused',
} as const

export type HeldFor = 'approval' | 'slot' | 'time' | 'answer'

/** A quick call (a local activity) failed, and is scheduled again as an ordinary activity. */
export interface AgainDetails {
  /** The ordinary activity starts after this time. */
  readonly afterMilliseconds: number
}

export interface HeldDetails {
  readonly waitsFor: HeldFor
  /** Null if the call waits only for a slot of its run, or for a time. */
  readonly approvalId: string | null
  /** The end of the approval or of the step's wait, in ISO 8601, or null. */
  readonly expiresAt: string | null
}

export interface EndedDetails {
  readonly outcome: BadOutcome
}

/** The signal only wakes the workflow and carries no decision. */
export const wakeSignal = 'wake'
export interface Wake {
  /**
   * `stepId#itemIndex` wakes one call, '' the run that waits for its own approval, and `slotKey` all calls
   * that wait for a slot. Without a key, everything wakes.
   */
  readonly key?: string | readonly string[]
  /** The person whose decision caused the signal. Only operators use it. */
  readonly by?: string
}

/** What Temporal must be told of a run. */
export interface EngineMessage {
  readonly kind: 'run.start' | 'run.wake' | 'run.cancel'
  readonly run_id: string
  readonly payload: Wake
}

/** This cannot be the key of a call, because a call's key always has a `#`. */
export const slotKey = 'slot'
export const wakeKey = (stepId: string, itemIndex: number | null): string => `${stepId}#${itemIndex ?? -1}`

export type EnterResult =
  | { readonly state: 'go' }
  | { readonly state: 'wait'; readonly waitsFor: 'approval' | 'slot'; readonly expiresAt: string | null }
  | { readonly state: 'ended' }

export type ExpandResult = { readonly count: number } | { readonly ended: BadOutcome }

export type FinalStatus = 'completed' | 'failed' | 'denied' | 'rejected' | 'expired' | 'cancelled'

/** The workflow saw this end of the run. All other facts are in the database. */
export interface FinishInput {
  readonly runId: string
  readonly status: FinalStatus
  /** The step that ended the run. */
  readonly stepId?: string
}

/** The message with which the workflow of a run fails. Contains no value. */
export const endMessage = (status: FinalStatus, stepId: string | undefined): string =>
  stepId === undefined ? status : `${status}: step ${stepId}`
const anEnd = /^(failed|denied|rejected|expired|cancelled)(: step |$)/
/** The run ended badly. The workflow then fails without an error of its own. */
export const isEndMessage = (message: string): boolean => anEnd.test(message)

/** temporal-dev.yml registers these on the development server. */
export const searchAttributes = {
  organization: 'CountersignOrganization',
  workflow: 'CountersignWorkflow',
  workflowName: 'CountersignWorkflowName',
  version: 'CountersignVersion',
  state: 'CountersignState',
  /** A list of the words of `WaitReason`, and each with its step, such as `approval of send`. */
  waitingOn: 'CountersignWaitingOn',
  risk: 'CountersignRisk',
} as const
