import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Request } from 'express'
import { publicBase, type Config } from '../shared/config.ts'

/*
 * A cookie that marks a browser in which a person has signed in or has reset the password by mail. Wrong passwords in
 * this browser are counted apart, so guesses in other browsers do not lock this browser out. The cookie gives no
 * access.
 */

const name = 'countersign.known_browser'
const lastsSeconds = 180 * 24 * 3600

/**
 * Returns the random name that the cookie gives this browser. Returns null if the cookie is for another account or has
 * expired.
 */
export function deviceOf(config: Config, request: Request, account: string): string | null {
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

/**
 * Returns the `Set-Cookie` line for a browser in which a person has just signed in or has reset the password by mail.
 */
export function deviceCookie(config: Config, account: string): string {
  const browser = randomBytes(16).toString('base64url')
  const until = String(Math.floor(Date.now() / 1_000) + lastsSeconds)
  const value = `${browser}.${until}.${sign(config, account, browser, until)}`
  const secure = publicBase(config).startsWith('https:') ? '; Secure' : ''
  return `${name}=${value}; Max-Age=${lastsSeconds}; Path=/; HttpOnly; SameSite=Lax${secure}`
}

function sign(config: Config, ...parts: readonly string[]): string {
  return createHmac('sha256', config.sessionSecret)
    .update(JSON.stringify(['known browser', ...parts]))
    .digest('base64url')
}
