import { createThreadLoad, createUse, type ThreadLoad } from '../governance/limits/thread-use.ts'
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes } from '../contract/messages.ts'

/*
 * This module shares a worker's activity slots and its JavaScript thread between organizations (docs/decisions/0081).
 * Temporal hands out the calls of organizations in turn, but only while a slot is free.
 */

/** The number of a worker's slots. A call occupies a slot from its arrival at the worker until its end. */
export const callSlots = 120
/**
 * One organization has at most this many calls in progress. The other slots stay free for other organizations, even if
 * none of these calls ever ends.
 */
const mostInProgress = 100
/**
 * One organization has at most this many calls at work (`working`) while the worker also serves other organizations.
 */
const mostAtWork = 2
/**
 * A body that runs longer than this many milliseconds probably waits for a service. Its call then counts as `outside`,
 * and no longer as `working`.
 */
const longBody = 100
/**
 * All organizations together have at most this many calls that count as `outside`. The other slots stay free for short
 * calls.
 */
const mostOutside = 100
/**
 * While the thread is busy, an organization that uses too much of the thread (thread-use.ts) pauses after each call.
 * The pause is this many times as long as the call's time at work. Overload makes the pause longer (`strain`).
 */
const restFactor = 8
/** The longest pause in milliseconds. */
const longestRest = 1_000
/**
 * During a pause, the worker checks whether the pause is still needed. This is the time between two checks in
 * milliseconds.
 */
const restStep = 50
/**
 * An organization pauses only for the sake of another organization. The other organization must have waiting calls, or
 * must have been served less than this many milliseconds ago.
 */
const besideMilliseconds = 2_000
/** The thread counts as busy if it works for more than this fraction of the time. */
const busyShare = 0.35
/** An organization counts as served for this many milliseconds after one of its calls last arrived or ended. */
const rememberedMilliseconds = 10_000
/**
 * If all slots are in use for this many milliseconds, one call that waits for a place gives its slot back to Temporal.
 */
const longestFull = 100
/** A quick call (a local activity) waits at most this many milliseconds for a place. */
const quickPatience = 100

/** The weight of the latest call in the average `Organization.placeTime`, from 0 to 1. */
const newPart = 0.2

/** One call's permission to run at the same time as other calls of its organization. */
export interface CallPlace {
  /** Records that the body of the call starts. */
  bodyBegins(): void
  /** Records that the call has ended. The place of the call becomes free, sometimes only after a pause. */
  leave(): void
}

export interface CallPlaces {
  /**
   * Waits until the call gets a place. Rejects with the signal's reason if the signal is aborted. If the call must give
   * its slot back, rejects with a retryable failure, and Temporal hands out the call again. A quick call gives up after
   * `quickPatience`, because a waiting quick call also occupies a slot for workflow tasks.
   */
  enter(organizationId: string, signal: AbortSignal, isQuick: boolean): Promise<CallPlace>
}

interface Waiting {
  readonly go: () => void
  readonly giveUp: (reason: unknown) => void
}

interface Organization {
  working: number
  /** The number of calls that count as `outside` (`longBody`). */
  outside: number
  readonly waiting: Waiting[]
  /** The time at which a call of the organization last arrived or ended, by the clock of `createCallPlaces`. */
  servedAt: number
  /**
   * The average time in milliseconds for which a call occupies a place. A pause after the call is included. Newer calls
   * count more than older calls.
   */
  placeTime: number
}

export function createCallPlaces(
  clock: () => number = () => performance.now(),
  load: ThreadLoad = createThreadLoad(busyShare),
): CallPlaces {
  return new Places(clock, load)
}

