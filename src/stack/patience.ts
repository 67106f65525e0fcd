import { setTimeout as delay } from 'node:timers/promises'
import { recordedProcesses } from './guard.ts'
import { processorTime } from './process-identity.ts'

/*
 * How long a start may take. A loaded machine can need minutes for what a free one does in seconds. So the time does not
 * decide: a start is given up only once the processes of the data folder stand still.
 */

/** A start that stands still for this many milliseconds is given up. */
const longestPause = 60_000
/**
 * Waiting processes wake up at times too. So a start makes progress only if its processes have used this many
 * milliseconds of processor time since the last progress, or have said something.
 */
const leastWork = 2_000
/** A start that goes round in circles is given up after this many milliseconds. */
const longestStart = 20 * 60_000
/** Milliseconds between two looks at the processes. */
const lookEvery = 1_000

export interface PatienceOptions {
  /** Returns the number of characters that the processes have written so far. */
  readonly said?: () => number
  /** Returns the milliseconds of processor time that the processes have used so far. */
  readonly worked?: () => number
  readonly clock?: () => number
}

/** Tells when the start of a process of this data folder has to be given up. */
export class Patience {
  readonly #worked: () => number
  readonly #said: () => number
  readonly #clock: () => number
  readonly #began: number
  #looked: number
  #progress: { readonly at: number; readonly worked: number; readonly said: number }

  constructor(dataDir: string, options: PatienceOptions = {}) {
    this.#worked = options.worked ?? (() => processorTime(recordedProcesses(dataDir).map(({ pid }) => pid)))
    this.#said = options.said ?? (() => 0)
    this.#clock = options.clock ?? (() => performance.now())
    this.#began = this.#looked = this.#clock()
    this.#progress = { at: this.#began, worked: this.#worked(), said: this.#said() }
  }

  /** Call this often. */
  isOver(): boolean {
    const now = this.#clock()
    if (now - this.#looked >= lookEvery) this.#look(now)
    return now - this.#progress.at > longestPause || now - this.#began > longestStart
  }

  #look(at: number): void {
    this.#looked = at
    const [worked, said] = [this.#worked(), this.#said()]
    const last = this.#progress
    // The sum is lower than before if a process has ended.
    if (worked < last.worked || worked - last.worked >= leastWork || said !== last.said)
      this.#progress = { at, worked, said }
  }

  /** Resolves once the start has to be given up, or `done` is aborted. */
  async over(done: AbortSignal): Promise<void> {
    while (!done.aborted && !this.isOver())
      await delay(lookEvery, undefined, { signal: done, ref: false }).catch(() => undefined)
  }
}
