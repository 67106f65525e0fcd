/** An authorization server of OAuth. */
export interface TokenServer {
  readonly issuer: string
  readonly authorizationEndpoint: string
  readonly tokenEndpoint: string
  readonly revocationEndpoint: string
  /**
   * Whether the server may publish its own list of endpoints. Each endpoint in this list replaces the one above, and
   * must have the same origin as the issuer.
   */
  readonly isDescribed: boolean
}

/** A client that is registered at an authorization server. */
export interface OAuthClient {
  readonly id: string
  readonly secret: string
}

/**
 * How a credential is exchanged for an access token:
 * - `refresh_token`: with a refresh token. All processes share one stored access token, since the server may take each
 *   refresh token only once.
 * - `service_account`: with a signed statement. Each process can sign a new statement at any time.
 */
export type Grant =
  | {
      readonly kind: 'refresh_token'
      readonly server: TokenServer
      /** null: the operator has removed or replaced the client. */
      readonly client: OAuthClient | null
      readonly refreshToken: string
      /**
       * Whether the refresh token came from an authorization for this connection. If so, and if no other connection has
       * the same account, Countersign revokes the token together with the connection.
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
