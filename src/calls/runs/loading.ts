import { sql } from 'kysely'
import { references, type Scope, type StepState } from '../../policy/templates.ts'
import type { Json } from '../../policy/types.ts'
import type { WorkflowDefinition, WorkflowStep } from '../../contract/definition.ts'
import { isBadOutcome, outcomes } from '../../contract/status.ts'
import { DomainError } from '../../governance/errors.ts'
import { mostCostOf } from '../../shared/json-size.ts'
import type { RunSnapshot } from '../../governance/runs/values/run-snapshot.ts'
import type { EffectKey } from '../../contract/ids.ts'
import type { Permit } from '../../governance/limits/fair-share.ts'
import { countCallStart, readBadCalls, readStepStates } from '../../db/queries/runs.ts'
import type { Db } from '../../db/schema/index.ts'
import {
  readInputs,
  readOutputs,
  ResourceExhausted,
  sizesOf,
  type OutputReader,
} from '../../governance/runs/values/outputs.ts'
import type { RunCaches } from '../../governance/runs/values/run-caches.ts'

/** Such a load reserves no memory, and its start is not counted. */
const smallBytes = 256 * 1024

/**
 * A load that did not finish has probably crashed a worker. After one such load, the call's values are loaded alone, so
 * that no other load is blamed. After this many, the call fails.
 */
const mostStarts = 3

/** This limits the characters of one call's resolved parameters. */
export const mostParamText = 8 * 1024 * 1024

/** The copies in memory are the resolved parameters, their canonical JSON, and the sealed parameters. */
const copiesOfParams = 3

interface Loader extends OutputReader {
  readonly runCaches: RunCaches
}

/** One load gets the values for a call, or for a run's result. */
interface Load {
  readonly key: EffectKey
  readonly run: RunSnapshot
  readonly definition: Pick<WorkflowDefinition, 'steps'>
  /** Steps whose outputs the templates name. */
  readonly sources: readonly string[]
  readonly templates: Json
  /** Earlier loads that did not finish. Each has probably crashed a worker. */
  readonly starts: number
  /** The size in bytes, or null. Stored parameters are opened, and no source is read. */
  readonly sealedBytes: number | null
}

export interface Loaded<T> {
  readonly value: T
  /** Memory that the value still uses. The caller releases it. */
  readonly permit: Pick<Permit, 'release'>
}

/**
 * `left` returns how many bytes of the result stay in use. A large load waits until its organization has
 * memory left in this process. Its start is committed first, so a load that has crashed three workers is not
 * repeated.
 *
 * Throws:
 * - ResourceExhausted if the values are too large, or if loading them has crashed workers;
 * - `unavailable` if no memory became free, or if the run was cancelled;
 * - the signal's reason if the signal is aborted.
 */
export async function load<T>(
  context: Loader,
  what: Load,
  signal: AbortSignal,
  work: (scope: Scope) => Promise<T> | T,
  left: (value: T) => number = () => 0,
): Promise<Loaded<T>> {
  const cost = await costOf(context, what)
  if (what.starts >= mostStarts) throw endedWorkers()
  if (cost <= smallBytes && what.starts === 0)
    return { value: await work(await scopeOf(context, what)), permit: { release: () => {} } }
  const asked = { amount: cost, alone: what.starts > 0, signal }
  const permit = await context.runCaches.loads.enter(what.run.organizationId, asked)
  try {
    // Commits at once. There is no row if the run was cancelled or has ended.
    const { rows } = await countCallStart(what.key).execute(context.db)
    const starts = rows[0]?.starts
    if (starts === undefined) throw new DomainError('unavailable', 'the run was cancelled meanwhile')
    try {
      // Another attempt may have started the load meanwhile.
      if (starts > mostStarts) throw endedWorkers()
      const value = await work(await scopeOf(context, what))
      permit.keep(left(value))
      return { value, permit }
    } finally {
      if (starts <= mostStarts) await forgetStarts(context.db, what.key)
    }
  } catch (error) {
    permit.release()
    throw error
  }
}

/** The number of loads of the call that were started but did not finish. */
export async function readStarts(db: Db, key: EffectKey): Promise<number> {
  const row = await db.selectFrom('call_starts').select('starts').where(startsOf(key)).executeTakeFirst()
  return row?.starts ?? 0
}

