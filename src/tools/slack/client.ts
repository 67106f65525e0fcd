import type { FetchFunction, WebClient } from '@slack/web-api'
import type { z } from 'zod'
import { OutgoingError, type Fetch } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import type { ToolName } from '../index.ts'
import { boundsOf, Failures, isBroken, type Said, type Sending } from '../kit/exchange.ts'
import { ToolError, type Calling, type ReadContext, type ServiceConnection } from '../kit/executor.ts'

type Exchange = <Form extends z.ZodType>(
  form: Form,
  send: (client: WebClient) => Promise<unknown>,
) => Promise<z.output<Form>>

/**
 * Sends requests to Slack with the connection of one call. Each function returns the checked answer, or throws an error
 * of the table below.
 */
export interface Slack {
  /** Sends a request that may be sent any number of times. */
  readonly read: Exchange
  /**
   * Completes an effect with a request that may be sent any number of times. A cancellation does not stop the request.
   */
  readonly complete: Exchange
  /**
   * Sends a request that has an effect. Call this only after the point of no return. A cancellation does not stop the
   * request.
   */
  readonly write: Exchange
}

export async function slackOf(call: Calling, context: ReadContext, tool: ToolName): Promise<Slack> {
  return slackAt(await context.tools.connection(call, tool, 'slack'), context.signal)
}

/**
 * Makes `Slack` with this connection. `ends` cancels only the requests of `read`. If `ends` is null, nothing cancels
 * them.
 */
export function slackAt(connection: ServiceConnection<'slack'>, ends: AbortSignal | null): Slack {
  const exchange =
    (sending: Sending, signal: AbortSignal | null): Exchange =>
    async (form, send) => {
      const exchanged: Exchanged = { retryAfterSeconds: null }
      try {
        const fetch = connection.fetchWithin(boundsOf(sending, connection, signal))
        const parsed = form.safeParse(await send(await clientOf(connection, fetch, exchanged)))
        if (parsed.success) return parsed.data
      } catch (error) {
        throw await errorOf(error, sending, exchanged, () => connection.expired())
      }
      throw failures.unreadable(sending)
    }
  return {
    read: exchange('again', ends),
    complete: exchange('again', null),
    write: exchange('once', null),
  }
}

/** Makes a client for one request. The client does not repeat the request by itself. The first request loads Slack's library. */
async function clientOf(
  connection: ServiceConnection<'slack'>,
  send: Fetch,
  exchanged: Exchanged,
): Promise<WebClient> {
  const { LogLevel, WebClient } = await import('@slack/web-api')
  const { authorization = '' } = connection.headers
  return new WebClient(undefined, {
    slackApiUrl: connection.base,
    allowAbsoluteUrls: false,
    headers: { Authorization: authorization, 'User-Agent': 'countersign' },
    fetch: plainFetch(send, exchanged),
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
    logger: { ...silent, getLevel: () => LogLevel.ERROR },
  })
}

/**
 * The client library gets the text of an answer and none of its headers. Otherwise the library would unpack gzip
 * answers without a limit, and would read `Retry-After` by its own rules.
 */
function plainFetch(send: Fetch, exchanged: Exchanged) {
  const plain: FetchFunction = async (url, init) => {
    const answer = await send(url, init)
    exchanged.retryAfterSeconds = retryAfterOf(answer.headers)
    if (answer.status !== 200) throw new HttpFailure(answer.status)
    return new Response(await answer.text())
  }
  return plain
}

/** Replaces the client's logger, which would write parameters and answers to the console. */
const ignore = (): void => {}
const silent = {
  debug: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
  setLevel: ignore,
  setName: ignore,
}

/** Facts about one request that the parsed answer does not contain. */
interface Exchanged {
  /** Seconds that Slack asks to wait. Is null if Slack does not say this. */
  retryAfterSeconds: number | null
}

/** An answer whose status is not 200. Slack answers nearly everything with status 200. */
class HttpFailure extends Error {
  override readonly name = 'HttpFailure'
  readonly status: number
  constructor(status: number) {
    super(`slack: ${status}`)
    this.status = status
  }
}

/** Slack's codes for a credential that Slack does not accept, or no longer accepts. */
const refusedCredential: ReadonlySet<string> = new Set([
  'invalid_auth',
  'not_authed',
  'token_revoked',
  'token_expired',
  'account_inactive',
  'user_removed_from_team',
])

const limited: ReadonlySet<string> = new Set(['ratelimited', 'rate_limited'])

/** Slack's codes for a request that Slack has not begun. The same request can succeed later. */
const notBegun: ReadonlySet<string> = new Set(['request_timeout', 'team_added_to_org', 'org_login_required'])

/** Slack's codes for a request that may have been carried out in part, as Slack documents. */
const inDoubt: ReadonlySet<string> = new Set(['internal_error', 'fatal_error', 'service_unavailable'])

