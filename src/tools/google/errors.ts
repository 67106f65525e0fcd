import { z } from 'zod'
import { OutgoingError } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { failuresOf, isBroken, type Said, type Sending } from '../kit/exchange.ts'
import { ToolError, type OutcomeUnknown } from '../kit/executor.ts'

export interface Answer {
  readonly status: number
  /** Is undefined if the body is not JSON. */
  readonly json: unknown
  readonly headers: Pick<Headers, 'get'>
}

const limited = 'limited'
const missingScope: Said = [
  'google_missing_scope',
  'the connection lacks a scope: connect Google again, or give the client the scopes of docs/connections.md',
]
const disabled: Said = [
  'google_api_disabled',
  'this API of Google is turned off for the client: let its owner turn it on in the Google Cloud console',
]
const full: Said = [
  'google_storage_full',
  'the Drive has no room: free some, or use a folder of a shared drive',
]

/**
 * The error for each reason that an answer of Google can name. Google's older and newer APIs write these reasons
 * differently. Example: `rateLimitExceeded` and `RATE_LIMIT_EXCEEDED`.
 */
const byReason = new Map<string, Said | typeof limited>([
  ['rateLimitExceeded', limited],
  ['userRateLimitExceeded', limited],
  ['quotaExceeded', limited],
  ['dailyLimitExceeded', limited],
  ['sharingRateLimitExceeded', limited],
  ['RATE_LIMIT_EXCEEDED', limited],
  ['insufficientPermissions', missingScope],
  ['ACCESS_TOKEN_SCOPE_INSUFFICIENT', missingScope],
  ['accessNotConfigured', disabled],
  ['SERVICE_DISABLED', disabled],
  ['storageQuotaExceeded', full],
  ['teamDriveFileLimitExceeded', full],
])

/**
 * Error codes and messages for Google's refusals, by HTTP status. Google did nothing, and would refuse the same request
 * again.
 */
const byStatus: Readonly<Record<number, Said>> = {
  403: [
    'google_forbidden',
    'Google does not let the connected account do this: share the file or calendar with it, with the right to change it if the call does',
  ],
  404: [
    'google_not_found',
    'Google has no such file, folder, sheet or calendar, or the connected account may not see it: give its link or its id, never its name, and share it with the account',
  ],
  410: ['google_gone', 'this was deleted at Google: use another one'],
  413: ['google_too_large', 'this is larger than Google takes: shorten it'],
}

const failures = failuresOf({ prefix: 'google', title: 'Google' })
export const { unreadable } = failures

/** The errors that Google's answer lists. A list is empty if the answer has no valid list in its place. */
const refused = z.object({
  error: z.object({
    errors: z
      .array(z.object({ reason: z.string() }))
      .max(100)
      .catch([]),
    details: z
      .array(z.object({ reason: z.string().optional() }))
      .max(100)
      .catch([]),
  }),
})

function reasonsOf(json: unknown): readonly string[] {
  const { success, data } = refused.safeParse(json)
  return success ? [...data.error.errors, ...data.error.details].map(({ reason }) => reason ?? '') : []
}

/**
 * Converts Google's refusal to the error of the tool. Status 409 says that the thing to be made exists already. Perhaps
 * an earlier attempt of the call has made this thing. So after status 409, the outcome of a request that must not be
 * sent twice is unknown. `expired` makes the error for a refused credential.
 */
export async function refusalOf(
  { status, json, headers }: Answer,
  sending: Sending,
  expired: () => Promise<ToolError>,
): Promise<ToolError | OutcomeUnknown> {
  const cause = new Error(`google: ${status}`)
  const seconds = retryAfterOf(headers)
  if (status === 401) return expired()
  if (status === 429) return failures.limited(cause, seconds)
  if (isBroken(status) || status === 409)
    return failures.broken(sending, `failed (answer ${status})`, cause, seconds)
  if (status < 400) return failures.redirected(cause)
  const said = reasonsOf(json)
    .map((reason) => byReason.get(reason))
    .find((each) => each !== undefined)
  if (said === limited && status === 403) return failures.limited(cause, seconds)
  if (said !== undefined && said !== limited && status === 403) return failures.refused(said, cause)
  return failures.refused(byStatus[status] ?? refusedValues(status), cause)
}

const refusedValues = (status: number): Said => [
  'google_refused',
  `Google does not take these values (answer ${status}): check them`,
]

/** Returns the error of a request without a usable answer. */
export function unansweredOf(error: unknown, sending: Sending): unknown {
  // Google's client wraps an error of our `fetch` in another error, which contains the whole request. Only the inner
  // error is used.
  const inner = (error as { cause?: unknown } | null)?.cause ?? error
  if (inner instanceof OutgoingError) return failures.unanswered(inner, sending)
  if (inner instanceof ToolError) return inner
  return sending === 'once' ? failures.unknown() : inner
}
