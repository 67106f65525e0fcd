import { millisecondsSince, type Moment } from '../shared/moment.ts'
import { mostRequestMilliseconds, mostWaitMilliseconds } from '../tools/kit/exchange.ts'
import { ToolError } from '../tools/kit/executor.ts'

/**
 * Limits how late one attempt may send requests that have an effect. If the process stood still, another attempt may
 * have looked for the call meanwhile. After that, this attempt must not send the call.
 */
export class Leaving {
  /**
   * The moment at which the attempt asked for the point of no return. Is null until the attempt has passed this point.
   */
  #asked: Moment | null = null
  /** The next request must leave within this many milliseconds after `#asked`. */
  #most = 0

  /**
   * Records that the attempt has passed the point of no return. `asked` is the moment at which the attempt asked for
   * this point. `mayBeMadeElsewhere` is true if another attempt may look for the call, or send the call again. In this
   * case, the first request must leave within `mostWaitMilliseconds`. Throws ToolError if it is already too late.
   */
  begin(asked: Moment, mayBeMadeElsewhere: boolean): void {
    this.#asked = asked
    this.#most = mayBeMadeElsewhere ? mostWaitMilliseconds : Infinity
    this.#requireTime(asked)
  }

  /**
   * Call this right before a request with an effect leaves (see `ServiceConnection.requireFresh`). Throws if it is too
   * late for this request (`#most`). Otherwise moves the limit to a later time for the next request of the call. The
   * next request leaves only after this request has ended.
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