const [settleEveryMilliseconds, mostSettles] = [1_000, 300]

/** Tries again if the statement fails, so that an outage of the database does not count as a crash. */
async function forgetStarts(db: Db, key: EffectKey, tries = mostSettles): Promise<void> {
  try {
    await db.deleteFrom('call_starts').where(startsOf(key)).execute()
  } catch {
    if (tries > 0) setTimeout(() => void forgetStarts(db, key, tries - 1), settleEveryMilliseconds).unref()
  }
}

const startsOf = ({ runId, stepId, itemIndex }: EffectKey) =>
  sql<boolean>`(run_id, step_id, item_index) = (${runId}, ${stepId}, ${itemIndex}::int)`

const endedWorkers = (): ResourceExhausted =>
  new ResourceExhausted(
    `reading the values that the call names has ended ${mostStarts} workers: pass smaller values`,
  )

/** The result is in bytes. Throws ResourceExhausted for an output that is too large. */
async function costOf(context: Loader, what: Load): Promise<number> {
  const { run, sources, sealedBytes } = what
  if (sealedBytes !== null) return sealedBytes * (1 + copiesOfParams)
  const { octets, missing } = await sizesOf(context, run.id, sources)
  const inputs =
    run.inputs === null && context.runCaches.inputs.peek(run.id) === undefined
      ? mostCostOf(run.inputOctets)
      : 0
  const named = references(what.templates).length * (octets + run.inputOctets)
  const text = Math.min(named, mostParamText)
  return (missing === 0 ? 0 : mostCostOf(missing)) + inputs + text * copiesOfParams
}

/** If the parameters are stored already, loads no inputs or outputs. */
async function scopeOf(
  context: Loader,
  { run, definition, sources, templates, sealedBytes }: Load,
): Promise<Scope> {
  if (sealedBytes !== null) return { inputs: {}, builtins: run.builtins, step: () => undefined }
  const inputs = run.inputs ?? (await readInputs(context, run.id))
  const outputs = await withOtherwise(
    context.db,
    run.id,
    await readOutputs(context, run.id, sources),
    definition.steps.filter(({ id, otherwise }) => otherwise !== undefined && sources.includes(id)),
  )
  const asked = statesIn(templates)
  const states = asked.length === 0 ? null : await readStates(context.db, run.id, asked)
  return {
    inputs,
    labelledInputs: run.inputLabels,
    builtins: run.builtins,
    step: (id) => outputs.get(id),
    state: (id) => states?.get(id),
  }
}

/** The steps whose status or approval the templates name. */
export const statesIn = (templates: Json): string[] => [
  ...new Set(
    references(templates).flatMap((each) =>
      each.kind === 'step' && each.of !== 'output' ? [each.stepId] : [],
    ),
  ),
]

async function readStates(
  db: Db,
  runId: string,
  stepIds: readonly string[],
): Promise<Map<string, StepState>> {
  const { rows } = await readStepStates(runId, stepIds).execute(db)
  return new Map(
    rows.map(({ step_id, status, verdict, comment, by }) => [
      step_id,
      { status, approval: verdict === null ? null : { verdict, comment: comment ?? '', by } },
    ]),
  )
}

/** `otherwise` stands in for the output of a step, or of an item, that ended badly. */
async function withOtherwise(
  db: Db,
  runId: string,
  outputs: ReadonlyMap<string, Json>,
  steps: readonly Pick<WorkflowStep, 'id' | 'otherwise'>[],
): Promise<ReadonlyMap<string, Json>> {
  if (steps.length === 0) return outputs
  const ids = steps.map(({ id }) => id)
  const { rows } = await readBadCalls(runId, ids, outcomes.filter(isBadOutcome)).execute(db)
  const changed = new Map<string, Json>(outputs)
  for (const { id, otherwise = null } of steps) {
    const output = outputs.get(id)
    const items = Array.isArray(output) ? [...(output as readonly Json[])] : null
    for (const { item_index: index } of rows.filter(({ step_id }) => step_id === id))
      if (index < 0 || items === null) changed.set(id, otherwise)
      else items[index] = otherwise
    if (items !== null && !rows.some((row) => row.step_id === id && row.item_index < 0))
      changed.set(id, items)
  }
  return changed
}
