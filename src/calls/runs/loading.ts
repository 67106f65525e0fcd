import { references, type Scope } from '../../policy/templates.ts'
import type { Json } from '../../policy/types.ts'
import { DomainError } from '../../governance/errors.ts'
import { mostCostOf } from '../../shared/json-size.ts'
import type { RunSnapshot } from '../../governance/runs/values/run-snapshot.ts'
import type { EffectKey } from '../../contract/effect-key.ts'
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

/** A load of at most this many bytes reserves no memory, and its start is not counted (load-starts.ts). */
const smallBytes = 256 * 1024

/** The resolved parameters of one call have at most this many characters. */
export const mostParamText = 8 * 1024 * 1024

/** The number of copies of the parameters in memory at the same time: resolved, as canonical JSON, and sealed. */
const copiesOfParams = 3

/** Milliseconds that a load waits for memory before it fails and is tried again later. */
const patienceMilliseconds = 15_000

interface Loader extends OutputReader {
  readonly runCaches: RunCaches
}

/** One load: the values for a call, or for a run's result. */
interface Load {
  readonly key: EffectKey
  readonly run: RunSnapshot
  /** The steps whose outputs the templates name. */
  readonly sources: readonly string[]
  readonly templates: Json
  /** The number of earlier loads that did not finish. Each of these loads has probably crashed a worker. */
  readonly starts: number
  /**
   * The size in bytes of the stored sealed parameters. Is null if none are stored. Stored parameters are opened, and no
   * source is read.
   */
  readonly sealedBytes: number | null
}

export interface Loaded<T> {
  readonly value: T
  /** The memory that the value still uses. The caller releases this memory. */
  readonly permit: Pick<Permit, 'release'>
}

/**
 * Reserves memory, loads the values that a call names, and calls `work` with these values. `left` returns how many
 * bytes of the result stay in use.
 *
 * A large load waits until its organization has memory left in this process. The start of a large load is committed
 * before the load begins. So a load that has crashed three workers is not repeated.
 *
 * Throws:
 *
 * - ResourceExhausted if the values are too large, or if loading the values has crashed workers;
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
      // Another attempt may have started the load meanwhile, so the number is checked again.
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

/** Returns the bytes of memory that the load may take. Throws ResourceExhausted for an output that is too large. */
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

/** Returns the values that the templates can name. If the parameters are stored already, loads no inputs or outputs. */
async function scopeOf(context: Loader, { run, sources, sealedBytes }: Load): Promise<Scope> {
  if (sealedBytes !== null) return { inputs: {}, ...run.builtins, step: () => undefined }
  const inputs = run.inputs ?? (await readInputs(context, run.id))
  const outputs = await readOutputs(context, run.id, sources)
  return { inputs, labelledInputs: run.inputLabels, ...run.builtins, step: (id) => outputs.get(id) }
}
