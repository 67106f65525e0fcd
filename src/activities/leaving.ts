import { mostRequestMilliseconds, mostWaitMilliseconds } from './tools/exchange.ts'
import { ToolError } from './tools/executor.ts'

/**
 * The time in which the requests with an effect of one attempt leave. A process that stood still must not send a call
 * that another attempt has looked for already.
 */
export class Leaving {
  /** By `performance.now()`; null: the point of no return has not been passed. */
  #until: number | null = null

  /** The point of no return was asked for at `asked`. `mayBeMadeElsewhere`: other attempts may look for the call. */
  begin(asked: number, mayBeMadeElsewhere: boolean): void {
    this.#until = mayBeMadeElsewhere ? asked + mostWaitMilliseconds : Infinity
    this.#requireTime(this.#until)
  }

  /**
   * A request with an effect is about to leave: see `ServiceConnection.requireFresh`. Another request of the same call
   * follows as soon as this one has ended.
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
