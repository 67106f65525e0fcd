/** An authorization server of OAuth. */
export interface TokenServer {
  readonly issuer: string
  readonly authorizationEndpoint: string
  readonly tokenEndpoint: string
  readonly revocationEndpoint: string
  /** Whether the addresses of the server's own description count instead, if it has one. They must be below the issuer. */
  readonly isDescribed: boolean
}

/** A program that an authorization server knows. */
export interface OAuthClient {
  readonly id: string
  readonly secret: string
}

/**
 * How a credential is exchanged for an access token.
 * - `refresh_token`: kept and shared by all processes, since the server may take each refresh token only once.
 * - `service_account`: a signed statement, which each process can make anew.
 */
export type Grant =
  | {
      readonly kind: 'refresh_token'
      readonly server: TokenServer
      /** null: the operator has taken the client away or exchanged it. */
      readonly client: OAuthClient | null
      readonly refreshToken: string
      /** Whether the service revokes the token when the connection is revoked: it was made for this connection alone. */
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

/** What a person's browser is sent to an authorization server with. */
export interface Authorization {
  readonly server: TokenServer
  readonly client: OAuthClient
  readonly scopes: readonly string[]
  /** Parameters of this server alone. */
  readonly parameters: Readonly<Record<string, string>>
}
