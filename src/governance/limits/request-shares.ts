import { performance } from 'node:perf_hooks'
import { DomainError } from '../errors.ts'
import { createThreadLoad, createUse, type ThreadLoad } from './thread-use.ts'

/**
 * Kinds of requests. For each, an organization has a *share*: so many of its requests does a process work on at the
 * same time. Further ones wait for an earlier one of the same organization, and do not delay the others, although all
 * share one thread.
 */
export type Size =
  /** An agent's. Short, and decided together with other questions. */
  | 'question'
  | 'small'
  /** With a large body, which takes long to read. */
  | 'large'
  /** A short read for an open event stream: new events, or whether the caller may still read. */
  | 'look'
  /** Over its rate limit. Its only answer is an error. */
  | 'refusal'

/** While the process serves no other organization. */
const alone: Readonly<Record<Size, number>> = { question: 512, small: 64, large: 2, look: 32, refusal: 64 }
/** While it also serves others. */
export const shared: Readonly<Record<Size, number>> = {
  question: 32,
  small: 4,
  large: 1,
  look: 1,
  refusal: 1,
}
/** For one organization and kind. Further requests are refused. */
export const mostWaiting = 1_000

/**
 * While the thread is busy and others are served, an organization that uses more than its part (thread-use.ts) must
 * pause after each request; after a large one also if the thread is not busy. The pause is so many times as long as the
 * request took, and longer under strain. So most of the thread is left to the others.
 */
const restFactor = 8
/** So many times the thread's own work counts: the rest was work for others. Of 100 ms with 1 ms of work, 8 count. */
const mostWaited = 8
/** Milliseconds. */
const longestRest = 2_000
/** Milliseconds after a refusal, which takes the thread's time too, while others are served. */
const refusalRest = 50
/** The part of the time above which the thread is busy. */
const busyShare = 0.35

interface Lane {
  working: number
  readonly waiting: (() => void)[]
}

/** Throws the errors of `Shares.enter`. */
export async function withShare<T>(
  shares: Shares,
  organizationId: string,
  size: Size,
  work: (place: Pick<Place, 'works' | 'adds'>) => Promise<T>,
  most = mostWaiting,
): Promise<T> {
  const place = await shares.enter(organizationId, size, most)
  try {
    return await work(place)
  } finally {
    place.leave()
  }
}

export interface Place {
  /** Until it waits or the thread works for another. Call it before long work, or the organization need not pause. */
  works(): void
  /** Milliseconds that the thread has already worked for it. */
  adds(milliseconds: number): void
  /** Lets another request of the organization begin. A second call does nothing. */
  leave(): void
}

/** One request, whose kind becomes known later. */
export interface Entry {
  /** Only the first call waits. Throws the errors of `Shares.enter`. `worked`: milliseconds spent already. */
  admit(size: Size, worked?: number): Promise<void>
  works(): void
  /** Call it also if the request will wait for something else, such as the end of a run. */
  leave(): void
}

export function createEntry(shares: Shares, organizationId: string): Entry {
  let place: Place | null = null
  return {
    async admit(size, worked = 0) {
      place ??= await shares.enter(organizationId, size)
      place.adds(worked)
      place.works()
    },
    works: () => place?.works(),
    leave: () => place?.leave(),
  }
}

export interface Shares {
  /** In the last ten seconds. */
  isContended(): boolean
  /** Resolves when the request may be worked on. Throws `rate_limited` if `most` requests wait already. */
  enter(organizationId: string, size: Size, most?: number): Promise<Place>
}

interface Work {
  milliseconds: number
}

/** Measures for which request the thread works, until it works for another or the request waits. */
function createWorkClock(clock: () => number) {
  let present: { readonly work: Work; readonly since: number } | null = null
  const stop = (): void => {
    if (present !== null) present.work.milliseconds += clock() - present.since
    present = null
  }
  return {
    worksFor(work: Work): void {
      stop()
      const mine = (present = { work, since: clock() })
      // Runs when no microtask is left: the request has ended or waits.
      queueMicrotask(() =>
        process.nextTick(() => {
          if (present === mine) stop()
        }),
      )
    },
    stopsFor(work: Work): void {
      if (present?.work === work) stop()
    },
  }
}

const tooManyWaiting = (waiting: number): DomainError =>
  new DomainError(
    'rate_limited',
    `${waiting} requests of the organization are waiting already: send fewer at the same time`,
    [],
    1,
  )

export function createShares(
  clock: () => number = () => performance.now(),
  load: ThreadLoad = createThreadLoad(busyShare),
): Shares {
  const lanes = new Map<string, Lane>()
  const thread = createWorkClock(clock)
  const { noteServed, isContended, usesTooMuch } = createUse(clock)
  const mostOf = (size: Size): number => (isContended() ? shared : alone)[size]

  /** Milliseconds to pause after a request that took `took`, of which the thread `worked`. */
  const restAfter = (organizationId: string, size: Size, took: number, worked: number): number => {
    const isUnfair = usesTooMuch(organizationId, worked)
    if (!isContended()) return 0
    if (size === 'refusal') return refusalRest
    if (!isUnfair || (size !== 'large' && !load.isBusy())) return 0
    // The database does most of the work of a `look`, so its whole duration counts.
    const counted = size === 'look' ? took : Math.min(Math.max(took, worked), worked * mostWaited)
    return Math.min(counted * restFactor * load.strain(), longestRest)
  }

  const leave = (key: string, lane: Lane, size: Size): void => {
    lane.working -= 1
    while (lane.waiting.length > 0 && lane.working < mostOf(size)) {
      lane.working += 1
      lane.waiting.shift()?.()
    }
    if (lane.working === 0) lanes.delete(key)
  }

  return {
    isContended,
    async enter(organizationId, size, most = mostWaiting) {
      noteServed(organizationId)
      const key = `${organizationId}/${size}`
      const lane = lanes.get(key) ?? { working: 0, waiting: [] }
      lanes.set(key, lane)
      if (lane.working < mostOf(size)) lane.working += 1
      else if (lane.waiting.length < most) await new Promise<void>((go) => lane.waiting.push(go))
      else throw tooManyWaiting(lane.waiting.length)
      let isOver = false
      const began = clock()
      const work = { milliseconds: 0 }
      return {
        works: () => {
          if (!isOver) thread.worksFor(work)
        },
        adds: (milliseconds) => {
          work.milliseconds += milliseconds
        },
        leave: () => {
          if (isOver) return
          isOver = true
          thread.stopsFor(work)
          const rest = restAfter(organizationId, size, clock() - began, work.milliseconds)
          if (rest > 0) setTimeout(() => leave(key, lane, size), rest).unref()
          else leave(key, lane, size)
        },
      }
    },
  }
}
