import { createThreadLoad, createUse, type ThreadLoad } from '../governance/limits/thread-use.ts'
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes } from '../contract/messages.ts'

/*
 * This module shares a worker's activity slots and its JavaScript thread between organizations (docs/decisions/0081).
 * Temporal hands out the calls of organizations in turn, but only while a slot is free.
 */

/** A call occupies a slot from its arrival at the worker until its end. */
export const callSlots = 120
/** The rest of the slots stays free for other organizations, even if none of these calls ever ends. */
const mostInProgress = 100
/** This limits the calls `working` of one organization while the worker also serves others. */
const mostAtWork = 2
/** In milliseconds. A longer body probably waits for a service, so its call counts as `outside`. */
const longBody = 100
/** This limits the calls `outside` of all organizations. The other slots stay free for short calls. */
const mostOutside = 100
/**
 * While the thread is busy, an organization that uses too much of it (thread-use.ts) pauses after each call,
 * this many times as long as the call worked. Overload makes the pause longer (`strain`).
 */
const restFactor = 8
/** This is in milliseconds. */
const longestRest = 1_000
/** Milliseconds between two checks whether a pause is still needed. */
const restStep = 50
/** In milliseconds. A pause needs another organization that waits, or was served within this time. */
const besideMilliseconds = 2_000
/** The thread is busy if it works for more than this fraction of the time. */
const busyShare = 0.35
/** In milliseconds since a call of the organization last arrived or ended. */
const rememberedMilliseconds = 10_000
/** In milliseconds. If no slot is free for so long, a call that waits for a place gives its slot back. */
const longestFull = 100
/** A local activity waits at most this many milliseconds for a place. */
const quickPatience = 100

/** The weight of the latest call in `Organization.placeTime`, from 0 to 1. */
const newPart = 0.2

export interface CallPlace {
  bodyBegins(): void
  /** The place becomes free, sometimes only after a pause. */
  leave(): void
}

export interface CallPlaces {
  /**
   * Rejects with the signal's reason, or with a retryable failure if the call must give its slot back. A
   * quick call gives up after `quickPatience`, because it also occupies a slot for workflow tasks.
   */
  enter(organizationId: string, signal: AbortSignal, isQuick: boolean): Promise<CallPlace>
}

interface Waiting {
  readonly go: () => void
  readonly giveUp: (reason: unknown) => void
}

interface Organization {
  working: number
  outside: number
  readonly waiting: Waiting[]
  /** When a call last arrived or ended, by the clock of `createCallPlaces`. */
  servedAt: number
  /** The average in milliseconds, with the pause after the call. Newer calls count more. */
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
  #inProgress = 0
  #outside = 0
  /** Each function tries again to count a long body as `outside`, for which there was no room. */
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

  /** Also forgets idle organizations that were not served lately. */
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

  /** The result is in milliseconds (comes-again.ts). */
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
      // One organization takes at most about half of the slots, and each further one about half of the rest.
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

  /** The result is in milliseconds. `#free` may end this time early. */
  #restAfter(organizationId: string, worked: number): number {
    const isUnfair = this.#use.usesTooMuch(organizationId, worked)
    return isUnfair ? Math.min(worked * restFactor * this.#load.strain(), longestRest) : 0
  }

  /** The pause ends early if the thread is idle, or if no other organization is served. */
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

  #hasCompany(organization: Organization): boolean {
    const since = this.#clock() - besideMilliseconds
    for (const each of this.#organizations.values())
      if (each !== organization && (each.waiting.length > 0 || each.servedAt > since)) return true
    return false
  }

  /**
   * One call after another gives its slot back. It is one of the organization with the most waiting calls.
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

/** In milliseconds. A call that gave its slot back comes again after a random time of once to twice this. */
const returnsAfter = 2_500
/** In milliseconds. A quick call then comes again as an ordinary activity. */
const longestTurn = 2_000

const comesAgain = (milliseconds: number): ApplicationFailure =>
  ApplicationFailure.create({
    message: 'waits behind other calls of its organization',
    type: failureTypes.unavailable,
    nextRetryDelay: milliseconds,
    category: ApplicationFailureCategory.BENIGN,
  })

const untilReturn = (): number => Math.round(returnsAfter * (1 + Math.random()))

/**
 * Half of the time that all `waiting` calls probably need to get a place. A timer of Temporal costs less than
 * an activity that waits in a worker, above all if the run is cancelled. `placeTime` is in milliseconds.
 */
const untilTurn = (waiting: number, placeTime: number, places: number): number =>
  Math.min(Math.round((waiting * placeTime) / places / 2), longestTurn)
