import { mostRequestMilliseconds, mostWaitMilliseconds } from './tools/exchange.ts'
import { ToolError } from './tools/executor.ts'

/**
 * Limits how late one attempt may send its requests that have an effect. A process that stood still must not send a
 * call after another attempt has looked for this call.
 */
export class Leaving {
  /** The latest time for the next request, by `performance.now()`; null: the point of no return has not been passed. */
  #until: number | null = null

  /**
   * Notes that the point of no return has been passed. `asked`: the time at which the attempt asked for this point.
   * `mayBeMadeElsewhere`: another attempt may look for the call, or send it again.
   */
  begin(asked: number, mayBeMadeElsewhere: boolean): void {
    this.#until = mayBeMadeElsewhere ? asked + mostWaitMilliseconds : Infinity
    this.#requireTime(this.#until)
  }

  /**
   * Call this right before a request with an effect leaves (see `ServiceConnection.requireFresh`). Throws if the latest
   * time has passed. Otherwise sets a later time for the next request of the call, which follows as soon as this
   * request has ended.
   */
  requireFresh(): void {
    if (this.#until === null) throw new Error('a request with an effect comes before the point of no return')
    this.#requireTime(this.#until)
    this.#until += mostRequestMilliseconds + mostWaitMilliseconds
  }

  #requireTime(until: number): void {
    if (performance.now() > until)
      throw new ToolError('stalled', 'the worker was too slow: nothing was sent', { retryable: true })
  }
}
