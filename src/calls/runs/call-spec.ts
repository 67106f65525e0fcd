import type { ToolDeclaration } from '../../tools/kit/tool.ts'
import { getTool } from '../../tools/index.ts'
import { stepReferences } from '../../contract/definition-graph.ts'
import type { WorkflowDefinition, WorkflowStep } from '../../contract/definition.ts'
import { isOutcome, type EffectState, type StepStatus } from '../../contract/status.ts'
import { readCallState } from '../../db/queries/runs/read-call-state.ts'
import type { Db } from '../../db/schema/index.ts'
import type { LabelSource } from '../../db/schema/runs.ts'
import { cutLabels, unionLabels, type Label } from '../../policy/types.ts'
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
import type { EffectKey } from '../../contract/effect-key.ts'

/** A call whose values are not loaded yet. The call's templates name these values, and loading.ts loads them. */
export interface CallSpec {
  readonly key: EffectKey
  readonly run: RunSnapshot
  readonly definition: WorkflowDefinition
  readonly step: WorkflowStep
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
export async function readCallSpec(
  context: SnapshotReader & VersionReader,
  key: EffectKey,
): Promise<CallSpec> {
  const run = await readRunSnapshot(context, key.runId)
  const version = await readVersion(context, run.workflowId, run.workflowVersion)
  return specOf(run, version, key, await readNow(context.db, key, version.dependsOn.get(key.stepId) ?? []))
}

/** Returns the call that begins when `spec` has completed with these labels. Returns null if no call follows. */
export async function followingSpec(
  context: VersionReader,
  spec: CallSpec,
  labels: Label[],
): Promise<CallSpec | null> {
  const { follower: stepId, run } = spec
  if (stepId === null) return null
  const version = await readVersion(context, run.workflowId, run.workflowVersion)
  const dependency = { step_id: spec.key.stepId, labels, status: 'completed' as const, ended: true }
  const key = { runId: run.id, stepId, itemIndex: -1 }
  return specOf(run, version, key, { ...notYetDecided, dependencies: [dependency] })
}

const notYetDecided: Omit<Now, 'dependencies'> = {
  state: null,
  sealed_bytes: null,
  cancelled: false,
  frozen: false,
  starts: 0,
  item_count: null,
}

function specOf(run: RunSnapshot, version: FrozenVersion, key: EffectKey, now: Now): CallSpec {
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
    tool: getTool(step.tool),
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
