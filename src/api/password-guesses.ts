import { createHmac } from 'node:crypto'
import type { Request } from 'express'
import type { Context } from '../governance/context.ts'
import { returnGuess, takeGuess } from '../governance/people/guesses.ts'
import { deviceOf, deviceCookie } from './device-cookie.ts'

/** The library's error codes for a wrong password, a wrong code of the second factor, and an unknown account. */
const wrong = new Set([
  'INVALID_EMAIL_OR_PASSWORD',
  'INVALID_PASSWORD',
  'INVALID_CODE',
  'INVALID_BACKUP_CODE',
])

/**
 * Limits guesses of passwords and of codes of the second factor (docs/decisions/0033). If the account has a guess left,
 * runs `answer`, which checks the password or code. Otherwise the answer is 429. Only a wrong password or code costs a
 * guess. This function does not look for accounts, so addresses with and without an account are treated alike. At some
 * endpoints a signed-in person enters the password again. For these endpoints, `userOf` finds the person. Returns the
 * answer, and the cookies to set with it.
 */
export async function guarded(
  context: Pick<Context, 'config' | 'db'>,
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

/**
 * Returns the account whose password or code the request tries. Returns null if the request tries none, or if the
 * account is not known. The fields below are enough, because every endpoint that checks a password or code reads one of
 * these fields.
 */
async function accountGuessedAt(body: unknown, userOf: () => Promise<string | null>): Promise<string | null> {
  const { email, password, currentPassword, code } = Object(body) as Record<string, unknown>
  // The library limits guesses of codes only during a sign-in. After the sign-in it would allow any number of guesses.
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

/** Returns an answer with status 429, in the format of the library's answers. */
function tooMany(seconds: number): Response {
  const message =
    'too many wrong passwords or codes for this account: try again later, or set a new password by mail'
  return Response.json(
    { code: 'TOO_MANY_WRONG_PASSWORDS', message },
    { status: 429, headers: { 'X-Retry-After': String(seconds) } },
  )
}
