import { millisecondsSince, type Moment } from '../shared/moment.ts'
import { mostRequestMilliseconds, mostWaitMilliseconds } from '../tools/kit/exchange.ts'
import { ToolError } from '../tools/kit/executor.ts'

/**
 * If the process stood still, another attempt may have looked for the call, and this one must not send it.
 */
export class Leaving {
  /** Null until the attempt has passed the point of no return. */
  #asked: Moment | null = null
  /** Milliseconds after `#asked` within which the next request must leave. */
  #most = 0

  /**
   * `mayBeMadeElsewhere`: another attempt may look for the call or repeat it, so the first request must leave
   * within `mostWaitMilliseconds`. Throws ToolError if it is already too late.
   */
  begin(asked: Moment, mayBeMadeElsewhere: boolean): void {
    this.#asked = asked
    this.#most = mayBeMadeElsewhere ? mostWaitMilliseconds : Infinity
    this.#requireTime(asked)
  }

  /**
   * Call this right before a request with an effect leaves. Throws if it is too late. Otherwise moves the
   * limit for the next request, which leaves only after this request has ended.
   */
  requireFresh(): void {
    if (this.#asked === null) throw new Error('a request with an effect comes before the point of no return')
    this.#requireTime(this.#asked)
    this.#most += mostRequestMilliseconds + mostWaitMilliseconds
  }

  #requireTime(asked: Moment): void {
    if (millisecondsSince(asked) > this.#most)
      throw new ToolError('stalled', 'the worker was too slow: nothing was sent', { retryable: true })
  }
}
