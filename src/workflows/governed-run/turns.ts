import { condition } from '@temporalio/workflow'

/**
 * Gives the results of local activities to the run one after the other. The run uses each result as far as it can
 * before it gets the next one.
 *
 * This is necessary because of the SDK. The results of two local activities may arrive in two activations when the run
 * executes, and in one activation when it replays (docs/decisions/0277). Their order is the same. But in one activation
 * the code that follows both results would run at the same time, in steps of microtasks. So the commands of the run
 * would have another order than in its history.
 *
 * A run must wait for a condition only with `until` of this class, because a result waits until no condition holds.
 */
export class Turns {
  readonly #conditions = new Set<() => boolean>()
  /** The results that have arrived and wait for their turn. */
  readonly #queue: object[] = []
  /** Whether something waited for its condition or its turn, and has not gone on yet. */
  #moves = false

  /** Resolves when `holds` returns true. */
  async until(holds: () => boolean): Promise<void> {
    this.#conditions.add(holds)
    try {
      await condition(() => this.#goesOn(holds()))
    } finally {
      this.#moves = false
      this.#conditions.delete(holds)
    }
  }

  /**
   * Does a local activity and waits for its turn. This function must call the SDK directly, so that all results need the
   * same number of microtasks to get into the queue.
   */
  async after<T>(activity: () => Promise<T>): Promise<T> {
    try {
      return await activity()
    } finally {
      await this.turn()
    }
  }

  /** Waits for a turn: until nothing else can go on. */
  async turn(): Promise<void> {
    const turn = {}
    this.#queue.push(turn)
    // The SDK evaluates a condition once at its start. But only its later evaluations happen when no microtask is left.
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
