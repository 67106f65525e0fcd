/** An authorization server of OAuth. */
export interface TokenServer {
  readonly issuer: string
  readonly authorizationEndpoint: string
  readonly tokenEndpoint: string
  readonly revocationEndpoint: string
  /**
   * True if the server may publish a list of its endpoints. An endpoint in this list replaces the endpoint above. It
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
 * - `refresh_token`: the service sends a refresh token. The server may take each refresh token only once, so all
 *   processes share one stored access token.
 * - `service_account`: the service sends a signed statement. Each process can sign a new statement at any time.
 */
export type Grant =
  | {
      readonly kind: 'refresh_token'
      readonly server: TokenServer
      /** Is null if the operator has removed or replaced the client. */
      readonly client: OAuthClient | null
      readonly refreshToken: string
      /**
       * True if the refresh token came from an authorization in the browser for this connection. When such a connection
       * is revoked, Countersign also revokes the token, unless another connection has the same account.
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