class Places implements CallPlaces {
  readonly #clock: () => number
  readonly #load: ThreadLoad
  readonly #use: ReturnType<typeof createUse>
  readonly #organizations = new Map<string, Organization>()
  /** The number of calls that have got a place and have not ended, of all organizations. */
  #inProgress = 0
  /** The number of calls that count as `outside`, of all organizations. */
  #outside = 0
  /**
   * Has one function for each call with a long body that still counts as `working`, because there was no room for
   * another `outside` call. The function tries again to count its call as `outside`.
   */
  readonly #longBodies = new Set<() => void>()
  #waiting = 0
  #full: NodeJS.Timeout | undefined

  constructor(clock: () => number, load: ThreadLoad) {
    this.#clock = clock
    this.#load = load
    this.#use = createUse(clock)
  }

  async enter(organizationId: string, signal: AbortSignal, isQuick: boolean): Promise<CallPlace> {
    signal.throwIfAborted()
    this.#use.noteServed(organizationId)
    const organization = this.#served(organizationId)
    if (this.#hasPlace(organization)) this.#begin(organization)
    else await this.#turn(organization, signal, isQuick)
    this.#noteFull()
    return this.#place(organizationId, organization)
  }

  /** Records that the organization is served. Forgets idle organizations that were not served lately. */
  #served(id: string): Organization {
    const now = this.#clock()
    const organization = this.#organizations.get(id) ?? {
      working: 0,
      outside: 0,
      waiting: [],
      servedAt: now,
      placeTime: 0,
    }
    organization.servedAt = now
    this.#organizations.set(id, organization)
    for (const [each, { working, outside, waiting, servedAt }] of this.#organizations)
      if (servedAt < now - rememberedMilliseconds && working + outside + waiting.length === 0)
        this.#organizations.delete(each)
    return organization
  }

