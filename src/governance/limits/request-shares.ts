import { performance } from 'node:perf_hooks'
import { DomainError } from '../errors.ts'
import { createThreadLoad, createUse, type ThreadLoad } from './thread-use.ts'

/**
 * The kinds of requests. For each kind, an organization has a *share*: the number of its requests that a process works
 * on at the same time. Further requests wait until an earlier request of the same organization has ended. All
 * organizations share one thread, but waiting requests of one organization do not delay the other organizations.
 */
export type Size =
  /** A question of an agent. It is short, and decided together with other questions. */
  | 'question'
  /** Any other request with a small body. */
  | 'small'
  /** A request with a large body, which takes long to read. */
  | 'large'
  /** A short read for an open event stream. It reads new events, or checks that the caller may still read. */
  | 'look'
  /** A request over its rate limit. Its only answer is an error. */
  | 'refusal'

/** The share of an organization while the process serves no other organization, for each kind of request. */
const alone: Readonly<Record<Size, number>> = { question: 512, small: 64, large: 2, look: 32, refusal: 64 }
/** The share of an organization while the process also serves other organizations, for each kind of request. */
export const shared: Readonly<Record<Size, number>> = {
  question: 32,
  small: 4,
  large: 1,
  look: 1,
  refusal: 1,
}
/** At most this many requests of one organization and kind wait. Further requests are refused. */
export const mostWaiting = 1_000

/**
 * While the thread is busy and other organizations are served, an organization that uses more than its part of the
 * thread (thread-use.ts) must pause after each request. After a large request, it must pause even if the thread is not
 * busy. The pause is this many times as long as the request took, and longer under strain (thread-use.ts). So an
 * organization that sends all the time leaves most of the thread to other organizations.
 */
const restFactor = 8
/**
 * A request's duration counts for the pause only up to this many times the thread's work for the request. In the rest
 * of the duration, the thread worked for other requests, which must not make the pause longer. Example: a request took
 * 100 ms, and the thread worked 1 ms for it. Only 8 ms count.
 */
const mostWaited = 8
/** The longest pause, in milliseconds. */
const longestRest = 2_000
/**
 * While other organizations are served, an organization pauses for this many milliseconds after each refusal, because a
 * refusal also takes the thread's time.
 */
const refusalRest = 50
/** The thread counts as busy if it worked for more than this part of the time. */
const busyShare = 0.35

interface Lane {
  working: number
  readonly waiting: (() => void)[]
}

/**
 * Waits until the process may work on this request (`Shares.enter`), then runs `work`. Throws the errors of
 * `Shares.enter`. `most` is the limit of `Shares.enter`.
 */
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
  /**
   * From now on, the thread's work counts for this request. This ends when the request waits, or when the thread works
   * for another request. Call this method before work that may take long. Otherwise, the organization would not have to
   * pause after the work, and could delay the other organizations.
   */
  works(): void
  /** Adds work that the thread has already done for this request, in milliseconds. */
  adds(milliseconds: number): void
  /**
   * Ends the work on the request, so that another request of the organization can begin. A second call does nothing.
   */
  leave(): void
}

/**
 * One request. `admit` is called as soon as the kind of the request is known. When `admit` resolves, the process works
 * on the request.
 */
export interface Entry {
  /**
   * Resolves when the request may be worked on. Throws the errors of `Shares.enter`. Only the first call waits.
   * `worked` is the number of milliseconds that the thread has already worked for the request, for example to read its
   * body.
   */
  admit(size: Size, worked?: number): Promise<void>
  works(): void
  /**
   * Ends the work on the request, so that another request of the organization can begin. Call this method also if the
   * request will wait for something else, such as the end of a run.
   */
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
  /** Whether more than one organization was served in the last ten seconds. */
  isContended(): boolean
  /**
   * Resolves when the request may be worked on. Throws `rate_limited` if `most` or more requests of the organization and
   * this kind wait already. The default is `mostWaiting`.
   */
  enter(organizationId: string, size: Size, most?: number): Promise<Place>
}

/** The time that the thread has worked for one request so far. */
interface Work {
  milliseconds: number
}

/**
 * Measures for which request the thread works. The measurement for a request ends when the thread works for another
 * request, or when the measured request waits.
 */
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
      // This callback runs when no microtask is left, which means that the request has ended or waits.
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

  /**
   * Returns how many milliseconds the organization must pause. `took` is the duration of the request in milliseconds.
   * `worked` is the part in which the thread worked for the request.
   */
  const restAfter = (organizationId: string, size: Size, took: number, worked: number): number => {
    const isUnfair = usesTooMuch(organizationId, worked)
    if (!isContended()) return 0
    if (size === 'refusal') return refusalRest
    if (!isUnfair || (size !== 'large' && !load.isBusy())) return 0
    // The database does most of the work of a `look`, and the thread does little. So the whole duration of a `look`
    // counts.
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
