import { DomainError } from '../errors.ts'
import { LoadBudget, type Permit } from '../runs/values/load-budget.ts'

/**
 * Resources that all uploads of a process share. One organization gets at most half of each resource, and organizations
 * take turns.
 */
export interface Uploads {
  /** The bytes of memory for files that arrive or are being read. */
  readonly memory: LoadBudget
  /** The number of processes that may read files at the same time. */
  readonly parsers: LoadBudget
}

/**
 * While a file is read, it takes this many times its size in memory. The memory contains the arrived pieces, the whole
 * file, and the file's text.
 */
const copies = 4
const mebibyte = 1024 ** 2

export const createUploads = (): Uploads => ({
  memory: new LoadBudget(400 * mebibyte),
  parsers: new LoadBudget(4),
})

/**
 * An upload waits at most this many milliseconds for memory, and later at most this many for a parser. The body of an
 * upload must arrive in less time (`mostArrivalSeconds`). So one slow upload cannot make other uploads fail.
 */
const patience = 150_000

/** Reserves memory for a file of this size. Throws `unavailable` if not enough memory becomes free in time. */
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
