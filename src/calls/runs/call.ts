import type { ToolDeclaration } from '../../tools/kit/tool.ts'
import { getTool } from '../../tools/index.ts'
import { stepReferences } from '../../contract/definition-graph.ts'
import type { WorkflowDefinition, WorkflowStep } from '../../contract/definition.ts'
import { isOutcome, type EffectState, type Outcome, type StepStatus } from '../../contract/status.ts'
import { readCallState } from '../../db/queries/runs.ts'
import type { Db } from '../../db/schema/index.ts'
import type { LabelSource, StepError } from '../../db/schema/runs.ts'
import { cutLabels, unionLabels, type Label, type JsonObject, type Role } from '../../policy/types.ts'
import { notFound } from '../../governance/errors.ts'
import {
  readVersion,
  type FrozenVersion,
  type VersionReader,
} from '../../governance/runs/values/version-cache.ts'
import {
  readRunSnapshot,
  type RunSnapshot,
  type SnapshotReader,
} from '../../governance/runs/values/run-snapshot.ts'
import type { Audience } from '../../policy/audience.ts'
import type { HeldDetails } from '../../contract/messages.ts'
import type { SealedText } from '../../governance/sealing/format.ts'
import type { EffectKey } from '../../contract/effect-key.ts'
import { toolDestination, type Installation } from '../../governance/tools/connections.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { CallDestination } from '../../governance/audit/connected.ts'
import type { Call } from '../../policy/decide.ts'
import { sideEffectOf } from '../../policy/tool-facts.ts'

/*
 * The stages of one call of a run. What the definition says (`DefinedCall`); with its values (`ResolvedCall`); decided
 * (`DecidedCall`); what has happened in one attempt (`CallOutcome`). The row of the call is `EffectRecord` (ledger.ts).
 */

/** What the run's version says of a call. The call's templates name values, and loading.ts loads them. */
export interface DefinedCall {
  readonly key: EffectKey
  readonly run: RunSnapshot
  readonly definition: WorkflowDefinition
  readonly step: WorkflowStep
  /** Undefined if the step calls no tool, or a tool that is no longer in the catalogue. */
  readonly tool: ToolDeclaration | undefined
  /** The steps whose outputs the call's templates name. */
  readonly sources: readonly string[]
  /**
   * The labels of every step that the call depends on, and the labels of every step and run input that the call
   * references. If there are more than `mostLabels` labels, `cutLabels` shortens the list and the call fails.
   */
  readonly labels: Label[]
  readonly labelSources: LabelSource[]
  readonly labelsOf: (stepId: string) => readonly Label[]
  /**
   * The size in bytes of the call's stored sealed parameters. Every attempt uses these parameters. Is null if none are
   * stored yet.
   */
  readonly sealedBytes: number | null
  /** The number of items of a `for_each` step. Is null before the step is expanded, and for any other step. */
  readonly itemCount: number | null
  /**
   * The reason why no values are loaded. Is null if values are loaded. `over` means that the call has its outcome, or
   * that the run is cancelled or has ended. `frozen` means that a freeze denies the call.
   */
  readonly stopped: 'over' | 'frozen' | null
  /** The number of the call's loads that were started but did not finish (load-starts.ts). */
  readonly starts: number
  /** The first step that waits for this step and for no other step. Is null if there is no such step. */
  readonly follower: string | null
  /** Whether this step is certainly the last: when it has ended, every step of the run has ended. */
  readonly isLast: boolean
}

/**
 * The sealed state that the approvers of a call see: what the call would change, and the call's connection. The state
 * is sealed for the approval `approvalId`.
 */
export interface Seen {
  readonly approvalId: string
  readonly sealed: Buffer
}

