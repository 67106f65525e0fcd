import { createHash } from 'node:crypto'
import type { BetterAuthOptions } from 'better-auth'
import type { SessionSecrets } from '../shared/session-secrets.ts'

/**
 * The secrets in the form that the sign-in library takes. The library signs and encrypts with the first of `secrets`.
 * Encrypted values name the version of their secret, so earlier secrets still decrypt them. Older releases of the
 * service stored values without a version; `secret` decrypts these values.
 */
export function sessionKeys({
  sessionSecret,
  oldSessionSecrets,
  firstSessionSecret,
}: SessionSecrets): Required<Pick<BetterAuthOptions, 'secret' | 'secrets'>> {
  const secrets = [sessionSecret, ...oldSessionSecrets].map((value) => ({ version: versionOf(value), value }))
  return { secret: firstSessionSecret, secrets }
}

/** A number that only depends on the secret, so that it stays the same when the order of the secrets changes. */
const versionOf = (secret: string): number =>
  Number.parseInt(createHash('sha256').update(`version of ${secret}`).digest('hex').slice(0, 8), 16)
