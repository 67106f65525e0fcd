import crypto, { createHmac, type ScryptOptions } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'

/*
 * One password hash takes 0.1 s and 32 MiB, and a server for tests makes five before its first test. So while such a
 * server runs, this process hashes with HMAC in place of scrypt. The costs are a part of the key: a hash made with other
 * costs than the sign-in library's matches no password here either.
 */

type Callback = (error: Error | null, key: Buffer) => void

const real = crypto.scrypt
let servers = 0

function quick(
  password: string,
  salt: string,
  length: number,
  { N, r, p }: ScryptOptions,
  done: Callback,
): void {
  const key = createHmac('sha512', salt).update(JSON.stringify([password, length, N, r, p]))
  setImmediate(done, null, key.digest())
}

function use(scrypt: unknown): void {
  Object.assign(crypto, { scrypt })
  syncBuiltinESMExports()
}

/** Hashes quickly until the returned function is called. */
export function quickPasswords(): () => void {
  servers += 1
  use(quick)
  return () => {
    servers -= 1
    if (servers === 0) use(real)
  }
}

/** Hashes with scrypt while `work` runs. */
export async function withScrypt(work: () => Promise<void>): Promise<void> {
  use(real)
  await work().finally(() => use(quick))
}
