import { randomBytes, scrypt } from 'node:crypto'
import type { Insertable } from 'kysely'
import type { AuthAccountsTable } from '../../db/schema/identity.ts'

const cost = { N: 16_384, r: 16, p: 1 } as const
const keyLength = 64

/**
 * Returns `saltHex:keyHex`. The key is made by scrypt (N=16384, r=16, p=1) from the password in NFKC form. The salt for
 * scrypt is the hex text itself, not the bytes that it encodes, because the sign-in library expects this.
 */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16).toString('hex')
  const key = await new Promise<Buffer>((resolve, reject) => {
    scrypt(
      password.normalize('NFKC'),
      salt,
      keyLength,
      { ...cost, maxmem: 256 * cost.N * cost.r },
      (error, derived) => (error === null ? resolve(derived) : reject(error)),
    )
  })
  return `${salt}:${key.toString('hex')}`
}

/**
 * Returns an account row with the values that the sign-in library expects. `password` is the result of `hashPassword`.
 */
export function passwordAccount(userId: string, password: string): Insertable<AuthAccountsTable> {
  return { id: userId, account_id: userId, provider_id: 'credential', user_id: userId, password }
}

/** Returns a new password: 24 characters that encode 144 random bits. */
export function newPassword(): string {
  return randomBytes(18).toString('base64url')
}
