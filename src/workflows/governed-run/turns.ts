import { condition } from '@temporalio/workflow'

/**
 * Gives the results of local activities to the run one after the other. The run uses each as far as it can
 * first.
 *
 * The results of two local activities may arrive in two activations when the run executes, and in one when it
 * replays (docs/decisions/0277). In one activation, the code after both results would run at the same time,
 * in steps of microtasks, so the commands would have another order than in the history.
 *
 * A run must wait for a condition only with `until` of this class, because a result waits until no condition
 * holds.
 */
export class Turns {
  readonly #conditions = new Set<() => boolean>()
  /** Results that have arrived and wait for their turn. */
  readonly #queue: object[] = []
  /** Something waited for its condition or its turn, and has not gone on yet. */
  #moves = false

  async until(holds: () => boolean): Promise<void> {
    this.#conditions.add(holds)
    try {
      await condition(() => this.#goesOn(holds()))
    } finally {
      this.#moves = false
      this.#conditions.delete(holds)
    }
  }

  /** `activity` must call the SDK directly, so that all results need the same number of microtasks. */
  async after<T>(activity: () => Promise<T>): Promise<T> {
    try {
      return await activity()
    } finally {
      await this.turn()
    }
  }

  /** Waits until nothing else can go on. */
  async turn(): Promise<void> {
    const turn = {}
    this.#queue.push(turn)
    // Only the SDK's later evaluations of a condition happen when no microtask is left.
    let isLater = false
    const isNext = () => isLater && !this.#moves && this.#queue[0] === turn && this.#isQuiet()
    const next = condition(() => this.#goesOn(isNext()))
    isLater = true
    await next
    this.#moves = false
    this.#queue.shift()
  }

  #isQuiet(): boolean {
    for (const holds of this.#conditions) if (holds()) return false
    return true
  }

  #goesOn(does: boolean): boolean {
    if (does) this.#moves = true
    return does
  }
}
