import { OtherAccount, ToolError } from './tools/executor.ts'

/**
 * The account with which one call acts. Another account does not see what the first one made, and its service does not
 * recognize the keys of the first one. So a call that may have been made is looked for, and made again, with the same
 * account alone.
 */
export class ActingAccount {
  readonly #earlier: string | null
  #name: string | null = null

  /** `earlier`: the account of an earlier attempt that may have acted; null: unknown, or nothing was sent. */
  constructor(earlier: string | null) {
    this.#earlier = earlier
  }

  /** null: the tool has named none. */
  get name(): string | null {
    return this.#name
  }

  /** Throws OtherAccount. `looks`: an earlier attempt may have acted, also if its account is unknown. */
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
