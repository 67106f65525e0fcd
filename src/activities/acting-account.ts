import { OtherAccount, ToolError } from '../tools/kit/executor.ts'

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
