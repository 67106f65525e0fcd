import { z } from 'zod'
import { OutgoingError } from '../../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../../shared/outgoing/retry-after.ts'
import { OutcomeUnknown, ToolError } from '../executor.ts'

/** Whether the request may be sent again, or has an effect that must not happen twice. */
export type Sending = 'again' | 'once'

export interface Answer {
  readonly status: number
  /** undefined if the body is no JSON. */
  readonly json: unknown
  readonly headers: Pick<Headers, 'get'>
}

type Said = readonly [code: string, message: string]

const limited: Said = ['google_rate_limited', 'Google takes no more requests of this account now']
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

/** Google's words for the reason of an error, in the form of both its older and its newer APIs. */
const byReason: ReadonlyMap<string, Said> = new Map([
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

/** Error codes and messages for Google's refusals. Google did nothing, and would refuse the same request again. */
const byStatus: Readonly<Record<number, Said>> = {
  403: [
    'google_forbidden',
    'Google does not let the connected account do this: share the file or calendar with it, with the right to change it if the call does',
  ],
  404: [
    'google_not_found',
    'Google has no such file, folder, sheet or calendar, or the connected account may not see it: check the link, and share it with the account',
  ],
  410: ['google_gone', 'this was deleted at Google: use another one'],
  413: ['google_too_large', 'this is larger than Google takes: shorten it'],
}

const asked = ([code, message]: Said, retryable: boolean, cause: unknown, seconds?: number | null) =>
  new ToolError(code, message, { retryable, cause, retryAfterSeconds: seconds ?? null })

const unknown = (): OutcomeUnknown =>
  new OutcomeUnknown('Google did not say whether it carried out the request')

/** The errors that Google's answers list; none if they have another form. */
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
 * The error table of Google's tools. A request that must not be sent twice is `unknown` if it may have been carried out:
 * its answer was lost or cannot be read, Google failed (5xx), or Google has what it makes already (409). `expired` makes
 * the error for a refused credential. Google's own words stay out of messages, because they repeat values.
 */
export async function refusalOf(
  { status, json, headers }: Answer,
  sending: Sending,
  expired: () => Promise<ToolError>,
): Promise<ToolError | OutcomeUnknown> {
  const cause = new Error(`google: ${status}`)
  const seconds = retryAfterOf(headers)
  if (status === 401) return expired()
  if (status === 429) return asked(limited, true, cause, seconds)
  if (status >= 500 || status === 408 || status === 409)
    return sending === 'once'
      ? unknown()
      : asked(['google_unavailable', `Google failed (answer ${status})`], true, cause, seconds)
  if (status < 400) return redirected(cause)
  const said = reasonsOf(json)
    .map((reason) => byReason.get(reason))
    .find((each) => each !== undefined)
  if (said !== undefined && status === 403) return asked(said, said === limited, cause, seconds)
  return asked(byStatus[status] ?? refusedValues(status), false, cause)
}

const refusedValues = (status: number): Said => [
  'google_refused',
  `Google does not take these values (answer ${status}): check them`,
]

const redirected = (cause: Error): ToolError =>
  asked(['google_redirected', `${cause.message}: check \`base_url\` of the connection`], false, cause)

/** For a request without a usable answer. */
export function unansweredOf(error: unknown, sending: Sending): unknown {
  const cause = outgoingOf(error)
  if (cause === null) return sending === 'once' ? unknown() : inner(error)
  const { problem, mayHaveArrived, message } = cause
  // A redirect says that the request must be sent to another place, so it was not carried out.
  if (problem === 'redirect_refused') return redirected(cause)
  if (!mayHaveArrived) return asked(['google_unreachable', message], problem === 'unreachable', cause)
  if (sending === 'once') return unknown()
  if (problem === 'answer_too_large')
    return asked(['response_too_large', `${message}: ask for less`], false, cause)
  return asked(['google_unavailable', message], true, cause)
}

/** Google's client wraps what our `fetch` throws in an error that holds the whole request. */
const inner = (error: unknown): unknown => (error as { cause?: unknown } | null)?.cause ?? error

function outgoingOf(error: unknown): OutgoingError | null {
  const cause = inner(error)
  return cause instanceof OutgoingError ? cause : null
}

/** For an answer of another form than Google documents. */
export const unreadable = (sending: Sending): ToolError | OutcomeUnknown =>
  sending === 'once'
    ? unknown()
    : asked(
        ['google_bad_answer', 'the answer is none of Google: check `base_url` of the connection'],
        false,
        undefined,
      )
