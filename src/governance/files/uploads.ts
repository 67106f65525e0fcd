import { DomainError } from '../errors.ts'
import { LoadBudget, type Permit } from '../runs/values/load-budget.ts'

/** Shared by all uploads of a process. One organization gets at most half of each, and organizations take turns. */
export interface Uploads {
  /** In bytes, for files that arrive or are being read. */
  readonly memory: LoadBudget
  /** Processes that read files at the same time. */
  readonly parsers: LoadBudget
}

/** A file that is being read is in memory so many times: the arrived pieces, the whole file, and its text. */
const copies = 4

export const createUploads = (): Uploads => ({
  memory: new LoadBudget(400 * 1024 ** 2),
  parsers: new LoadBudget(4),
})

/** Milliseconds for memory, and later for a parser. Bodies must arrive sooner (`mostArrivalSeconds`). */
const patience = 150_000

/** Throws `unavailable` if not enough becomes free in time. */
export const reserveMemory = (
  { memory }: Uploads,
  organizationId: string,
  bytes: number,
  signal: AbortSignal,
): Promise<Permit> => acquire(memory, organizationId, bytes * copies, signal)

/** Throws `unavailable` if other files take too long. */
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