  #hasPlace({ working, outside }: Organization): boolean {
    if (working + outside >= mostInProgress) return false
    return this.#organizations.size === 1 || working < mostAtWork
  }

  #begin(organization: Organization): void {
    organization.working += 1
    this.#inProgress += 1
  }

  #turn(organization: Organization, signal: AbortSignal, isQuick: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined
      const out = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
        organization.waiting.splice(organization.waiting.indexOf(entry), 1)
        this.#waiting -= 1
      }
      const entry: Waiting = {
        go: () => {
          out()
          this.#begin(organization)
          resolve()
        },
        giveUp: (reason) => {
          out()
          this.#noteFull()
          reject(reason)
        },
      }
      const onAbort = (): void => entry.giveUp(signal.reason)
      if (isQuick)
        timer = setTimeout(() => entry.giveUp(comesAgain(this.#untilTurn(organization))), quickPatience)
      signal.addEventListener('abort', onAbort, { once: true })
      organization.waiting.push(entry)
      this.#waiting += 1
      this.#noteFull()
    })
  }

  /** Returns the milliseconds after which a quick call that gets no place comes again (comes-again.ts). */
  #untilTurn({ waiting, placeTime }: Organization): number {
    return this.#organizations.size === 1 ? 0 : untilTurn(waiting.length, placeTime, mostAtWork)
  }

  #admit(organization: Organization): void {
    while (organization.waiting.length > 0 && this.#hasPlace(organization)) organization.waiting[0]?.go()
  }

  #place(organizationId: string, organization: Organization): CallPlace {
    const began = this.#clock()
    let counted: 'working' | 'outside' = 'working'
    let worked: number | null = null
    let hasLeft = false
    let timer: NodeJS.Timeout | undefined
    const goOutside = (): void => {
      worked ??= this.#clock() - began
      // An organization may have only as many calls with long bodies as there are free slots. So a single organization
      // takes about half of the slots. Each further organization takes about half of the rest.
      const hasRoom = this.#outside < mostOutside && organization.outside < callSlots - this.#inProgress
      if (!hasRoom) {
        this.#longBodies.add(goOutside)
        return
      }
      this.#longBodies.delete(goOutside)
      organization.working -= 1
      organization.outside += 1
      this.#outside += 1
      counted = 'outside'
      this.#admit(organization)
    }
    return {
      bodyBegins: () => {
        timer = setTimeout(goOutside, longBody)
      },
      leave: () => {
        if (hasLeft) return
        hasLeft = true
        clearTimeout(timer)
        this.#longBodies.delete(goOutside)
        this.#inProgress -= 1
        organization.servedAt = this.#clock()
        const rest = this.#restAfter(organizationId, worked ?? this.#clock() - began)
        if (counted === 'outside') {
          organization.outside -= 1
          this.#outside -= 1
          this.#admit(organization)
        } else this.#free(organization, rest, began)
        for (const each of this.#longBodies) each()
        this.#noteFull()
      },
    }
  }

  /** Returns for how many milliseconds the place of an ended call stays taken. `#free` may end this time early. */
  #restAfter(organizationId: string, worked: number): number {
    const isUnfair = this.#use.usesTooMuch(organizationId, worked)
    return isUnfair ? Math.min(worked * restFactor * this.#load.strain(), longestRest) : 0
  }

  /** Frees a place after a pause. The pause ends early if the thread is idle, or if no other organization is served. */
  #free(organization: Organization, rest: number, began: number): void {
    if (rest <= 0 || !this.#load.isBusy() || !this.#hasCompany(organization)) {
      organization.working -= 1
      organization.placeTime += (this.#clock() - began - organization.placeTime) * newPart
      this.#admit(organization)
      return
    }
    const step = Math.min(rest, restStep)
    setTimeout(() => this.#free(organization, rest - step, began), step).unref()
  }

  /** Returns whether another organization waits for a place, or was served lately. */
  #hasCompany(organization: Organization): boolean {
    const since = this.#clock() - besideMilliseconds
    for (const each of this.#organizations.values())
      if (each !== organization && (each.waiting.length > 0 || each.servedAt > since)) return true
    return false
  }

  /**
   * While all slots are in use, one waiting call after another gives its slot back, so that other organizations get
   * slots. The call is always one of the organization that has the most waiting calls.
   */
  #noteFull(): void {
    const isFull = this.#inProgress + this.#waiting >= callSlots
    if (!isFull) {
      clearTimeout(this.#full)
      this.#full = undefined
      return
    }
    this.#full ??= setTimeout(() => {
      this.#full = undefined
      let longest: readonly Waiting[] = []
      for (const { waiting } of this.#organizations.values())
        if (waiting.length > longest.length) longest = waiting
      longest.at(-1)?.giveUp(comesAgain(untilReturn()))
    }, longestFull)
  }
}

/* A call that finds no place in its worker leaves the worker, and comes again later. */

/**
 * A call that gave its slot back comes again after a random time. This time is between `returnsAfter` and twice
 * `returnsAfter`, in milliseconds.
 */
const returnsAfter = 2_500
/** A quick call without a place comes again after at most this many milliseconds, as an ordinary activity. */
const longestTurn = 2_000

/** Returns the failure that makes a call come again after this many milliseconds. */
const comesAgain = (milliseconds: number): ApplicationFailure =>
  ApplicationFailure.create({
    message: 'waits behind other calls of its organization',
    type: failureTypes.unavailable,
    nextRetryDelay: milliseconds,
    category: ApplicationFailureCategory.BENIGN,
  })

/** Returns the milliseconds until a call that gave its slot back comes again. */
const untilReturn = (): number => Math.round(returnsAfter * (1 + Math.random()))

/**
 * Returns the milliseconds until a quick call without a place comes again. The result is half of the time that all
 * `waiting` calls probably need to get a place, but at most `longestTurn`. Until then, Temporal has only a timer for
 * the call. A timer costs less than an activity that waits in a worker, above all if the run is cancelled. `placeTime`
 * is the number of milliseconds for which a call occupies one of the `places`.
 */
const untilTurn = (waiting: number, placeTime: number, places: number): number =>
  Math.min(Math.round((waiting * placeTime) / places / 2), longestTurn)
