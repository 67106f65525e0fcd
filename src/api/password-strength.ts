import type { ZxcvbnFactory } from '@zxcvbn-ts/core'
import { APIError } from 'better-auth/api'

/* A new password must not be one that a guesser tries first: a usual one, a date, a row of keys, or the person's name. */

/** Which field of a request has a new password. */
const fields: Readonly<Record<string, string>> = {
  '/sign-up/email': 'password',
  '/reset-password': 'newPassword',
  '/change-password': 'newPassword',
}

/** Characters. Looking at a longer text takes longer, and such a password is long enough. */
const mostRead = 64
/** From 0 to 4. One of 2 takes about a million guesses or more. */
const leastScore = 2

let judge: Promise<ZxcvbnFactory> | null = null

/** Its lists of words take 60 ms to load, and a process that gets no new password needs none. */
async function load(): Promise<ZxcvbnFactory> {
  const [{ ZxcvbnFactory: Judge }, { dictionary, adjacencyGraphs: graphs }] = await Promise.all([
    import('@zxcvbn-ts/core'),
    import('@zxcvbn-ts/language-common'),
  ])
  return new Judge({ dictionary, graphs })
}

/** What is too short or too long, the sign-in library refuses. */
export async function requireHardToGuess(
  path: string,
  body: Readonly<Record<string, unknown>>,
): Promise<void> {
  const password = body[fields[path] ?? '']
  if (typeof password !== 'string' || password.length < 8) return
  const own = [body['name'], body['email']].filter((each) => typeof each === 'string')
  judge ??= load()
  const words = ['countersign', ...own.flatMap((each) => each.slice(0, 300).split(/[^\p{L}\p{N}]+/u))]
  if ((await judge).check(password.slice(0, mostRead), words).score >= leastScore) return
  throw new APIError('BAD_REQUEST', {
    code: 'PASSWORD_TOO_EASY',
    message:
      'this password is easy to guess: take a longer one, such as four words that do not belong together',
  })
}
