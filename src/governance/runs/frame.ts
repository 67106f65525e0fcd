import { sql } from 'kysely'
import type { ToolDeclaration } from '../../catalog/tool.ts'
import { getTool } from '../../catalog/index.ts'
import { stepReferences, type WorkflowDefinition, type WorkflowStep } from '../../contract/definition.ts'
import { isOutcome, type EffectState, type StepStatus } from '../../contract/status.ts'
import type { Context } from '../../context.ts'
import type { LabelSource } from '../../db/schema/runs.ts'
import { cutLabels, unionLabels, type Label } from '../../policy/types.ts'
import { notFound } from '../errors.ts'
import { readVersion } from './version-cache.ts'
import { readFixedRun, type FixedRun } from './fixed-run.ts'
import type { EffectKey } from './ledger.ts'

/** What one call is made of, but for the values it names: those are loaded with it (loading.ts). */
export interface Frame {
  readonly key: EffectKey
  readonly run: FixedRun
  readonly definition: WorkflowDefinition
  readonly step: WorkflowStep
  readonly tool: ToolDeclaration | undefined
  /** Steps whose outputs its templates name. */
  readonly sources: readonly string[]
  /**
   * Labels of the call's inputs: of every step it depends on, and of every step and run input it references. Cut (`cutLabels`): with
   * more than `mostLabels` the call fails.
   */
  readonly labels: Label[]
  readonly labelSources: LabelSource[]
  readonly labelsOf: (stepId: string) => readonly Label[]
  /** Bytes of the sealed parameters of an earlier attempt, which are what every attempt uses; null if there are none. */
  readonly sealedBytes: number | null
  /** Items of a `for_each` step; null while it is not expanded. */
  readonly itemCount: number | null
  /** Why nothing need be loaded for it: it has its outcome, or its run is cancelled or has ended; or a freeze denies it. */
  readonly stopped: 'over' | 'frozen' | null
  /** Loads of it that have begun and did not come to an end (load-starts.ts). */
  readonly starts: number
}

/** A call that its dependencies do not allow yet: only a workflow that was not started by us asks for one. */
export class NotReady extends Error {
  override readonly name = 'NotReady'
}

/** Reads a call's frame. Throws UnknownRun, `not_found` for a step, or NotReady while a dependency has not ended. */
export async function readFrame(context: Context, key: EffectKey): Promise<Frame> {
  const run = await readFixedRun(context, key.runId)
  const { definition, dependsOn: graph } = await readVersion(context.db, run.workflowId, run.workflowVersion)
  const step = definition.steps.find((each) => each.id === key.stepId)
  if (step === undefined) throw notFound('step', key.stepId)
  const dependsOn = graph.get(key.stepId) ?? []
  const now = await readNow(context, key, dependsOn)
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
 * What can have changed since the last call: the call's own row, the steps it waits for, its run and its organization; one
 * statement.
 */
async function readNow(context: Context, key: EffectKey, dependsOn: readonly string[]): Promise<Now> {
  const { rows } = await sql<Now>`
    select e.state, octet_length(e.params_sealed) as sealed_bytes,
      r.cancel_requested_at is not null or r.finished_at is not null as cancelled,
      exists(select from chain_head h where h.organization_id = r.organization_id and h.frozen is not null) as frozen,
      coalesce((select c.starts from call_starts c where c.run_id = r.id and c.step_id = ${key.stepId}
                and c.item_index = ${key.itemIndex}), 0) as starts,
      (select o.item_count from run_steps o where o.run_id = ${key.runId} and o.step_id = ${key.stepId}) as item_count,
      (select json_agg(json_build_object('step_id', s.step_id, 'labels', s.labels, 'status', s.status, 'ended', s.finished_at is not null))
       from run_steps s where s.run_id = ${key.runId} and s.step_id = any(${dependsOn}::text[])) as dependencies
    from runs r
    left join effects e on e.run_id = r.id and e.step_id = ${key.stepId} and e.item_index = ${key.itemIndex}
    where r.id = ${key.runId}`.execute(context.db)
  return rows[0] as Now
}

/** Output labels of each dependency, in the order the definition names them. */
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

/** By source: the labels of every input that the step refers to, which a referred run's step may have brought. */
function labelsOfInputs(run: FixedRun, step: WorkflowStep): Map<string, Label[]> {
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

/** By the frozen version, whatever the workflow says: a step that ends badly lets nothing after it run. */
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
