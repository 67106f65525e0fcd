import { createHmac } from 'node:crypto'
import type { Request } from 'express'
import type { Context } from '../context.ts'
import { returnGuess, takeGuess } from '../governance/people/guesses.ts'
import { knownBrowser, knownBrowserCookie } from './known-browser.ts'

/** What the sign-in library answers to a password or code that is not the account's, and to an account that there is not. */
const wrong = new Set([
  'INVALID_EMAIL_OR_PASSWORD',
  'INVALID_PASSWORD',
  'INVALID_CODE',
  'INVALID_BACKUP_CODE',
])

/**
 * Lets `answer` look at the password in a request, or at the code with which a session proves its person's second factor, if its account has a guess left (docs/decisions/0033); else answers 429.
 * A right password costs nothing. Of an address without an account all is the same: nothing here asks whether there is one.
 * `userOf` says who is signed in, for passwords that a session repeats. Answers the cookies to set, too.
 */
export async function guarded(
  context: Context,
  request: Request,
  body: unknown,
  userOf: (request: Request) => Promise<string | null>,
  answer: () => Promise<Response>,
): Promise<{ readonly answer: Response; readonly cookies: string[] }> {
  const account = await accountGuessedAt(request, body, userOf)
  if (account === null) return { answer: await answer(), cookies: [] }
  const { config, db } = context
  const browser = knownBrowser(config, request, account)
  const key = createHmac('sha256', config.sessionSecret)
    .update(JSON.stringify(['password guesses', account, browser]))
    .digest('hex')
  const wait = await takeGuess(db, key)
  if (wait !== null) return { answer: tooMany(wait), cookies: [] }
  let wasWrong = false
  try {
    const given = await answer()
    wasWrong = await isWrong(given)
    const isIn = given.ok && request.path === '/api/auth/sign-in/email'
    return { answer: given, cookies: isIn ? [knownBrowserCookie(config, account)] : [] }
  } finally {
    if (!wasWrong) await returnGuess(db, key)
  }
}

export const accountOf = (email: string): string => `email ${email.toLowerCase()}`

/** Whatever the path: every endpoint that looks at a password has it in one of these fields. */
async function accountGuessedAt(
  request: Request,
  body: unknown,
  userOf: (request: Request) => Promise<string | null>,
): Promise<string | null> {
  const { email, password, currentPassword, code } = Object(body) as Record<string, unknown>
  // The library counts codes of those who sign in; of a session it would take any number.
  if (typeof code === 'string') {
    const userId = await userOf(request)
    return userId === null ? null : `factor ${userId}`
  }
  if (typeof password !== 'string' && typeof currentPassword !== 'string') return null
  if (typeof email === 'string') return accountOf(email)
  const userId = await userOf(request)
  return userId === null ? null : `user ${userId}`
}

async function isWrong(answer: Response): Promise<boolean> {
  if (answer.status !== 400 && answer.status !== 401) return false
  const text = await answer.clone().text()
  const code = /"code":"(\w+)"/.exec(text)?.[1]
  return code !== undefined && wrong.has(code)
}

/** In the library's form. */
function tooMany(seconds: number): Response {
  const message =
    'too many wrong passwords or codes for this account: try again later, or set a new password by mail'
  return Response.json(
    { code: 'TOO_MANY_WRONG_PASSWORDS', message },
    { status: 429, headers: { 'X-Retry-After': String(seconds) } },
  )
}
