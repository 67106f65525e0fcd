import { setTimeout as delay } from 'node:timers/promises'
import type { Running } from './child.ts'
import type { Log } from './files.ts'

/*
 * A service is *starting*, *up*, *down* or *stopped*. Down: it has ended unexpectedly, and starts again after a pause,
 * once every service that it needs is up.
 *
 * Failures in a row are counted: the first is an unexpected end, and each further one is immediate (`settled`) and
 * doubles the pause. After more than `limit` of them, the supervisor gives up, and its caller stops the other services.
 */

export interface Service<Name extends string> {
  readonly name: Name
  /** Must be up before this service starts again. */
  readonly needs: readonly Name[]
  /** Always with the same port and data. Resolves once the service answers. */
  start(): Promise<Running>
}

export interface Supervisor<Name extends string> {
  /** Throws if the first start fails. */
  add(service: Service<Name>): Promise<void>
  /** Resolves when these services have ended. From the first call on, no service is started again. */
  stop(names: readonly Name[], hurry?: AbortSignal): Promise<void>
  /** A message for the operator, if a service keeps failing. */
  readonly gaveUp: Promise<Error>
}

interface SupervisorOptions {
  readonly log: Log
  /** Milliseconds before a service is started again, doubled up to `longestPause`. */
  readonly pause?: number
  readonly longestPause?: number
  /** A failure is immediate if the service was up for less than these milliseconds, or if its restart fails. */
  readonly settled?: number
  /** The most failures in a row. */
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
      // `stop` did not know of a service that was still starting.
      if (stopping.signal.aborted) await entry.current.stop(stopping.signal)
    },
    stop: async (names, hurry) => {
      stopping.abort(new Error('stopped'))
      await Promise.all(
        names.map(async (name) => {
          const entry = kept.get(name)
          if (entry === undefined) return
          // The loop may be starting the service again: wait for this start, and stop the new process.
          const started = entry.current
          await started.stop(hurry)
          await loops.get(name)
          if (entry.current !== started) await entry.current.stop(hurry)
        }),
      )
    },
  }
}

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

/** Runs one step of the start. Logs its duration at the end, and from time to time while it is slow. */
export type Step = <T>(what: string, work: () => Promise<T>) => Promise<T>

/** Milliseconds. */
const slow = 1_000

export function createSteps(log: Log): Step {
  return async (what, work) => {
    const began = performance.now()
    const seconds = (): string => `${((performance.now() - began) / 1_000).toFixed(1)} s`
    let timer = setTimeout(function again() {
      log(`${what} ... (${seconds()})`)
      timer = setTimeout(again, 15_000)
    }, slow)
    try {
      const result = await work()
      log(`${what}: done (${seconds()})`)
      return result
    } finally {
      clearTimeout(timer)
    }
  }
}
