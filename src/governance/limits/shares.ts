import { getHeapStatistics } from 'node:v8'
import { DomainError } from '../errors.ts'
import { FairShare, type Limits, type Patience, type Permit } from './fair-share.ts'
import { ThreadUse } from './thread-use.ts'

/** Activities that a worker has at once. A call is one of them from its arrival until its end. */
export const callSlots = 120

const mebibyte = 1024 ** 2
const pause = { longest: 2_000 }
const quarterOfHeap = getHeapStatistics().heap_size_limit / 4
const half = (total: number) => ({ total, most: total / 2 })
const within = (seconds: number, message: string): Patience => ({
  milliseconds: seconds * 1_000,
  late: () => new DomainError('unavailable', message),
})
/** Longer than a body may take to arrive (`mostArrivalSeconds`). */
const uploads = { ...within(150, 'too many files are uploaded at once: try again'), alsoAborted: true }

/** What one organization may take of one process, by kind of work. All limits of fair-share.ts are in this table. */
export const limits = {
  /** An agent's. Short, and decided together with other questions. */
  question: { most: 512, beside: 32, pause },
  /** Any other request. */
  small: { most: 64, beside: 4, pause },
  /** With a large body, which takes long to read. */
  large: { most: 2, beside: 1, pause: { ...pause, whileIdle: true } },
  /** A backtest, an analysis or a comparison of rules. */
  long: { most: 2, beside: 1, line: 4, pause: { ...pause, whileIdle: true } },
  /** A short read for an open event stream: new events, or whether the caller may still read. */
  look: { most: 32, beside: 1, pause: { ...pause, counts: 'duration' } },
  /** Over its rate limit. Its only answer is an error, which takes the thread's time too. */
  refusal: { most: 64, beside: 1, pause: { ...pause, always: 50 } },
  /** A call in a worker. What it keeps is its slot, while it waits for a service (call-turns.ts). */
  call: { most: callSlots - 20, beside: 2, pause: { longest: 1_000, endsEarly: true } },
  /** Bytes of inputs and outputs that a call names. */
  load: {
    ...half(quarterOfHeap),
    patience: within(15, 'the worker has no memory left for the values that the call names'),
  },
  /** Bytes of answers of services. Not `load`: a call that holds a permit of `load` asks for it. */
  answer: half(quarterOfHeap),
  /** Bytes of files that arrive or are being read. */
  upload: { ...half(400 * mebibyte), patience: uploads },
  /** Processes that read files. */
  parser: { ...half(4), patience: uploads },
} as const satisfies Record<string, Limits>

const requestKinds = ['question', 'small', 'large', 'long', 'look', 'refusal', 'upload', 'parser'] as const

/** Requests of one kind of an API process. */
export type Shares = Readonly<Record<(typeof requestKinds)[number], FairShare>>

export function createShares(thread = new ThreadUse()): Shares {
  const shares = requestKinds.map((kind) => {
    const limit: Limits = limits[kind]
    return [kind, new FairShare(limit, limit.beside === undefined ? null : thread)] as const
  })
  return Object.fromEntries(shares) as Shares
}

/** The permit of one request, whose kind becomes known later. */
export interface Entry {
  /** Only the first call waits. Throws `rate_limited` if too many wait already. `worked`: milliseconds spent already. */
  admit(kind: 'question' | 'small' | 'large', worked?: number): Promise<void>
  works(): void
  /** Call it also if the request will wait for something else, such as the end of a run. */
  leave(): void
}

export function createEntry(shares: Shares, organizationId: string): Entry {
  let permit: Permit | null = null
  return {
    async admit(kind, worked = 0) {
      permit ??= await shares[kind].enter(organizationId)
      permit.adds(worked)
      permit.works()
    },
    works: () => permit?.works(),
    leave: () => permit?.release(),
  }
}
