export type SecretsBackendName = 'db' | 'aws_secrets_manager'

export interface SecretOwner {
  readonly organizationId: string
  readonly connectionId: string
}

/** The columns of a connection's row that say where its credential is. */
export interface KeptSecret {
  readonly backend: SecretsBackendName
  readonly credential_sealed: Buffer | null
  /** null means the newest one, only outside the database. */
  readonly secret_version: string | null
}

/** For the credentials of connections (SECRETS_BACKEND). No error names a secret. */
export interface Secrets {
  readonly backend: SecretsBackendName
  /** Call this before the connection's row is written with the result. Throws SecretsUnavailable. */
  keep(owner: SecretOwner, text: string): Promise<KeptSecret>
  /** Until the result is saved in the row, `read` returns the old text. Throws SecretsUnavailable, SecretGone. */
  replace(owner: SecretOwner, text: string, old: KeptSecret): Promise<KeptSecret>
  /** Throws SecretsUnavailable, SecretGone. */
  read(owner: SecretOwner, kept: KeptSecret): Promise<string>
  /** For a secret that no row refers to. Does nothing if it is gone. Throws SecretsUnavailable. */
  remove(owner: SecretOwner): Promise<void>
  /** `ok`, or a sentence for the operator. */
  check(): Promise<{ readonly list_secrets: string; readonly get_secret: string }>
  close(): void
}

/** No answer, or a refusal. The service of the tool has received nothing, and the same call may work later. */
export class SecretsUnavailable extends Error {
  override readonly name = 'SecretsUnavailable'
}

export class SecretGone extends Error {
  override readonly name = 'SecretGone'
}
