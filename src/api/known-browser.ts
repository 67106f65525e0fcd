import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Request } from 'express'
import { publicBase, type Config } from '../config.ts'

/*
 * A cookie that tells a browser in which a person has signed in from all others: whoever guesses at their password
 * elsewhere uses up nothing of theirs. It opens nothing.
 */

const name = 'countersign.known_browser'
const lastsSeconds = 180 * 24 * 3600

/** The browser's own name, where its cookie is for this account and not over its time; else null. */
export function knownBrowser(config: Config, request: Request, account: string): string | null {
  for (const pair of (request.headers.cookie ?? '').split(';')) {
    const [given, value = ''] = pair.trim().split('=', 2)
    if (given !== name) continue
    const [browser = '', until = '', signature = ''] = value.split('.')
    const right = sign(config, account, browser, until)
    if (signature.length !== right.length || !timingSafeEqual(Buffer.from(signature), Buffer.from(right)))
      continue
    if (Number(until) > Date.now() / 1_000) return browser
  }
  return null
}

/** The `Set-Cookie` line for a browser whose person has just shown who they are. */
export function knownBrowserCookie(config: Config, account: string): string {
  const browser = randomBytes(16).toString('base64url')
  const until = String(Math.floor(Date.now() / 1_000) + lastsSeconds)
  const value = `${browser}.${until}.${sign(config, account, browser, until)}`
  const secure = publicBase(config).startsWith('https:') ? '; Secure' : ''
  return `${name}=${value}; Max-Age=${lastsSeconds}; Path=/api/auth; HttpOnly; SameSite=Lax${secure}`
}

function sign(config: Config, ...parts: readonly string[]): string {
  return createHmac('sha256', config.sessionSecret)
    .update(JSON.stringify(['known browser', ...parts]))
    .digest('base64url')
}
