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

/** With the connection of one call. Answers are checked; errors are those of the table below. */
export interface Slack {
  /** May be sent any number of times. */
  readonly read: Exchange
  /** Completes an effect, any number of times. A cancellation does not stop it. */
  readonly complete: Exchange
  /** Only after the point of no return. A cancellation does not stop it. */
  readonly write: Exchange
}

export async function slackOf(call: Calling, context: ReadContext, tool: ToolName): Promise<Slack> {
  return slackAt(await context.tools.connection(call, tool, 'slack'), context.signal)
}

/** `ends` cancels only `read`; null: nothing. */
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
  return { read: exchange('again', ends), complete: exchange('again', null), write: exchange('once', null) }
}

/** Repeats nothing by itself. The first request loads Slack's library. */
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

/** Without headers: the library would unpack gzip without a limit, and read `Retry-After` by its own rules. */
function plainFetch(send: Fetch, exchanged: Exchanged) {
  const plain: FetchFunction = async (url, init) => {
    const answer = await send(url, init)
    exchanged.retryAfterSeconds = retryAfterOf(answer.headers)
    if (answer.status !== 200) throw new HttpFailure(answer.status)
    return new Response(await answer.text())
  }
  return plain
}

/** The client's own logger would write parameters and answers to the console. */
const ignore = (): void => {}
const silent = {
  debug: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
  setLevel: ignore,
  setName: ignore,
}

/** What the parsed answer does not contain. */
interface Exchanged {
  retryAfterSeconds: number | null
}

/** Slack answers nearly everything with 200. */
class HttpFailure extends Error {
  override readonly name = 'HttpFailure'
  readonly status: number
  constructor(status: number) {
    super(`slack: ${status}`)
    this.status = status
  }
}

const refusedCredential: ReadonlySet<string> = new Set(
  'invalid_auth not_authed token_revoked token_expired account_inactive user_removed_from_team'.split(' '),
)

const limited: ReadonlySet<string> = new Set(['ratelimited', 'rate_limited'])

/** The same request can succeed later. */
const notBegun: ReadonlySet<string> = new Set(['request_timeout', 'team_added_to_org', 'org_login_required'])

/** Perhaps carried out in part, as Slack documents. */
const inDoubt: ReadonlySet<string> = new Set(['internal_error', 'fatal_error', 'service_unavailable'])

/** Slack did nothing, and would refuse the same request again. */
const refusals: readonly (readonly [slackCodes: string, ...Said])[] = [
  [
    'missing_scope no_permission not_allowed_token_type',
    'slack_missing_scope',
    'the connected token lacks a scope: add the scopes of docs/services.md to the app, install it again and connect the new token',
  ],
  [
    'access_denied restricted_action restricted_action_read_only_channel ' +
      'restricted_action_thread_only_channel restricted_action_non_threadable_channel ' +
      'restricted_action_thread_locked user_is_restricted user_is_ultra_restricted ' +
      'team_access_not_granted ekm_access_denied cant_invite not_authorized',
    'slack_forbidden',
    'Slack does not let the connected account do this: ask an administrator of the workspace for this right',
  ],
  [
    'channel_not_found',
    'slack_not_found',
    'Slack has no such channel, or the connected account may not see it: check the channel, and invite the app to it if it is private',
  ],
  [
    'not_in_channel',
    'slack_not_in_channel',
    'the connected account is not in the channel: invite the app with `/invite`, or give it the scope `chat:write.public`',
  ],
  ['is_archived', 'slack_archived', 'the channel is archived: use another one'],
  [
    'thread_not_found message_not_found cannot_reply_to_message',
    'slack_thread_not_found',
    '`thread_ts` names no message of the channel: give the `ts` of one',
  ],
  [
    'no_text msg_too_long',
    'slack_text_refused',
    'Slack does not take the text: it must not be empty, and must be shorter',
  ],
  [
    'name_taken',
    'slack_name_taken',
    'a channel of this name exists, perhaps an archived one: choose another name',
  ],
  [
    'invalid_name invalid_name_required invalid_name_punctuation invalid_name_maxlength ' +
      'invalid_name_specials no_channel',
    'slack_name_refused',
    'Slack does not take this name: use lower-case letters, digits, `-` and `_`',
  ],
  [
    'user_not_found users_not_found user_not_visible user_disabled users_list_not_supplied ' +
      'cannot_dm_bot messages_tab_disabled',
    'slack_user_not_found',
    'Slack has no such person, or the app may not write to them: link the right account, or name another person',
  ],
]

const refusalOf: ReadonlyMap<string, Said> = new Map(
  refusals.flatMap(([codes, ...said]) => codes.split(' ').map((code) => [code, said] as const)),
)

/** For the few callers that read Slack's code. */
export class SlackRefusal extends ToolError {
  readonly slackCode: string
  constructor(slackCode: string, [code, message]: Said) {
    // An unknown code may repeat a value of the call, so it is only in `detail`, which is sealed.
    const detail = refusalOf.has(slackCode) ? {} : { detail: { slack_error: slackCode.slice(0, 200) } }
    super(code, message, { ...detail })
    this.slackCode = slackCode
  }
}

const failures = new Failures({ prefix: 'slack', title: 'Slack' })

/** Follows `Slack`. */
const notNow = 'could not carry out the request now'

/** `expired` makes the error for a refused credential. */
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
    // If an answer is not JSON, the library returns its text as the code.
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
  // The call was cancelled, or Slack's library cannot read the answer.
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
