import type { ToolDeclaration } from '../../catalog/tool.ts'
import { getTool } from '../../catalog/index.ts'
import { stepReferences, type WorkflowDefinition, type WorkflowStep } from '../../contract/definition.ts'
import { isOutcome, runEnded } from '../../contract/status.ts'
import type { Context } from '../../context.ts'
import type { LabelSource } from '../../db/schema/runs.ts'
import { builtins, type Scope } from '../../policy/templates.ts'
import { unionLabels, type Json, type JsonObject, type Label } from '../../policy/types.ts'
import { notFound } from '../errors.ts'
import { readVersion } from './version-cache.ts'
import type { EffectKey } from './ledger.ts'
import { readOutputs } from './outputs.ts'

/** Everything one call is made of, read before any lock: what it names never changes once its dependencies ended. */
export interface Frame {
  readonly key: EffectKey
  readonly run: FrameRun
  readonly definition: WorkflowDefinition
  readonly step: WorkflowStep
  readonly tool: ToolDeclaration | undefined
  readonly scope: Scope
  /** Labels of the call's inputs: of every step it depends on or references. */
  readonly labels: Label[]
  readonly labelSources: LabelSource[]
  readonly labelsOf: (stepId: string) => readonly Label[]
  /** Sealed parameters of an earlier attempt; they are what every attempt uses. */
  readonly sealed: Buffer | null
  readonly ended: boolean
}

export interface FrameRun {
  readonly id: string
  readonly organizationId: string
  readonly workflowId: string
  readonly requestedBy: string
  readonly requesterEmail: string
}

/** A call that its dependencies do not allow yet: only a workflow that was not started by us asks for one. */
export class NotReady extends Error {
  override readonly name = 'NotReady'
}

/** Reads a call's frame. Throws `not_found`, or NotReady while a dependency has not ended. */
export async function readFrame(context: Context, key: EffectKey): Promise<Frame> {
  const row = await readRun(context, key)
  if (row === undefined) throw notFound('run', key.runId)
  const { definition, dependsOn: graph } = await readVersion(context.db, row.workflow_id, row.workflow_version)
  const step = definition.steps.find((each) => each.id === key.stepId)
  if (step === undefined) throw notFound('step', key.stepId)
  const ended = row.effect_state !== null && isOutcome(row.effect_state)
  const dependsOn = graph.get(key.stepId) ?? []
  const labels = ended ? new Map<string, Label[]>() : await endedDependencies(context, key.runId, dependsOn)
  const wanted = ended ? [] : referenced(step).filter((id) => dependsOn.includes(id))
  const outputs = await readOutputs(context.db, key.runId, wanted)
  return {
    key,
    run: {
      id: row.id,
      organizationId: row.organization_id,
      workflowId: row.workflow_id,
      requestedBy: row.requested_by,
      requesterEmail: row.email,
    },
    definition,
    step,
    tool: getTool(step.tool),
    scope: runScope(row, JSON.parse(row.inputs) as JsonObject, (id) => outputs.get(id)),
    labels: unionLabels(...labels.values()),
    labelSources: sourcesOf(labels),
    labelsOf: (id) => labels.get(id) ?? [],
    sealed: row.params_sealed,
    ended: ended || runEnded(row.status),
  }
}

function readRun(context: Context, key: EffectKey) {
  return context.db
    .selectFrom('runs as r')
    .innerJoin('users as u', 'u.id', 'r.requested_by')
    .leftJoin('effects as e', (join) =>
      join
        .onRef('e.run_id', '=', 'r.id')
        .on('e.step_id', '=', key.stepId)
        .on('e.item_index', '=', key.itemIndex),
    )
    .select([
      'r.id',
      'r.organization_id',
      'r.workflow_id',
      'r.workflow_version',
      'r.requested_by',
      'r.inputs',
      'r.time_zone',
      'r.created_at',
      'r.status',
      'u.email',
      'e.params_sealed',
      'e.state as effect_state',
    ])
    .where('r.id', '=', key.runId)
    .executeTakeFirst()
}

/** Built-in values are fixed at run start, in the run's time zone (contract section 3). */
export function runScope(
  run: { readonly created_at: Date; readonly time_zone: string },
  inputs: JsonObject,
  step: (id: string) => Json | undefined,
): Scope {
  return { inputs, step, ...builtins(run.created_at, run.time_zone) }
}

/** Output labels of each dependency. */
async function endedDependencies(
  context: Context,
  runId: string,
  dependsOn: readonly string[],
): Promise<Map<string, Label[]>> {
  if (dependsOn.length === 0) return new Map()
  const rows = await context.db
    .selectFrom('run_steps')
    .select(['step_id', 'labels', 'finished_at'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', dependsOn)
    .execute()
  const open = dependsOn.filter((id) => !rows.some((row) => row.step_id === id && row.finished_at !== null))
  if (open.length > 0) throw new NotReady(`waits for \`${open.join('`, `')}\``)
  return new Map(rows.map((row) => [row.step_id, row.labels]))
}

function sourcesOf(labels: ReadonlyMap<string, readonly Label[]>): LabelSource[] {
  const all = unionLabels(...labels.values())
  return all.map((label) => ({
    label,
    from: [...labels].filter(([, own]) => own.includes(label)).map(([stepId]) => stepId),
  }))
}

function referenced(step: WorkflowStep): string[] {
  const ids = stepReferences(step).flatMap(({ reference }) => (reference.kind === 'step' ? [reference.stepId] : []))
  return [...new Set(ids)]
}
