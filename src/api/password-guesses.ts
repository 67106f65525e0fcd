import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Request } from 'express'
import type { Configured } from '../governance/context.ts'
import { returnGuess, takeGuess } from '../governance/people/guesses.ts'
import { publicBase, type Config } from '../shared/config.ts'

/*
 * Marks a browser in which a person has signed in or has reset the password by mail. Its wrong passwords are counted
 * apart, so guesses elsewhere do not lock it out. The cookie gives no access.
 */

const name = 'countersign.known_browser'
const lastsSeconds = 180 * 24 * 3600

/** The random name of this browser; null if the cookie is for another account or has expired. */
function deviceOf(config: Config, request: Request, account: string): string | null {
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

/** The library's codes for a wrong password, a wrong code of the second factor, and an unknown account. */
const wrong = new Set([
  'INVALID_EMAIL_OR_PASSWORD',
  'INVALID_PASSWORD',
  'INVALID_CODE',
  'INVALID_BACKUP_CODE',
])

/**
 * Limits guesses of passwords and codes (docs/decisions/0033): 429 if the account has none left. Only a wrong one costs
 * a guess. This does not look for accounts, so addresses with and without one are treated alike. `userOf` finds a
 * signed-in person who enters the password again.
 */
export async function guarded(
  context: Configured,
  { request, path, body }: { readonly request: Request; readonly path: string; readonly body: unknown },
  userOf: () => Promise<string | null>,
  answer: () => Promise<Response>,
): Promise<{ readonly answer: Response; readonly cookies: string[] }> {
  const account = await accountGuessedAt(body, userOf)
  if (account === null) return { answer: await answer(), cookies: [] }
  const { config, db } = context
  const device = deviceOf(config, request, account)
  const key = createHmac('sha256', config.sessionSecret)
    .update(JSON.stringify(['password guesses', account, device]))
    .digest('hex')
  const wait = await takeGuess(db, key)
  if (wait !== null) return { answer: tooMany(wait), cookies: [] }
  let wasWrong = false
  try {
    const given = await answer()
    wasWrong = await isWrong(given)
    const isIn = given.ok && path.split('?', 1)[0] === '/api/auth/sign-in/email'
    return { answer: given, cookies: isIn ? [deviceCookie(config, account)] : [] }
  } finally {
    if (!wasWrong) await returnGuess(db, key)
  }
}

export const accountOf = (email: string): string => `email ${email.toLowerCase()}`

/** The account whose password or code is tried. Every endpoint that checks one reads one of these fields. */
async function accountGuessedAt(body: unknown, userOf: () => Promise<string | null>): Promise<string | null> {
  const { email, password, currentPassword, code } = Object(body) as Record<string, unknown>
  // After the sign-in, the library would allow any number of guesses of codes.
  if (typeof code === 'string') {
    const userId = await userOf()
    return userId === null ? null : `factor ${userId}`
  }
  if (typeof password !== 'string' && typeof currentPassword !== 'string') return null
  if (typeof email === 'string') return accountOf(email)
  const userId = await userOf()
  return userId === null ? null : `user ${userId}`
}

async function isWrong(answer: Response): Promise<boolean> {
  if (answer.status !== 400 && answer.status !== 401) return false
  const text = await answer.clone().text()
  const code = /"code":"(\w+)"/.exec(text)?.[1]
  return code !== undefined && wrong.has(code)
}

/** In the format of the library's answers. */
function tooMany(seconds: number): Response {
  const message =
    'too many wrong passwords or codes for this account: try again later, or set a new password by mail'
  return Response.json(
    { code: 'TOO_MANY_WRONG_PASSWORDS', message },
    { status: 429, headers: { 'X-Retry-After': String(seconds) } },
  )
}
