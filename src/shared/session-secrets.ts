import { hkdfSync } from 'node:crypto'

export interface SessionSecrets {
  /** Signs cookies and mailed tokens, and encrypts the secrets of second factors. The same in all processes. */
  readonly sessionSecret: string
  /** Newest first. They only decrypt the secrets of second factors. */
  readonly oldSessionSecrets: readonly string[]
}

/**
 * Without SESSION_SECRET_KEY (`current`), the secret is derived from the encryption key, which all processes share, so
 * they accept each other's cookies. Once it is set, derived secrets count as earlier ones. `old` is newest first;
 * `encryptionKeys` begin with the present one.
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
