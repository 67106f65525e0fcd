import { randomBytes, scrypt } from 'node:crypto'
import type { Insertable } from 'kysely'
import type { AuthAccountsTable } from '../db/schema/identity.ts'

const cost = { N: 16_384, r: 16, p: 1 } as const
const keyLength = 64

/**
 * `saltHex:keyHex` with scrypt over the NFKC form, N=16384, r=16, p=1. The salt is the hex text itself, not the bytes
 * it spells: so does the sign-in library, which reads these.
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

/** The row that a password signs in with, as the sign-in library looks it up. */
export function passwordAccount(userId: string, password: string): Insertable<AuthAccountsTable> {
  return { id: userId, account_id: userId, provider_id: 'credential', user_id: userId, password }
}

/** 24 characters, 144 random bits. */
export function newPassword(): string {
  return randomBytes(18).toString('base64url')
}
