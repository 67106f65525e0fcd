import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes } from '../contract/messages.ts'

/*
 * A call that finds no place in its worker (call-places.ts) leaves the worker, and comes again later.
 */

/**
 * A call that gave its slot back comes again after a random time. This time is between `returnsAfter` and twice
 * `returnsAfter`, in milliseconds.
 */
const returnsAfter = 2_500
/** A quick call without a place comes again after at most this many milliseconds, as an ordinary activity. */
const longestTurn = 2_000

/** Returns the failure that makes a call come again after this many milliseconds. */
export const comesAgain = (milliseconds: number): ApplicationFailure =>
  ApplicationFailure.create({
    message: 'waits behind other calls of its organization',
    type: failureTypes.unavailable,
    nextRetryDelay: milliseconds,
    category: ApplicationFailureCategory.BENIGN,
  })

/** Returns the milliseconds until a call that gave its slot back comes again. */
export const untilReturn = (): number => Math.round(returnsAfter * (1 + Math.random()))

/**
 * Returns the milliseconds until a quick call without a place comes again. The result is half of the time that all
 * `waiting` calls probably need to get a place, but at most `longestTurn`. Until then, Temporal has only a timer for
 * the call. A timer costs less than an activity that waits in a worker, above all if the run is cancelled. `placeTime`
 * is the number of milliseconds for which a call occupies one of the `places`.
 */
export const untilTurn = (waiting: number, placeTime: number, places: number): number =>
  Math.min(Math.round((waiting * placeTime) / places / 2), longestTurn)
