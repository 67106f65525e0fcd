import { hkdfSync } from 'node:crypto'

export interface SessionSecrets {
  /**
   * The service signs cookies and mailed tokens with this value, and encrypts the secrets of second factors with it.
   * All processes must have the same value.
   */
  readonly sessionSecret: string
  /** Earlier values of `sessionSecret`, newest first. They only decrypt the secrets of second factors. */
  readonly oldSessionSecrets: readonly string[]
}

/**
 * Reads the session secrets. An installation without SESSION_SECRET_KEY has a secret that is derived from its
 * encryption key, which all processes share. So the processes accept each other's cookies. If SESSION_SECRET_KEY is set
 * later, the derived secrets count as earlier ones.
 * @param current the value of SESSION_SECRET_KEY
 * @param old the values in SESSION_SECRET_KEY_OLD, newest first
 * @param encryptionKeys the present encryption key, and then the earlier ones
 */
export function sessionSecrets(
  current: string | undefined,
  old: readonly string[],
  encryptionKeys: readonly [Buffer, ...Buffer[]],
): SessionSecrets {
  const derived = encryptionKeys.map(derivedSecret) as [string, ...string[]]
  const sessionSecret = current ?? derived[0]
  const all = new Set([...old, ...derived])
  all.delete(sessionSecret)
  return { sessionSecret, oldSessionSecrets: [...all] }
}

function derivedSecret(key: Buffer): string {
  return Buffer.from(hkdfSync('sha256', key, '', 'countersign session secret', 32)).toString('base64url')
}
