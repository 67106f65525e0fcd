import { OtherAccount, ToolError } from './tools/executor.ts'

/**
 * The account with which one call acts. A second account does not see the things that the first account made. The
 * service does not recognize the first account's keys there. So only the same account looks for a call that may have
 * happened, or makes it again.
 */
export class ActingAccount {
  readonly #earlier: string | null
  #name: string | null = null

  /** `earlier`: the account of an earlier attempt that may have acted; null: unknown, or nothing was sent. */
  constructor(earlier: string | null) {
    this.#earlier = earlier
  }

  /** The account that the tool has named; null: none yet. */
  get name(): string | null {
    return this.#name
  }

  /**
   * Throws OtherAccount if an earlier attempt may have acted with another account. `looks`: an earlier attempt may have
   * acted, even if its account is unknown.
   */
  take(name: string, looks: boolean): void {
    const first = this.#name ?? this.#earlier
    if ((looks || first !== null) && first !== name) throw new OtherAccount()
    this.#name = name
  }
}

/** For an attempt whose connection is no longer live at its point of no return. */
export const disconnected = (): ToolError =>
  new ToolError(
    'connection_replaced',
    'the connection was revoked or replaced before anything was sent: the next try uses the present one',
    { retryable: true },
  )
