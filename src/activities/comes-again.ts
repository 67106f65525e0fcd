import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes } from '../contract/messages.ts'

/*
 * A call that finds no place in its worker (call-places.ts) leaves the worker, and comes again later.
 */

/**
 * A call that gave its slot back comes again after a random time, which is between this many milliseconds and twice as
 * many.
 */
const returnsAfter = 2_500
/** A quick call without a place comes again after at most this many milliseconds, as an ordinary activity. */
const longestTurn = 2_000

/** The failure of a call that comes again after this many milliseconds. */
export const comesAgain = (milliseconds: number): ApplicationFailure =>
  ApplicationFailure.create({
    message: 'waits behind other calls of its organization',
    type: failureTypes.unavailable,
    nextRetryDelay: milliseconds,
    category: ApplicationFailureCategory.BENIGN,
  })

/** After how many milliseconds a call comes again that gave its slot back. */
export const untilReturn = (): number => Math.round(returnsAfter * (1 + Math.random()))

/**
 * After how many milliseconds a quick call without a place comes again: half of the time after which the last waiting
 * call probably has a place. Until then Temporal has only a timer for it. An activity that waits in a worker costs more,
 * and most of all if its run is cancelled. `placeTime`: for how many milliseconds a call takes one of the `places`.
 */
export const untilTurn = (waiting: number, placeTime: number, places: number): number =>
  Math.min(Math.round((waiting * placeTime) / places / 2), longestTurn)
