import { createHash } from 'node:crypto'
import type { BetterAuthOptions } from 'better-auth'
import type { SessionSecrets } from '../shared/session-secrets.ts'

/**
 * Returns the secrets in the format of the sign-in library. The library signs and encrypts with the first of `secrets`.
 * An encrypted value names the version of its secret, so the library can still decrypt values of earlier secrets.
 * Without `secret`, the library would look for one in the environment.
 */
export function sessionKeys({
  sessionSecret,
  oldSessionSecrets,
}: SessionSecrets): Required<Pick<BetterAuthOptions, 'secret' | 'secrets'>> {
  const secrets = [sessionSecret, ...oldSessionSecrets].map((value) => ({ version: versionOf(value), value }))
  return { secret: sessionSecret, secrets }
}

/**
 * Returns a number that depends on nothing but the secret. So the version of a secret stays the same when the order of
 * the secrets changes.
 */
const versionOf = (secret: string): number =>
  Number.parseInt(createHash('sha256').update(`version of ${secret}`).digest('hex').slice(0, 8), 16)
