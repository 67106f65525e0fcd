/** An authorization server of OAuth. */
export interface TokenServer {
  readonly issuer: string
  readonly authorizationEndpoint: string
  readonly tokenEndpoint: string
  readonly revocationEndpoint: string
  /**
   * Whether the addresses in the server's own description are used instead, if there is one. These addresses must be
   * below the issuer.
   */
  readonly isDescribed: boolean
}

/** A program that an authorization server knows. */
export interface OAuthClient {
  readonly id: string
  readonly secret: string
}

/**
 * How a credential is exchanged for an access token.
 * - `refresh_token`: the access token is stored and shared by all processes, since the server may take each refresh
 *   token only once.
 * - `service_account`: a signed statement, which each process can make anew.
 */
export type Grant =
  | {
      readonly kind: 'refresh_token'
      readonly server: TokenServer
      /** null: the operator has removed or replaced the client. */
      readonly client: OAuthClient | null
      readonly refreshToken: string
      /**
       * Whether Countersign revokes the token when the connection is revoked, because the token belongs to this
       * connection alone.
       */
      readonly isOurs: boolean
    }
  | {
      readonly kind: 'service_account'
      readonly tokenEndpoint: string
      readonly email: string
      readonly keyId: string | null
      /** PEM, PKCS #8. */
      readonly privateKey: string
    }

/** The parameters with which a person's browser goes to an authorization server. */
export interface Authorization {
  readonly server: TokenServer
  readonly client: OAuthClient
  readonly scopes: readonly string[]
  /** Parameters that only this server needs. */
  readonly parameters: Readonly<Record<string, string>>
}
