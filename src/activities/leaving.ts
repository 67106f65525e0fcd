import { millisecondsSince, type Moment } from '../shared/moment.ts'
import { mostRequestMilliseconds, mostWaitMilliseconds } from './tools/exchange.ts'
import { ToolError } from './tools/executor.ts'

/**
 * Limits how late one attempt may send its requests that have an effect. A process that stood still must not send a
 * call after another attempt has looked for this call.
 */
export class Leaving {
  /** The moment at which the attempt asked for the point of no return; null: it has not passed this point. */
  #asked: Moment | null = null
  /** The next request must leave within this many milliseconds after `#asked`. */
  #most = 0

  /**
   * Notes that the point of no return has been passed. `asked`: the moment at which the attempt asked for this point.
   * `mayBeMadeElsewhere`: another attempt may look for the call, or send it again.
   */
  begin(asked: Moment, mayBeMadeElsewhere: boolean): void {
    this.#asked = asked
    this.#most = mayBeMadeElsewhere ? mostWaitMilliseconds : Infinity
    this.#requireTime(asked)
  }

  /**
   * Call this right before a request with an effect leaves (see `ServiceConnection.requireFresh`). Throws if it is too
   * late for this request (`#most`). Otherwise moves the limit to a later time, because the next request of the call
   * leaves only after this request has ended.
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
