import { references, type Scope } from '../../policy/templates.ts'
import type { Json } from '../../policy/types.ts'
import { DomainError } from '../../governance/errors.ts'
import { mostCostOf } from '../../shared/json-size.ts'
import type { RunSnapshot } from '../../governance/runs/values/run-snapshot.ts'
import type { EffectKey } from '../../contract/ids.ts'
import type { Permit } from '../../governance/runs/values/load-budget.ts'
import { countStart, forgetStarts, mostStarts } from '../../governance/runs/values/load-starts.ts'
import {
  readInputs,
  readOutputs,
  ResourceExhausted,
  sizesOf,
  type OutputReader,
} from '../../governance/runs/values/outputs.ts'
import type { RunCaches } from '../../governance/runs/values/run-caches.ts'

/** Such a load reserves no memory, and its start is not counted (load-starts.ts). */
const smallBytes = 256 * 1024

/** This limits the characters of one call's resolved parameters. */
export const mostParamText = 8 * 1024 * 1024

/** The copies in memory are the resolved parameters, their canonical JSON, and the sealed parameters. */
const copiesOfParams = 3

/** A load that waits longer for memory fails and is tried again later. */
const patienceMilliseconds = 15_000

interface Loader extends OutputReader {
  readonly runCaches: RunCaches
}

/** One load gets the values for a call, or for a run's result. */
interface Load {
  readonly key: EffectKey
  readonly run: RunSnapshot
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
  const permit = await acquireMemory(context.runCaches, what, cost, signal)
  try {
    const starts = await countStart(context.db, what.key)
    if (starts === null) throw new DomainError('unavailable', 'the run was cancelled meanwhile')
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

const endedWorkers = (): ResourceExhausted =>
  new ResourceExhausted(
    `reading the values that the call names has ended ${mostStarts} workers: pass smaller values`,
  )

async function acquireMemory(
  { loads }: RunCaches,
  what: Load,
  cost: number,
  signal: AbortSignal,
): Promise<Permit> {
  const late = AbortSignal.timeout(patienceMilliseconds)
  try {
    const options = { alone: what.starts > 0, signal: AbortSignal.any([signal, late]) }
    return await loads.acquire(what.run.organizationId, cost, options)
  } catch (error) {
    if (signal.aborted) throw error
    throw new DomainError('unavailable', 'the worker has no memory left for the values that the call names')
  }
}

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
async function scopeOf(context: Loader, { run, sources, sealedBytes }: Load): Promise<Scope> {
  if (sealedBytes !== null) return { inputs: {}, ...run.builtins, step: () => undefined }
  const inputs = run.inputs ?? (await readInputs(context, run.id))
  const outputs = await readOutputs(context, run.id, sources)
  return { inputs, labelledInputs: run.inputLabels, ...run.builtins, step: (id) => outputs.get(id) }
}
