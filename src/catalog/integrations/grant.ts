/** An authorization server of OAuth. */
export interface TokenServer {
  readonly issuer: string
  readonly authorizationEndpoint: string
  readonly tokenEndpoint: string
  readonly revocationEndpoint: string
  /**
   * Whether the server may publish a description of itself with other endpoints than these. If it does, these other
   * endpoints are used. They must have the same origin as the issuer.
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
       * Whether an authorization made the refresh token for this connection alone. Countersign then also revokes the
       * token when the connection is revoked.
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
