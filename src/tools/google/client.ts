import { z } from 'zod'
import { fileIdOf } from '../../policy/readers/google-links.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import type { Fetch } from '../../shared/outgoing/outgoing.ts'
import type { ToolName } from '../index.ts'
import { boundsOf, Failures, isBroken, jsonOf, type Said, type Sending } from '../kit/exchange.ts'
import {
  invalidParams,
  ToolError,
  type Calling,
  type OutcomeUnknown,
  type ReadContext,
} from '../kit/executor.ts'
import { apiAddress, type GoogleApi } from './connect.ts'

interface RequestOptions {
  readonly rootUrl: string
  readonly headers: Readonly<Record<string, string>>
  readonly fetchImplementation: Fetch
  readonly retry: false
  readonly responseType: 'text'
  readonly validateStatus: () => true
  readonly universeDomain: string
}

interface Sent {
  readonly status: number
  readonly data: unknown
  readonly headers: unknown
}

type Exchange = <Form extends z.ZodType>(
  api: GoogleApi,
  form: Form,
  send: (options: RequestOptions) => Promise<Sent>,
) => Promise<z.output<Form>>

/** With the connection of one call. Answers are checked; errors are those of the table below. */
export interface Google {
  /** Null if Google does not name it. */
  readonly account: string | null
  readonly read: Exchange
  /** After the point of no return. A cancellation does not stop it. */
  readonly write: Exchange
}

/** Google's clients send with our `fetch`, and repeat no request by themselves. */
export async function googleOf(call: Calling, context: ReadContext, tool: ToolName): Promise<Google> {
  const connection = await context.tools.connection(call, tool, 'google')
  const { authorization = '' } = connection.headers
  const exchange =
    (sending: Sending, signal: AbortSignal | null): Exchange =>
    async (api, form, send) => {
      const answer = await answered(send, sending, {
        rootUrl: apiAddress(connection.base, api),
        headers: { authorization, accept: 'application/json' },
        fetchImplementation: connection.fetchWithin(boundsOf(sending, connection, signal)),
        retry: false,
        responseType: 'text',
        validateStatus: () => true,
        universeDomain: 'googleapis.com',
      })
      if (answer.status < 200 || answer.status > 299)
        throw await refusalOf(answer, sending, () => connection.expired())
      const parsed = form.safeParse(answer.json)
      if (parsed.success) return parsed.data
      throw failures.unreadable(sending)
    }
  return {
    account: connection.account,
    read: exchange('again', context.signal),
    write: exchange('once', null),
  }
}

async function answered(
  send: (options: RequestOptions) => Promise<Sent>,
  sending: Sending,
  options: RequestOptions,
): Promise<Answer> {
  let sent: Sent
  try {
    sent = await send(options)
  } catch (error) {
    // Google's client wraps the error of our `fetch` in one that contains the whole request.
    throw failures.thrown((error as { cause?: unknown } | null)?.cause ?? error, sending)
  }
  const headers = sent.headers as Readonly<Record<string, string | undefined>>
  return { status: sent.status, json: jsonOf(sent.data), headers: { get: (name) => headers[name] ?? null } }
}

interface Answer {
  readonly status: number
  /** Undefined if the body is not JSON. */
  readonly json: unknown
  readonly headers: Pick<Headers, 'get'>
}

const limited = 'limited'
const missingScope: Said = [
  'google_missing_scope',
  'the connection lacks a scope: connect Google again, or give the client the scopes of docs/google.md',
]
const disabled: Said = [
  'google_api_disabled',
  'this API of Google is turned off for the client: let its owner turn it on in the Google Cloud console',
]
const full: Said = [
  'google_storage_full',
  'the Drive has no room: free some, or use a folder of a shared drive',
]

/** Older and newer APIs write reasons differently: `rateLimitExceeded`, `RATE_LIMIT_EXCEEDED`. */
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

/** Google did nothing, and would refuse the same request again. */
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

export const failures = new Failures({ prefix: 'google', title: 'Google', refusals: byStatus })

/** Empty if the answer has no valid list in its place. */
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

/** 409: the thing exists, perhaps from an earlier attempt. `expired` makes the error for a refused credential. */
async function refusalOf(
  { status, json, headers }: Answer,
  sending: Sending,
  expired: () => Promise<ToolError>,
): Promise<ToolError | OutcomeUnknown> {
  const cause = new Error(`google: ${status}`)
  const seconds = retryAfterOf(headers)
  if (status === 409) return failures.broken(sending, `failed (answer ${status})`, cause, seconds)
  if (status < 400) return failures.redirected(cause)
  const known = status === 403 ? reasonsOf(json).map((reason) => byReason.get(reason)) : []
  const reason = known.find((each) => each !== undefined)
  if (reason === limited) return failures.limited(cause, seconds)
  const isOther = status !== 401 && status !== 429 && !isBroken(status) && byStatus[status] === undefined
  const said = reason ?? (isOther ? refusedValues(status) : undefined)
  return failures.byStatus({ status, sending, seconds, said, expired })
}

const refusedValues = (status: number): Said => [
  'google_refused',
  `Google does not take these values (answer ${status}): check them`,
]

/** As rules read a link or an id, with white space around it. Throws `invalid_params` for any other text. */
export function fileIdAt(param: string, text: string): string {
  const id = fileIdOf(text)
  if (id !== null) return id
  throw invalidParams(
    `\`${param}\` must be a link to a file in Google Drive, Docs, Sheets or Slides, or its id`,
  )
}
