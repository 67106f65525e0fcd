import { getHeapStatistics } from 'node:v8'
import type { Context } from '../../context.ts'
import { references, type Scope } from '../../policy/templates.ts'
import type { Json } from '../../policy/types.ts'
import { DomainError } from '../errors.ts'
import { mostCostOf } from '../json-cost.ts'
import type { FixedRun } from './fixed-run.ts'
import type { EffectKey } from './ledger.ts'
import { LoadBudget, type Permit } from './load-budget.ts'
import { countStart, forgetStarts, mostStarts } from './load-starts.ts'
import { hasInputs, readInputs, readOutputs, ResourceExhausted, sizesOf } from './outputs.ts'

/** What this process loads at the same time for calls, of what V8 lets it have. */
const loads = new LoadBudget(getHeapStatistics().heap_size_limit / 4)

/** A load that takes less cannot hurt: it asks for no room and is not counted. */
const smallBytes = 256 * 1024

/** Most characters that the templates of one call's parameters may come to: 8 MiB. */
export const mostParamText = 8 * 1024 * 1024

/** Resolved, as canonical JSON and sealed. */
const copiesOfParams = 3

/** A load that has no room after so long gives its place back and is tried again. */
const patienceMilliseconds = 15_000

/** What a load is for. */
export interface Load {
  readonly key: EffectKey
  readonly run: FixedRun
  /** Steps whose outputs it names. */
  readonly sources: readonly string[]
  /** What is resolved with them. */
  readonly templates: Json
  /** Loads of it that have ended a worker, it seems. */
  readonly starts: number
  /** Of the sealed parameters that are opened instead; null: nothing is opened. */
  readonly sealedBytes: number | null
}

export interface Loaded<T> {
  readonly value: T
  /** What is left of the load's room; the caller releases it. */
  readonly permit: Pick<Permit, 'release'>
}

/**
 * Does `work` with the values that a call names, in room of its own. A large load waits until its organization has room in
 * this process, and its start is committed before it begins: one that has ended three workers is not loaded again.
 * `left` says how many bytes stay in use afterwards. Throws ResourceExhausted, the signal's reason, and `unavailable` where
 * there was no room for long or the run has been cancelled meanwhile.
 */
export async function load<T>(
  context: Context,
  what: Load,
  signal: AbortSignal,
  work: (scope: Scope) => Promise<T> | T,
  left: (value: T) => number = () => 0,
): Promise<Loaded<T>> {
  const cost = await costOf(context, what)
  if (what.starts >= mostStarts) throw endedWorkers()
  if (cost <= smallBytes && what.starts === 0)
    return { value: await work(await scopeOf(context, what)), permit: { release: () => {} } }
  const permit = await roomFor(what, cost, signal)
  try {
    const starts = await countStart(context, what.key)
    if (starts === null) throw new DomainError('unavailable', 'the run was cancelled meanwhile')
    try {
      // Another attempt may have begun it meanwhile.
      if (starts > mostStarts) throw endedWorkers()
      const value = await work(await scopeOf(context, what))
      permit.keep(left(value))
      return { value, permit }
    } finally {
      if (starts <= mostStarts) await forgetStarts(context, what.key)
    }
  } catch (error) {
    permit.release()
    throw error
  }
}

const endedWorkers = (): ResourceExhausted =>
  new ResourceExhausted(`reading what the call names has ended ${mostStarts} workers: hand on smaller values`)

async function roomFor(what: Load, cost: number, signal: AbortSignal): Promise<Permit> {
  const late = AbortSignal.timeout(patienceMilliseconds)
  try {
    const options = { alone: what.starts > 0, signal: AbortSignal.any([signal, late]) }
    return await loads.acquire(what.run.organizationId, cost, options)
  } catch (error) {
    if (signal.aborted) throw error
    throw new DomainError('unavailable', 'the worker has no room for the values that the call names')
  }
}

/** Bytes of memory that the load may take. Throws ResourceExhausted for an output that nobody may read. */
async function costOf(context: Context, what: Load): Promise<number> {
  const { run, sources, sealedBytes } = what
  if (sealedBytes !== null) return sealedBytes * (1 + copiesOfParams)
  const { octets, missing } = await sizesOf(context, run.id, sources)
  const inputs = run.inputs === null && !hasInputs(run.id) ? mostCostOf(run.inputOctets) : 0
  const named = references(what.templates).length * (octets + run.inputOctets)
  const text = Math.min(named, mostParamText)
  return (missing === 0 ? 0 : mostCostOf(missing)) + inputs + text * copiesOfParams
}

/** Everything that the templates can name. */
async function scopeOf(context: Context, { run, sources, sealedBytes }: Load): Promise<Scope> {
  if (sealedBytes !== null) return { inputs: {}, ...run.builtins, step: () => undefined }
  const inputs = run.inputs ?? (await readInputs(context, run.id))
  const outputs = await readOutputs(context, run.id, sources)
  return { inputs, labelledInputs: run.inputLabels, ...run.builtins, step: (id) => outputs.get(id) }
}
