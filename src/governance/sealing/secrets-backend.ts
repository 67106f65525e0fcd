/** The backend that stores the credentials of connections. */
export type SecretsBackendName = 'db' | 'aws_secrets_manager'

/** The connection that a credential belongs to. */
export interface SecretOwner {
  readonly organizationId: string
  readonly connectionId: string
}

/** The columns of a connection's row that say where the connection's credential is stored. */
export interface KeptSecret {
  readonly backend: SecretsBackendName
  readonly credential_sealed: Buffer | null
  /** The version of the secret. Null means the newest version, and is only for a backend outside the database. */
  readonly secret_version: string | null
}

/**
 * Stores the credentials of connections (SECRETS_BACKEND). No error message contains a secret or the name of a secret.
 */
export interface Secrets {
  readonly backend: SecretsBackendName
  /**
   * Stores a credential. Call this before you write the connection's row, and save the result in that row. Throws
   * SecretsUnavailable.
   */
  keep(owner: SecretOwner, text: string): Promise<KeptSecret>
  /**
   * Stores a text that replaces the secret of `old`. Until the result is saved in the connection's row, `read` returns
   * the old text. Throws SecretsUnavailable, SecretGone.
   */
  replace(owner: SecretOwner, text: string, old: KeptSecret): Promise<KeptSecret>
  /** Returns the text that the connection's row refers to. Throws SecretsUnavailable, SecretGone. */
  read(owner: SecretOwner, kept: KeptSecret): Promise<string>
  /**
   * Removes a secret to which no row refers any more. Does nothing if the secret is gone. Throws SecretsUnavailable.
   */
  remove(owner: SecretOwner): Promise<void>
  /**
   * Checks whether the service can list secrets and read a secret. Each answer is `ok`, or a sentence that tells the
   * operator what is wrong.
   */
  check(): Promise<{ readonly list_secrets: string; readonly get_secret: string }>
  close(): void
}

/**
 * The backend refused the request or did not answer. The service that a tool calls has received nothing, and the same
 * call may work later.
 */
export class SecretsUnavailable extends Error {
  override readonly name = 'SecretsUnavailable'
}

/** The secret does not exist any more. */
export class SecretGone extends Error {
  override readonly name = 'SecretGone'
}