/** Our codes and messages for Slack's refusals. Slack did nothing, and would refuse the same request again. */
const refusals: readonly (readonly [Said, ...(readonly string[])])[] = [
  [
    [
      'slack_missing_scope',
      'the connected token lacks a scope: add the scopes of docs/connections.md to the app, install it again and connect the new token',
    ],
    'missing_scope',
    'no_permission',
    'not_allowed_token_type',
  ],
  [
    [
      'slack_forbidden',
      'Slack does not let the connected account do this: ask an administrator of the workspace for this right',
    ],
    'access_denied',
    'restricted_action',
    'restricted_action_read_only_channel',
    'restricted_action_thread_only_channel',
    'restricted_action_non_threadable_channel',
    'restricted_action_thread_locked',
    'user_is_restricted',
    'user_is_ultra_restricted',
    'team_access_not_granted',
    'ekm_access_denied',
    'cant_invite',
    'not_authorized',
  ],
  [
    [
      'slack_not_found',
      'Slack has no such channel, or the connected account may not see it: check the channel, and invite the app to it if it is private',
    ],
    'channel_not_found',
  ],
  [
    [
      'slack_not_in_channel',
      'the connected account is not in the channel: invite the app with `/invite`, or give it the scope `chat:write.public`',
    ],
    'not_in_channel',
  ],
  [['slack_archived', 'the channel is archived: use another one'], 'is_archived'],
  [
    ['slack_thread_not_found', '`thread_ts` names no message of the channel: give the `ts` of one'],
    'thread_not_found',
    'message_not_found',
    'cannot_reply_to_message',
  ],
  [['slack_text_refused', 'Slack does not take the text: it must not be empty, and must be shorter'], 'no_text', 'msg_too_long'], // prettier-ignore
  [
    ['slack_name_taken', 'a channel of this name exists, perhaps an archived one: choose another name'],
    'name_taken',
  ],
  [
    ['slack_name_refused', 'Slack does not take this name: use lower-case letters, digits, `-` and `_`'],
    'invalid_name',
    'invalid_name_required',
    'invalid_name_punctuation',
    'invalid_name_maxlength',
    'invalid_name_specials',
    'no_channel',
  ],
  [
    [
      'slack_user_not_found',
      'Slack has no such person, or the app may not write to them: link the right account, or name another person',
    ],
    'user_not_found',
    'users_not_found',
    'user_not_visible',
    'user_disabled',
    'users_list_not_supplied',
    'cannot_dm_bot',
    'messages_tab_disabled',
  ],
]

const refusalOf: ReadonlyMap<string, Said> = new Map(
  refusals.flatMap(([said, ...codes]) => codes.map((code) => [code, said] as const)),
)

/** An error with Slack's code, for the few callers that read this code. */
export class SlackRefusal extends ToolError {
  readonly slackCode: string
  constructor(slackCode: string, [code, message]: Said) {
    // An unknown code may repeat a value of the call. So people see the code only in `detail`, which is sealed.
    const detail = refusalOf.has(slackCode) ? {} : { detail: { slack_error: slackCode.slice(0, 200) } }
    super(code, message, { ...detail })
    this.slackCode = slackCode
  }
}

const failures = new Failures({ prefix: 'slack', title: 'Slack' })

/** The end of a message that begins with `Slack`. */
const notNow = 'could not carry out the request now'

/** Converts the error of a request to the error of the tool. `expired` makes the error for a refused credential. */
async function errorOf(
  error: unknown,
  sending: Sending,
  { retryAfterSeconds: seconds }: Exchanged,
  expired: () => Promise<ToolError>,
): Promise<unknown> {
  // A request has loaded the library.
  const { WebAPIPlatformError, WebAPIRequestError } = await import('@slack/web-api')
  if (error instanceof WebAPIPlatformError) {
    const { error: code } = error.data
    // If an answer is not JSON, the client library returns the text of the answer as the code.
    if (typeof code !== 'string' || !/^\w{1,100}$/.test(code)) return failures.unreadable(sending)
    if (refusedCredential.has(code)) return expired()
    if (limited.has(code)) return failures.limited(undefined, seconds)
    if (notBegun.has(code)) return failures.broken('again', notNow, undefined, seconds)
    if (inDoubt.has(code)) return failures.broken(sending, notNow, undefined, seconds)
    return new SlackRefusal(code, refusalOf.get(code) ?? ['slack_refused', 'Slack refused the request'])
  }
  const cause = error instanceof WebAPIRequestError ? error.original : error
  if (cause instanceof OutgoingError) return failures.unanswered(cause, sending)
  if (cause instanceof ToolError) return cause
  if (cause instanceof HttpFailure) return byStatus(cause, sending, seconds)
  // Only two cases are left: the call was cancelled, or the answer had a shape that Slack's library cannot read.
  if (sending === 'once') return failures.unknown()
  return error instanceof WebAPIRequestError ? cause : failures.unreadable(sending)
}

function byStatus(cause: HttpFailure, sending: Sending, seconds: number | null): Error {
  const { status } = cause
  if (status === 429) return failures.limited(undefined, seconds)
  if (isBroken(status)) return failures.broken(sending, notNow, cause, seconds)
  const message = `Slack refused the request (answer ${status}): check \`base_url\` of the connection`
  return failures.refused(['slack_refused', message], cause)
}
