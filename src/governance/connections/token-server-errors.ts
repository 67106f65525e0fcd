/**
 * The authorization server refuses. `code` is the server's error code, such as `invalid_grant`, or a text of our own.
 * The error contains nothing else of the server's answer, because the answer may repeat secrets.
 */
export class GrantRefused extends Error {
  override readonly name = 'GrantRefused'
  readonly code: string
  constructor(code: string) {
    super(`the authorization server refuses: ${code}`)
    this.code = code
  }
}

/** The person, or the server, has refused an authorization in the browser. */
export class AuthorizationDenied extends Error {
  override readonly name = 'AuthorizationDenied'
  readonly code: string
  constructor(code: string) {
    super(`the authorization was refused: ${code}`)
    this.code = code
  }
}

/** The authorization server gave no usable answer. The same request may work later. */
export class TokenServerAway extends Error {
  override readonly name = 'TokenServerAway'
  readonly retryAfterSeconds: number | null
  constructor(message: string, retryAfterSeconds: number | null = null) {
    super(message)
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** The person has not granted the rights that the tool needs. */
export class RightsMissing extends Error {
  override readonly name = 'RightsMissing'
  readonly scopes: readonly string[]
  constructor(scopes: readonly string[]) {
    super(`the authorization lacks the rights ${scopes.join(', ')}`)
    this.scopes = scopes
  }
}
