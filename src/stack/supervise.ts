import { setTimeout as delay } from 'node:timers/promises'
import type { Running } from './child.ts'
import type { Log } from './files.ts'

/*
 * A service is *starting*, *up*, *down* or *stopped*. It is down if it has ended unexpectedly and waits for its next
 * start. A service that is down starts again after a pause, once every service that it needs is up.
 *
 * The supervisor counts failures in a row. The first failure is an unexpected end. Each further failure in the row is
 * an immediate failure (`settled`), and doubles the pause. After more than `limit` failures in a row, the supervisor
 * gives up. Its caller then stops the other services.
 */

/** A service that the supervisor keeps running. */
export interface Service<Name extends string> {
  readonly name: Name
  /** Services that must be up before this service starts again. */
  readonly needs: readonly Name[]
  /** Starts the service, always with the same port and data. Resolves once the service answers. */
  start(): Promise<Running>
}

export interface Supervisor<Name extends string> {
  /** Starts a service and keeps it running. Throws if the first start fails. */
  add(service: Service<Name>): Promise<void>
  /**
   * Stops these services at the same time. Resolves when they have ended. After the first call, the supervisor never
   * starts a service again.
   */
  stop(names: readonly Name[], hurry?: AbortSignal): Promise<void>
  /** Resolves with an error message for the operator if a service keeps failing. */
  readonly gaveUp: Promise<Error>
}

export interface SupervisorOptions {
  readonly log: Log
  /** Milliseconds before a service is started again. The pause doubles up to `longestPause`. */
  readonly pause?: number
  readonly longestPause?: number
  /**
   * A failure is immediate if a service ends within this many milliseconds after it was up, or if its restart fails.
   */
  readonly settled?: number
  /** The maximum number of failures in a row. */
  readonly limit?: number
}

interface Kept {
  current: Running
  up: boolean
}

interface Shared<Name extends string> {
  readonly options: Required<SupervisorOptions>
  readonly kept: Map<Name, Kept>
  readonly stopping: AbortSignal
  giveUp(error: Error): void
}

export function createSupervisor<Name extends string>(options: SupervisorOptions): Supervisor<Name> {
  const kept = new Map<Name, Kept>()
  const loops = new Map<Name, Promise<void>>()
  const stopping = new AbortController()
  const gaveUp = Promise.withResolvers<Error>()
  const shared: Shared<Name> = {
    options: { pause: 200, longestPause: 5_000, settled: 2_000, limit: 5, ...options },
    kept,
    stopping: stopping.signal,
    giveUp: gaveUp.resolve,
  }
  return {
    gaveUp: gaveUp.promise,
    add: async (service) => {
      stopping.signal.throwIfAborted()
      const entry = { current: await service.start(), up: true }
      kept.set(service.name, entry)
      loops.set(service.name, keepRunning(service, entry, shared))
      // If a stop was requested during the start, `stop` did not know this service yet. So the service is stopped here.
      if (stopping.signal.aborted) await entry.current.stop(stopping.signal)
    },
    stop: async (names, hurry) => {
      stopping.abort(new Error('stopped'))
      await Promise.all(
        names.map(async (name) => {
          const entry = kept.get(name)
          if (entry === undefined) return
          // The loop may be starting the service again. In this case, waits for the start, and then stops the new
          // process.
          const started = entry.current
          await started.stop(hurry)
          await loops.get(name)
          if (entry.current !== started) await entry.current.stop(hurry)
        }),
      )
    },
  }
}

/** Starts the service again whenever it ends, until the supervisor stops or gives up. */
async function keepRunning<Name extends string>(
  service: Service<Name>,
  entry: Kept,
  shared: Shared<Name>,
): Promise<void> {
  const { stopping, giveUp } = shared
  const { log, pause, longestPause, settled, limit } = shared.options
  let failures = 0
  let upSince = performance.now()
  while (!stopping.aborted) {
    let why = await entry.current.exited
    if (stopping.aborted) return
    entry.up = false
    failures = performance.now() - upSince < settled ? failures + 1 : 1
    while (!entry.up) {
      if (failures > limit)
        return giveUp(
          new Error(`${service.name} failed ${failures} times in a row right after its start (${why})`),
        )
      const wait = Math.min(pause * 2 ** (failures - 1), longestPause)
      log(`${service.name} ended unexpectedly (${why}): starting it again in ${(wait / 1_000).toFixed(1)} s`)
      await quietly(delay(wait, undefined, { signal: stopping }))
      await untilNeededAreUp(service, shared)
      if (stopping.aborted) return
      const began = performance.now()
      try {
        entry.current = await service.start()
        entry.up = true
        upSince = performance.now()
        log(`${service.name} is up again (${((upSince - began) / 1_000).toFixed(1)} s)`)
      } catch (error) {
        failures += 1
        why = (error as Error).message
      }
    }
  }
}

async function untilNeededAreUp<Name extends string>(
  { name, needs }: Service<Name>,
  { options, kept, stopping }: Shared<Name>,
): Promise<void> {
  const missing = (): Name[] => needs.filter((need) => kept.get(need)?.up === false)
  if (missing().length > 0) options.log(`${name} waits for ${missing().join(' and ')}`)
  while (!stopping.aborted && missing().length > 0) await quietly(delay(50, undefined, { signal: stopping }))
}

async function quietly(waiting: Promise<unknown>): Promise<void> {
  await waiting.catch(() => undefined)
}