/** A call with its values, prepared for its decision. If `stopped` is set, no value was read: the call can only end. */
export interface ResolvedCall extends DefinedCall {
  readonly tool: ToolDeclaration
  /** Is false if the step's `when` is not true. The call is then `skipped` without a decision. */
  readonly wanted: boolean
  /**
   * The reason why the call cannot be made, for example a wrong template or parameter. The outcome is then `failed`.
   */
  readonly problem: StepError | null
  /**
   * The resolved parameters, for the rules and the tool. `me` is replaced by the requester's address; defaults are not
   * filled in.
   */
  readonly params: JsonObject
  /** The parameters in `params` after their check, with defaults filled in. Is absent if they were not checked yet. */
  readonly parsed?: JsonObject | undefined
  /** Hash of the sealed parameters, in which defaults and `me` are not filled in. */
  readonly paramsHash: string
  readonly paramLabels: ReadonlyMap<string, readonly Label[]>
  readonly sealed: Buffer
  /** The installation's folder and mail server, for tools that need them. */
  readonly installation: Installation
  /** The state that approvers see. Is absent if this state was not read. */
  readonly seen?: Seen | undefined
  /**
   * Words for the part of the shown state that has changed since the call was approved. Is absent if nothing has
   * changed.
   */
  readonly changed?: string
  /** Whether the call is denied if the person who started the run has not confirmed their mail address. */
  readonly mustBeConfirmed: boolean
  /** Seconds until an approval expires if its rule sets no other time; 0 means that the approval never expires. */
  readonly approvalSeconds: number
}

/** What a decision rests on. As long as this does not change, a new decision gives the same answer. */
export interface Basis {
  readonly policyVersion: number
  /** The requester's role. */
  readonly role: Role
}

/** The tool's body may run as this attempt. */
export interface Allowed {
  readonly go: true
  readonly attempt: number
  /** Failures of the tool so far. */
  readonly failures: number
  readonly basis: Basis
  /**
   * Seconds since the time when an earlier attempt may have acted. The tool then looks for the effect of that attempt,
   * or repeats the call with the same key. If the value is null, the tool makes the call without looking.
   */
  readonly sentSecondsAgo: number | null
  /**
   * The id and the address of the connection that the earlier attempt used. Is null if they are unknown, or if nothing
   * was sent.
   */
  readonly sentWith: string | null
  /** The id of the approval that lets the call through. Is null if no rule requires an approval. */
  readonly approvalId: string | null
  /** Where the call goes. It is decided again before it goes anywhere else. */
  readonly to: CallDestination | null
  /** The labels that the organization's rules add to the output. */
  readonly addedLabels: readonly Label[]
  /** Who may read the document or folder to which the call writes. The tool asks the service who really can read it. */
  readonly audience: Audience
}

/** The body does not run now. */
export type Refused =
  /** The call has its outcome. */
  | { readonly go: false; readonly state: Outcome; readonly reason: string }
  | ({ readonly go: false; readonly state: 'held' } & HeldDetails)
  | { readonly go: false; readonly state: 'unknown_outcome' }
  /**
   * There is no decision, because the organization is at its limit of storage or of pending approvals. The caller asks
   * again later.
   */
  | { readonly go: false; readonly state: 'no_room' }

/** The call must be held. The caller first reads the data for its approvers (`ResolvedCall.seen`), then asks again. */
export interface Unseen {
  readonly go: false
  readonly state: 'unseen'
}

export type Decision = Allowed | Refused | Unseen

/** A call with the decision that allows it. */
export interface DecidedCall {
  readonly call: ResolvedCall
  readonly decision: Allowed
}

/** An error that `stepError` has created. */
export type NewError = StepError & { readonly retryable: boolean }

/**
 * The result of the tool's body in one attempt. `cost`, in currency units, is the real cost minus the cost that the
 * attempt has reserved. It is added to the run's cost, which counts towards the limit `monthly_spend`.
 */
