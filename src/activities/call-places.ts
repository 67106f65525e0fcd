import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes } from '../contract/messages.ts'

/*
 * Shares the activity slots and the thread of a worker between organizations (docs/decisions/0081). Temporal hands out
 * the calls of organizations in turns, but only into free slots.
 */

/** Slots of a worker, which are the calls that it has taken from Temporal and not finished. */
export const callSlots = 120
/** Calls of one organization in progress. The other slots stay free, even if none of these calls ever ends. */
const mostInProgress = 100
/** Calls of one organization at work, while the worker serves other organizations too. */
const mostAtWork = 2
/** A body that takes longer than this many milliseconds waits for something outside, and counts as not at work. */
const longBody = 100
/** Another organization counts as served for this many milliseconds after its last call. */
const rememberedMilliseconds = 10_000
/** If no slot became free for this many milliseconds, a waiting call gives its own back. */
const longestFull = 100
/** A call that gave its slot back asks for one again after this many milliseconds, or up to twice as many. */
const returnsAfter = 2_500
/** A quick call waits for its place for this many milliseconds. */
const quickPatience = 100

/** One call's place among the calls of its organization. */
export interface CallPlace {
  /** From now on, the body runs. */
  bodyBegins(): void
  /** Ends the call. */
  leave(): void
}

export interface CallPlaces {
  /**
   * Waits for a place of the organization. Rejects with the signal's reason if it is aborted, or with a failure after
   * which Temporal hands out the call again. A quick call waits for a tenth of a second, because its run keeps a slot
   * for workflow tasks. Then it gives up, and Temporal hands it out in the turn of its organization.
   */
  enter(organizationId: string, signal: AbortSignal, isQuick: boolean): Promise<CallPlace>
}

interface Waiting {
  readonly go: () => void
  readonly giveUp: (reason: unknown) => void
}

interface Organization {
  working: number
  /** Calls with long bodies. */
  outside: number
  readonly waiting: Waiting[]
  /** When its last call began or ended, by the clock. */
  servedAt: number
}

export function createCallPlaces(clock: () => number = () => performance.now()): CallPlaces {
  return new Places(clock)
}

class Places implements CallPlaces {
  readonly #clock: () => number
  readonly #organizations = new Map<string, Organization>()
  /** Calls that work or have long bodies. */
  #inProgress = 0
  #waiting = 0
  #full: NodeJS.Timeout | undefined

  constructor(clock: () => number) {
    this.#clock = clock
  }

  async enter(organizationId: string, signal: AbortSignal, isQuick: boolean): Promise<CallPlace> {
    signal.throwIfAborted()
    const organization = this.#served(organizationId)
    if (this.#hasPlace(organization)) this.#begin(organization)
    else await this.#turn(organization, signal, isQuick)
    this.#noteFull()
    return this.#place(organization)
  }

  /** Notes that the organization is served. Forgets those that were not served lately. */
  #served(id: string): Organization {
    const now = this.#clock()
    const organization = this.#organizations.get(id) ?? { working: 0, outside: 0, waiting: [], servedAt: now }
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
      if (isQuick) timer = setTimeout(() => entry.giveUp(comesAgain(0)), quickPatience)
      signal.addEventListener('abort', onAbort, { once: true })
      organization.waiting.push(entry)
      this.#waiting += 1
      this.#noteFull()
    })
  }

  #admit(organization: Organization): void {
    while (organization.waiting.length > 0 && this.#hasPlace(organization)) organization.waiting[0]?.go()
  }

  #place(organization: Organization): CallPlace {
    let counted: 'working' | 'outside' = 'working'
    let hasLeft = false
    let timer: NodeJS.Timeout | undefined
    const goOutside = (): void => {
      // At most as many as slots are left, so that several organizations together never take all of them.
      if (organization.outside >= callSlots - this.#inProgress) return
      organization.working -= 1
      organization.outside += 1
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
        organization[counted] -= 1
        this.#inProgress -= 1
        organization.servedAt = this.#clock()
        this.#admit(organization)
        this.#noteFull()
      },
    }
  }

  /** While no slot becomes free, one waiting call at a time gives its slot back, so that other organizations get it. */
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
      longest.at(-1)?.giveUp(comesAgain(returnsAfter * (1 + Math.random())))
    }, longestFull)
  }
}

const comesAgain = (milliseconds: number): ApplicationFailure =>
  ApplicationFailure.create({
    message: 'waits behind other calls of its organization',
    type: failureTypes.unavailable,
    nextRetryDelay: milliseconds,
    category: ApplicationFailureCategory.BENIGN,
  })
