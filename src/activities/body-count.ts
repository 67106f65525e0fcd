import { noteBody } from '../calls/runs/outcome.ts'
import type { Attempt } from './call-attempt.ts'

/**
 * A body that takes longer than this many milliseconds is counted before it ends. If its worker dies earlier, nobody
 * learns of the body, but the call costs one statement less.
 */
const longBody = 250

/** Tells the database that a body has begun, if no other statement of the attempt tells it soon. */
export class BodyCount {
  readonly #of: Attempt
  #hasBegun = false

  constructor(attempt: Attempt) {
    this.#of = attempt
  }

  /** Whether the body has begun. It has not if the attempt only looked for the effect of an earlier one. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /**
   * Runs the body. Reads that are no quick calls go to other services, so they are counted at once. If the body throws,
   * the attempt saves no outcome, so the body is counted then.
   */
  async during<Ended>(body: () => Promise<Ended>): Promise<Ended> {
    const { activity, tool } = this.#of
    this.#hasBegun = true
    const isSlow = tool.repeat === 'free' && !activity.info.isLocal
    const timer = setTimeout(() => this.#count(), isSlow ? 0 : longBody)
    try {
      return await body()
    } catch (error) {
      this.#count()
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  /** Does not wait for the database, and ignores its errors: the call must not depend on its number. */
  #count(): void {
    const { context, op, verdict } = this.#of
    noteBody(context, op.key, verdict.attempt).catch(() => {})
  }
}