export interface CallOutcome {
  readonly key: EffectKey
  readonly attempt: number
  readonly result:
    | {
        readonly state: 'completed'
        /** JSON text. */
        readonly output: SealedText
        /** The labels that the tool declares for every output, and labels of this one output. */
        readonly labels: readonly Label[]
        /** The call as label rules see it. These rules can add labels to the output. */
        readonly call: Call
        readonly cost?: number | undefined
      }
    /**
     * `retry` means that the failure is temporary and the call is made again. The caller chooses between `retry` and
     * `failed` by the step's retry options.
     */
    | {
        readonly state: 'failed' | 'retry'
        readonly error: NewError
        /** JSON text of values that belong to the error. */
        readonly errorDetail?: SealedText | undefined
        readonly cost?: number | undefined
      }
    | { readonly state: 'cancelled' | 'unknown_outcome' }
  readonly durationMs: number
  /** True if the tool's body did not begin, for example because the attempt only looked for an earlier effect. */
  readonly bodiless?: boolean
}

/**
 * Thrown if a step that the call depends on has not ended, or has ended in a way that stops the run (`stopsTheRun`).
 * Countersign's Temporal workflow never asks for such a call, but a forged workflow may.
 */
export class NotReady extends Error {
  override readonly name = 'NotReady'
}

/**
 * Reads everything about a call except the values. Throws UnknownRun for an unknown run, and `not_found` for an unknown
 * step. Throws NotReady if a dependency does not let the call run.
 */
export async function readDefinedCall(
  context: SnapshotReader & VersionReader,
  key: EffectKey,
): Promise<DefinedCall> {
  const run = await readRunSnapshot(context, key.runId)
  const version = await readVersion(context, run.workflowId, run.workflowVersion)
  return definedCall(
    run,
    version,
    key,
    await readNow(context.db, key, version.dependsOn.get(key.stepId) ?? []),
  )
}

/** Returns the call that begins when `defined` has completed with these labels. Returns null if no call follows. */
export async function followingCall(
  context: VersionReader,
  defined: DefinedCall,
  labels: Label[],
): Promise<DefinedCall | null> {
  const { follower: stepId, run } = defined
  if (stepId === null) return null
  const version = await readVersion(context, run.workflowId, run.workflowVersion)
  const dependency = { step_id: defined.key.stepId, labels, status: 'completed' as const, ended: true }
  const key = { runId: run.id, stepId, itemIndex: -1 }
  return definedCall(run, version, key, { ...notYetDecided, dependencies: [dependency] })
}

const notYetDecided: Omit<Now, 'dependencies'> = {
  state: null,
  sealed_bytes: null,
  cancelled: false,
  frozen: false,
  starts: 0,
  item_count: null,
}

function definedCall(run: RunSnapshot, version: FrozenVersion, key: EffectKey, now: Now): DefinedCall {
  const { definition } = version
  const step = definition.steps.find((each) => each.id === key.stepId)
  if (step === undefined) throw notFound('step', key.stepId)
  const dependsOn = version.dependsOn.get(key.stepId) ?? []
  const ended = now.state !== null && isOutcome(now.state)
  const labels = ended ? new Map<string, Label[]>() : labelsOf(definition, dependsOn, now.dependencies ?? [])
  for (const [source, own] of ended ? [] : labelsOfInputs(run, step)) labels.set(source, own)
  const sources = ended ? [] : referenced(step).filter((id) => dependsOn.includes(id))
  return {
    key,
    run,
    definition,
    step,
    tool: step.tool === undefined ? undefined : getTool(step.tool),
    sources,
    labels: cutLabels(unionLabels(...labels.values())),
    labelSources: sourcesOf(labels),
    labelsOf: (id) => labels.get(id) ?? [],
    sealedBytes: now.sealed_bytes,
    itemCount: now.item_count,
    stopped: ended || now.cancelled ? 'over' : now.frozen ? 'frozen' : null,
    starts: now.starts,
    follower: version.followers.get(key.stepId) ?? null,
    isLast: version.last === key.stepId,
  }
}

interface Now {
  state: EffectState | null
  sealed_bytes: number | null
  cancelled: boolean
  frozen: boolean
  starts: number
  item_count: number | null
  dependencies: { step_id: string; labels: Label[]; status: StepStatus; ended: boolean }[] | null
}

