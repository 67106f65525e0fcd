import type { ApplicationFailure } from '@temporalio/common'
import type { CallPlace, createCallPlaces } from '../../src/activities/call-places.ts'

type CallPlaces = ReturnType<typeof createCallPlaces>

export const never = new AbortController().signal
export const settled = () => new Promise((resolve) => setImmediate(resolve))

/**
 * Returns a function that lets `count` calls ask for a place. `inside` gets the places, and `failures` the errors of the
 * other calls.
 */
export function callsFor(places: CallPlaces) {
  return function calls(organizationId: string, count: number, signal = never, isQuick = false) {
    const inside: CallPlace[] = []
    const failures: ApplicationFailure[] = []
    for (let n = 0; n < count; n += 1)
      places.enter(organizationId, signal, isQuick).then(
        (place) => inside.push(place),
        (error: ApplicationFailure) => failures.push(error),
      )
    return { inside, failures }
  }
}
