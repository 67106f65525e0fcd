import { OtherAccount, ToolError } from '../tools/kit/executor.ts'

/**
 * The account with which one call acts at its service. Another account perhaps cannot see the things that this account
 * made. The service also does not share idempotency keys between accounts. So after an attempt that may have acted,
 * only an attempt with the same account may look for the call or make the call again.
 */
export class ActingAccount {
  readonly #earlier: string | null
  #name: string | null = null

  /**
   * `earlier` is the account of an earlier attempt that may have acted. It is null if this account is unknown, or if
   * no earlier attempt has sent anything.
   */
  constructor(earlier: string | null) {
    this.#earlier = earlier
  }

  /** The account that this attempt uses. Is null if the tool has not named an account yet. */
  get name(): string | null {
    return this.#name
  }

  /**
   * Sets the account of this attempt. Throws OtherAccount in two cases: this attempt already uses another account, or
   * an earlier attempt may have acted with another or an unknown account. `looks` is true if an earlier attempt may
   * have acted.
   */
  take(name: string, looks: boolean): void {
    const first = this.#name ?? this.#earlier
    if ((looks || first !== null) && first !== name) throw new OtherAccount()
    this.#name = name
  }
}

/** The error of an attempt whose connection was revoked or replaced before the point of no return. */
export const disconnected = (): ToolError =>
  new ToolError(
    'connection_replaced',
    'the connection was revoked or replaced before anything was sent: the next try uses the present one',
    { retryable: true },
  )
