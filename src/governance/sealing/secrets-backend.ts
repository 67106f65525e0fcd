/** Where credentials of connections are kept. */
export type SecretsBackendName = 'db' | 'aws_secrets_manager'

/** The connection that a credential belongs to. */
export interface SecretOwner {
  readonly organizationId: string
  readonly connectionId: string
}

/** Columns of a connection's row that say where its credential is. */
export interface KeptSecret {
  readonly backend: SecretsBackendName
  readonly credential_sealed: Buffer | null
  /** The version in a backend outside the database; null: the newest. */
  readonly secret_version: string | null
}

/** Keeps the credentials of connections (SECRETS_BACKEND). No message of an error contains a secret or its name. */
export interface Secrets {
  readonly backend: SecretsBackendName
  /** Keeps a text before its row is written. The result belongs into the row. Throws SecretsUnavailable. */
  keep(owner: SecretOwner, text: string): Promise<KeptSecret>
  /**
   * Keeps a text in place of the one that the row names. Until the row names the result, `read` gives the old one. Throws
   * SecretsUnavailable, SecretGone.
   */
  replace(owner: SecretOwner, text: string, old: KeptSecret): Promise<KeptSecret>
  /** The text of a row. Throws SecretsUnavailable, SecretGone. */
  read(owner: SecretOwner, kept: KeptSecret): Promise<string>
  /** Removes what no row names any more; nothing if it is gone. Throws SecretsUnavailable. */
  remove(owner: SecretOwner): Promise<void>
  /** `ok`, or a sentence for the operator, for each right that the service needs. */
  check(): Promise<{ readonly list_secrets: string; readonly get_secret: string }>
  close(): void
}

/** The backend is away or refuses. The same call may work later, and no byte of it has left. */
export class SecretsUnavailable extends Error {
  override readonly name = 'SecretsUnavailable'
}

/** The secret does not exist any more. */
export class SecretGone extends Error {
  override readonly name = 'SecretGone'
}
