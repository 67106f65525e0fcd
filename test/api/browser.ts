import { createHmac } from 'node:crypto'
import type { TestServer } from './server.ts'

/** A person's browser. It stores cookies, and sends the origin of the service. */
export class Browser {
  readonly #server: TestServer
  readonly #cookies = new Map<string, string>()

  constructor(server: TestServer) {
    this.#server = server
  }

  get cookie(): string {
    return [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  }

  /** Sends a request to any path. Answers of published routes are checked against their schema. */
  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const mine = { origin: this.#server.base, ...(this.cookie === '' ? {} : { cookie: this.cookie }) }
    const answer = await this.#server.call(null, method, path, body, { ...mine, ...headers })
    for (const line of answer.headers.getSetCookie()) {
      const [pair = ''] = line.split(';', 1)
      const name = pair.slice(0, pair.indexOf('='))
      if (/max-age=0(;|$)/i.test(line)) this.#cookies.delete(name)
      else this.#cookies.set(name, pair.slice(name.length + 1))
    }
    return answer
  }

  auth(path: string, body: unknown, headers?: Record<string, string>) {
    return this.send('POST', `/api/auth/${path}`, body, headers)
  }

  signIn(email: string, password: string) {
    return this.auth('sign-in/email', { email, password })
  }

  /** Enrols a second factor; returns its secret and backup codes. */
  async enrol(password: string): Promise<{ key: string; backupCodes: string[] }> {
    const { body } = await this.auth('two-factor/enable', { password })
    const key = new URL(body.totpURI).searchParams.get('secret') as string
    const verified = await this.auth('two-factor/verify-totp', { code: totp(key) })
    if (verified.status !== 200) throw new Error(`not enrolled: ${verified.text}`)
    return { key, backupCodes: body.backupCodes }
  }
}

/** The code that an authenticator app shows for a base32 secret (RFC 6238: SHA-1, 30 s, 6 digits). */
export function totp(key: string, at = Date.now()): string {
  const bits = key
    .replaceAll('=', '')
    .split('')
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('')
  const secret = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)))
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30_000)))
  const digest = createHmac('sha1', secret).update(counter).digest()
  const offset = (digest.at(-1) as number) & 15
  return String((digest.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, '0')
}