/**
 * Reads in one statement everything that can change: the call's row, its dependencies, its run and its organization.
 */
async function readNow(db: Db, key: EffectKey, dependsOn: readonly string[]): Promise<Now> {
  const { rows } = await readCallState<Now>({
    runId: key.runId,
    stepId: key.stepId,
    itemIndex: key.itemIndex,
    dependsOn,
  }).execute(db)
  return rows[0] as Now
}

/**
 * Returns the output labels of each dependency, in the order of `dependsOn`. Throws NotReady if a dependency has not
 * ended, or if `stopsTheRun` is true for a dependency.
 */
function labelsOf(
  definition: WorkflowDefinition,
  dependsOn: readonly string[],
  found: NonNullable<Now['dependencies']>,
): Map<string, Label[]> {
  const ended = new Map(found.filter((row) => row.ended).map((row) => [row.step_id, row.labels]))
  const open = dependsOn.filter((id) => !ended.has(id) || stopsTheRun(definition, found, id))
  if (open.length > 0) throw new NotReady(`waits for \`${open.join('`, `')}\``)
  return new Map(dependsOn.map((id) => [id, ended.get(id) ?? []]))
}

/**
 * Returns the labels of the inputs that the step references. The key is the source of the labels: an input, or a step
 * of an earlier run.
 */
function labelsOfInputs(run: RunSnapshot, step: WorkflowStep): Map<string, Label[]> {
  const labels = new Map<string, Set<Label>>()
  const names = stepReferences(step).flatMap(({ reference }) =>
    reference.kind === 'input' ? [reference.name] : [],
  )
  for (const { label, from } of [...new Set(names)].flatMap((name) => run.inputLabels.get(name) ?? [])) {
    for (const source of from) {
      const own = labels.get(source)
      if (own === undefined) labels.set(source, new Set([label]))
      else own.add(label)
    }
  }
  return new Map([...labels].map(([source, own]) => [source, [...own].sort()]))
}

/**
 * Returns true if the end of step `id` keeps the steps that depend on it from running. The frozen version of the
 * definition decides this, not the Temporal workflow.
 */
function stopsTheRun(
  definition: WorkflowDefinition,
  found: NonNullable<Now['dependencies']>,
  id: string,
): boolean {
  const status = found.find((row) => row.step_id === id)?.status
  if (status === 'completed' || status === 'skipped') return false
  const step = definition.steps.find((each) => each.id === id)
  return step?.on_error !== 'continue' || status === 'cancelled'
}

function sourcesOf(labels: ReadonlyMap<string, readonly Label[]>): LabelSource[] {
  const all = cutLabels(unionLabels(...labels.values()))
  const from = new Map<Label, string[]>(all.map((label) => [label, []]))
  for (const [source, own] of labels) for (const label of new Set(own)) from.get(label)?.push(source)
  return all.map((label) => ({ label, from: from.get(label) ?? [] }))
}

function referenced(step: WorkflowStep): string[] {
  const ids = stepReferences(step).flatMap(({ reference }) =>
    reference.kind === 'step' ? [reference.stepId] : [],
  )
  return [...new Set(ids)]
}

/** Returns where the call goes now, with the requester's connection. */
export const whereTo = (
  { tx, run }: { readonly tx: ChainTx; readonly run: { readonly requested_by: string } },
  op: ResolvedCall,
): CallDestination | null =>
  toolDestination(op.installation, tx.policy.connections, op.tool, run.requested_by)

/** Returns the call as the rules see it. */
export function callOf(op: ResolvedCall, to: CallDestination | null): Call {
  return {
    source: 'workflows',
    tool: op.tool.name,
    sideEffect: sideEffectOf(op.tool, op.params, to, op.paramLabels.size > 0),
    params: op.params,
    destination: to?.destination ?? null,
    labels: op.labels,
    paramLabels: op.paramLabels,
  }
}
