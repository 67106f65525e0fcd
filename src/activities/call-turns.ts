import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes } from '../contract/messages.ts'
import { FairShare, type Permit } from '../governance/limits/fair-share.ts'
import { callSlots, limits } from '../governance/limits/shares.ts'
import { ThreadUse } from '../governance/limits/thread-use.ts'

/*
 * A worker's slots and its JavaScript thread are shared between organizations (docs/decisions/0081). Temporal hands out
 * the calls of organizations in turn, but only while a slot is free.
 */

/** In milliseconds. A longer body probably waits for a service, so its call counts as `outside`. */
const longBody = 100
/** This limits the calls `outside` of all organizations. The other slots stay free for short calls. */
const mostOutside = 100
/** In milliseconds. If no slot is free for so long, a call that waits for its turn gives its slot back. */
const longestFull = 100
/** A local activity waits at most this many milliseconds for its turn: it also occupies a slot for workflow tasks. */
const quickPatience = 100
/** In milliseconds. A call that gave its slot back comes again after a random time of once to twice this. */
const returnsAfter = 2_500
/** In milliseconds. A quick call then comes again as an ordinary activity. */
const longestTurn = 2_000

export interface CallTurn {
  bodyBegins(): void
  /** The next call may begin, sometimes only after a pause. */
  leave(): void
}

export class CallTurns {
  readonly #share: FairShare
  /** Calls that have a slot: they wait for their turn, work, or are `outside`. */
  #present = 0
  #outside = 0
  /** Each function tries again to count a long body as `outside`, for which there was no room. */
  readonly #longBodies = new Set<() => void>()
  #full: NodeJS.Timeout | undefined

  constructor(thread = new ThreadUse()) {
    this.#share = new FairShare(limits.call, thread)
  }

  /** Rejects with the signal's reason, or with a retryable failure if the call must give its slot back. */
  async enter(organizationId: string, signal: AbortSignal, isQuick: boolean): Promise<CallTurn> {
    const late = (): unknown => comesAgain(this.#untilTurn(organizationId))
    const patience = isQuick ? { milliseconds: quickPatience, late } : undefined
    this.#count(1)
    try {
      return this.#turn(organizationId, await this.#share.enter(organizationId, { signal, patience }))
    } catch (error) {
      this.#count(-1)
      throw error
    }
  }

  /**
   * In milliseconds: half of the time until the call probably has its turn. A timer of Temporal costs less than an
   * activity that waits in a worker, above all if the run is cancelled.
   */
  #untilTurn(organizationId: string): number {
    return Math.min(Math.round(this.#share.untilTurn(organizationId) / 2), longestTurn)
  }

  #turn(organizationId: string, permit: Permit): CallTurn {
    const began = performance.now()
    let [isOutside, hasLeft, isNoted] = [false, false, false]
    let timer: NodeJS.Timeout | undefined
    const noteWork = (): void => {
      if (!isNoted) permit.adds(performance.now() - began)
      isNoted = true
    }
    const goOutside = (): void => {
      noteWork()
      this.#longBodies.add(goOutside)
      // One organization takes at most about half of the slots, and each further one about half of the rest.
      const room = callSlots - this.#present + this.#share.waiting
      if (this.#outside >= mostOutside || this.#share.keptBy(organizationId) >= room) return
      this.#longBodies.delete(goOutside)
      this.#outside += 1
      isOutside = true
      permit.keep(1)
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
        noteWork()
        if (isOutside) this.#outside -= 1
        permit.release()
        this.#count(-1)
        for (const each of this.#longBodies) each()
      },
    }
  }

  /** While all slots are taken, one call after another gives its slot back: the last in the longest line. */
  #count(change: number): void {
    this.#present += change
    if (this.#present < callSlots) {
      clearTimeout(this.#full)
      this.#full = undefined
      return
    }
    this.#full ??= setTimeout(() => {
      this.#full = undefined
      this.#share.turnAway(comesAgain(Math.round(returnsAfter * (1 + Math.random()))))
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
