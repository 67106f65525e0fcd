import type { ToolDeclaration } from '../../tools/kit/tool.ts'
import { getTool } from '../../tools/index.ts'
import { referencesOfStep } from '../../contract/definition-graph.ts'
import { skipsWithOthers, type WorkflowDefinition, type WorkflowStep } from '../../contract/definition.ts'
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
import type { EffectKey } from '../../contract/ids.ts'
import { toolDestination, type Installation } from '../../governance/tools/connections.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { CallDestination } from '../../governance/audit/connected.ts'
import type { Call } from '../../policy/decide.ts'
import { sideEffectOf } from '../../policy/tool-facts.ts'

/*
 * The stages of one call of a run: its definition (`DefinedCall`), its values (`ResolvedCall`), its decision
 * (`DecidedCall`), and one attempt (`CallOutcome`). The row of the call is `EffectRecord` (ledger.ts).
 */

/** The templates name values, and loading.ts loads them. */
export interface DefinedCall {
  readonly key: EffectKey
  readonly run: RunSnapshot
  readonly definition: WorkflowDefinition
  readonly step: WorkflowStep
  /** Undefined if the step calls no tool, or a tool that is no longer in the catalogue. */
  readonly tool: ToolDeclaration | undefined
  /** Steps whose outputs the templates name. */
  readonly sources: readonly string[]
  /**
   * They come from every step that the call depends on, and every step and input that it references. If there
   * are more than `mostLabels`, `cutLabels` shortens the list and the call fails.
   */
  readonly labels: Label[]
  readonly labelSources: LabelSource[]
  readonly labelsOf: (stepId: string) => readonly Label[]
  /** The size in bytes, or null if none are stored yet. Every attempt uses the stored parameters. */
  readonly sealedBytes: number | null
  /** Null before a `for_each` step is expanded, and for any other step. */
  readonly itemCount: number | null
  /**
   * `over`: the call has its outcome, or its run has ended or is cancelled. `frozen`: a freeze denies the
   * call.
   */
  readonly stopped: 'over' | 'frozen' | null
  /** All steps before it were skipped, and its definition says that it then is skipped too. */
  readonly isPassedOver: boolean
  /** Loads of the call that did not finish (loading.ts). */
  readonly starts: number
  /** The first step that waits only for this step. */
  readonly follower: string | null
  /** When this step has ended, every step of the run has certainly ended. */
  readonly isLast: boolean
}

/** This is what the call would change, and its connection. It is sealed for the approval `approvalId`. */
export interface Seen {
  readonly approvalId: string
  readonly sealed: Buffer
}

/** What the earlier runs of the chain have done (earlier.ts). */
export interface Earlier {
  /** The outcome that the step takes. */
  readonly reused: Reused | null
  /** The call with equal parameters that the chain has made, as `RUN/STEP/ITEM`. */
  readonly repeats: string | null
}

export interface Reused {
  /** The run that made the call. */
  readonly from: string
  readonly paramsHash: string
  /** Null: the call had no output. */
  readonly output: SealedText | null
  readonly labels: readonly string[]
}

/** If `stopped` is set, no value was read: the call can only end. */
export interface ResolvedCall extends DefinedCall {
  readonly tool: ToolDeclaration
  /** False if the step's `when` is not true. The call is then `skipped` without a decision. */
  readonly wanted: boolean
  /** Why the call cannot be made, e.g. a wrong template or parameter. The outcome is then `failed`. */
  readonly problem: StepError | null
  /** `me` is replaced by the requester's address; defaults are not filled in. */
  readonly params: JsonObject
  /** `params` after their check, with defaults. Absent if they were not checked yet. */
  readonly parsed?: JsonObject | undefined
  /** This covers the sealed parameters, in which defaults and `me` are not filled in. */
  readonly paramsHash: string
  readonly paramLabels: ReadonlyMap<string, readonly Label[]>
  readonly sealed: Buffer
  /** Some tools need its folder or its mail server. */
  readonly installation: Installation
  /** Absent if this state was not read. */
  readonly seen?: Seen | undefined
  /** What has changed in the shown state since the call was approved, in words. */
  readonly changed?: string
  /** Denied if the person who started the run has not confirmed their mail address. */
  readonly mustBeConfirmed: boolean
  /** The rule can set another time. 0 means that the approval never expires. */
  readonly approvalSeconds: number
  /** Only read when the parameters are resolved: a call that takes an outcome ends at once. */
  readonly earlier: Earlier
}

/** As long as this does not change, a new decision gives the same answer. */
export interface Basis {
  readonly policyVersion: number
  /** The requester's role. */
  readonly role: Role
  /** By the id of the person: the roles of those who typed values of the call. */
  readonly typists: Readonly<Record<string, Role>>
}

export interface Allowed {
  readonly go: true
  readonly attempt: number
  readonly failures: number
  readonly basis: Basis
  /**
   * Seconds since an earlier attempt may have acted. The tool then looks for its effect or repeats it with
   * the same key. Null: the tool makes the call without looking.
   */
  readonly sentSecondsAgo: number | null
  /** The earlier attempt's connection: id and address. Null if unknown, or if nothing was sent. */
  readonly sentWith: string | null
  /** Null if no rule requires an approval. */
  readonly approvalId: string | null
  /** The call is decided again before it goes anywhere else. */
  readonly to: CallDestination | null
  /** These labels come from the organization's rules. */
  readonly addedLabels: readonly Label[]
  /** Who may read what the call writes to. The tool asks the service who really can read it. */
  readonly audience: Audience
}

