import { millisecondsSince, type Moment } from '../shared/moment.ts'
import { mostRequestMilliseconds, mostWaitMilliseconds } from '../tools/kit/exchange.ts'
import { ToolError, OtherAccount } from '../tools/kit/executor.ts'

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

/**
 * Another account may not see what this one made, and shares no idempotency keys with it. So after an attempt
 * that may have acted, only the same account may look for the call or repeat it.
 */
export class ActingAccount {
  readonly #earlier: string | null
  #name: string | null = null

  /** `earlier` is null if the account of an earlier attempt is unknown, or if nothing was sent. */
  constructor(earlier: string | null) {
    this.#earlier = earlier
  }

  get name(): string | null {
    return this.#name
  }

  /**
   * Throws OtherAccount if this attempt already uses another account, or if an earlier attempt may have acted
   * (`looks`) with another or an unknown account.
   */
  take(name: string, looks: boolean): void {
    const first = this.#name ?? this.#earlier
    if ((looks || first !== null) && first !== name) throw new OtherAccount()
    this.#name = name
  }
}

/** The connection was revoked or replaced before the point of no return. */
export const disconnected = (): ToolError =>
  new ToolError(
    'connection_replaced',
    'the connection was revoked or replaced before anything was sent: the next try uses the present one',
    { retryable: true },
  )
