import { DomainError } from '../errors.ts'
import { LoadBudget, type Permit } from '../runs/values/load-budget.ts'

/**
 * The uploads of a process share these resources. One organization gets at most half of each resource, and
 * organizations take turns.
 */
export interface Uploads {
  /** Bytes of memory for files that arrive and are read. */
  readonly memory: LoadBudget
  /** Processes that read files. */
  readonly parsers: LoadBudget
}

/** While a file is read, it takes this many times its size in memory: for its pieces, the whole file, and its text. */
const copies = 4
const mebibyte = 1024 ** 2

export const createUploads = (): Uploads => ({
  memory: new LoadBudget(400 * mebibyte),
  parsers: new LoadBudget(4),
})

/**
 * An upload waits at most this many milliseconds for memory, and then at most as long for a parser. A form must arrive
 * in less time (`mostArrivalSeconds`), so one slow upload cannot make others fail.
 */
const patience = 150_000

/** Reserves memory for a file of this size. Throws `unavailable` if none becomes free in time. */
export const reserveMemory = (
  { memory }: Uploads,
  organizationId: string,
  bytes: number,
  signal: AbortSignal,
): Promise<Permit> => acquire(memory, organizationId, bytes * copies, signal)

/** Calls `work` as soon as a parser is free for the organization. Throws `unavailable` if other files take too long. */
export async function inTurn<T>(
  { parsers }: Uploads,
  organizationId: string,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const permit = await acquire(parsers, organizationId, 1, signal)
  try {
    return await work()
  } finally {
    permit.release()
  }
}

async function acquire(
  budget: LoadBudget,
  organizationId: string,
  cost: number,
  signal: AbortSignal,
): Promise<Permit> {
  const late = AbortSignal.timeout(patience)
  try {
    return await budget.acquire(organizationId, cost, {
      alone: false,
      signal: AbortSignal.any([signal, late]),
    })
  } catch {
    throw new DomainError('unavailable', 'too many files are uploaded at once: try again')
  }
}