export type Refused =
  /** The call has its outcome. */
  | { readonly go: false; readonly state: Outcome; readonly reason: string }
  | ({ readonly go: false; readonly state: 'held' } & HeldDetails)
  | { readonly go: false; readonly state: 'unknown_outcome' }
  /** The organization is at its limit of storage or of pending approvals. The caller asks again later. */
  | { readonly go: false; readonly state: 'no_room' }

/** The caller first reads the data for its approvers (`ResolvedCall.seen`), then asks again. */
export interface Unseen {
  readonly go: false
  readonly state: 'unseen'
}

export type Decision = Allowed | Refused | Unseen

export interface DecidedCall {
  readonly call: ResolvedCall
  readonly decision: Allowed
}

export type NewError = StepError & { readonly retryable: boolean }

/** `cost` is in currency units, without what the attempt has reserved. It counts towards `monthly_spend`. */
export interface CallOutcome {
  readonly key: EffectKey
  readonly attempt: number
  readonly result:
    | {
        readonly state: 'completed'
        /** JSON text. */
        readonly output: SealedText
        /** These are the tool's labels for every output, and labels of this one output. */
        readonly labels: readonly Label[]
        /** Label rules read this, and can add labels to the output. */
        readonly call: Call
        readonly cost?: number | undefined
      }
    /** The caller chooses between `retry` and `failed` by the step's retry options. */
    | {
        readonly state: 'failed' | 'retry'
        readonly error: NewError
        /** JSON text of values that belong to the error. */
        readonly errorDetail?: SealedText | undefined
        readonly cost?: number | undefined
      }
    | { readonly state: 'cancelled' | 'unknown_outcome' }
  readonly durationMs: number
  /** The tool's body did not begin, e.g. because the attempt only looked for an earlier effect. */
  readonly bodiless?: boolean
}

/** Countersign's Temporal workflow never asks for a call that cannot run yet, but a forged one may. */
export class NotReady extends Error {
  override readonly name = 'NotReady'
}

/** A person has edited the parameters while they were prepared. The attempt is repeated with the new ones. */
export class EditedMeanwhile extends Error {
  override readonly name = 'EditedMeanwhile'
}

/** Throws UnknownRun, `not_found` for an unknown step, and NotReady because of a dependency. */
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

/** The call that begins when `defined` has completed with these labels. */
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
  typed_labels: null,
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
  if (!ended && now.typed_labels !== null) labels.set(typedSource, now.typed_labels)
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
    isPassedOver: skipsWithOthers(definition, step) && areSkipped(dependsOn, now.dependencies ?? []),
    starts: now.starts,
    follower: version.followers.get(key.stepId) ?? null,
    isLast: version.last === key.stepId,
  }
}

interface Now {
  state: EffectState | null
  /** What people typed into the held call has them. */
  typed_labels: Label[] | null
  sealed_bytes: number | null
  cancelled: boolean
  frozen: boolean
  starts: number
  item_count: number | null
  dependencies: { step_id: string; labels: Label[]; status: StepStatus; ended: boolean }[] | null
}

/** Reads in one statement everything that can change. */
async function readNow(db: Db, key: EffectKey, dependsOn: readonly string[]): Promise<Now> {
  const { rows } = await readCallState<Now>({
    runId: key.runId,
    stepId: key.stepId,
    itemIndex: key.itemIndex,
    dependsOn,
  }).execute(db)
  return rows[0] as Now
}

const areSkipped = (dependsOn: readonly string[], found: NonNullable<Now['dependencies']>): boolean =>
  dependsOn.length > 0 &&
  dependsOn.every((id) => found.find((row) => row.step_id === id)?.status === 'skipped')

/** The result is in the order of `dependsOn`. Throws NotReady if a dependency does not let the call run. */
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

/** Stands in `label_sources` for what people typed into a held call (revise.ts). No step has this id. */
export const typedSource = 'typed.values'

/** The key is the source of the labels: an input, or a step of an earlier run. */
function labelsOfInputs(run: RunSnapshot, step: WorkflowStep): Map<string, Label[]> {
  const labels = new Map<string, Set<Label>>()
  const names = referencesOfStep(step).flatMap((reference) =>
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

/** The frozen version of the definition decides this, not the Temporal workflow. */
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
  const ids = referencesOfStep(step).flatMap((reference) =>
    reference.kind === 'step' && reference.of === 'output' ? [reference.stepId] : [],
  )
  return [...new Set(ids)]
}

/** This uses the requester's connection. */
export const whereTo = (
  { tx, run }: { readonly tx: ChainTx; readonly run: { readonly requested_by: string } },
  op: ResolvedCall,
): CallDestination | null =>
  toolDestination(op.installation, tx.policy.connections, op.tool, run.requested_by)

/** The rules see the call like this. */
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
