import { WebAPIPlatformError, WebAPIRequestError } from '@slack/web-api'
import { OutgoingError } from '../../../shared/outgoing/outgoing.ts'
import { OutcomeUnknown, ToolError } from '../executor.ts'

/** Whether the request may be sent again, or has an effect that must not happen twice. */
export type Sending = 'again' | 'once'

/** What is known of an exchange besides its answer. */
export interface Exchanged {
  /** Seconds that Slack asks to wait; null: it does not say. */
  retryAfterSeconds: number | null
}

/** An answer with another status than 200, with which Slack answers nearly everything. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure'
  readonly status: number
  constructor(status: number) {
    super(`slack: ${status}`)
    this.status = status
  }
}

/** Slack's codes for a credential that it does not accept, or no longer. */
const refusedCredential: ReadonlySet<string> = new Set([
  'invalid_auth',
  'not_authed',
  'token_revoked',
  'token_expired',
  'account_inactive',
  'user_removed_from_team',
])

const limited: ReadonlySet<string> = new Set(['ratelimited', 'rate_limited'])

/** Slack has not begun: the same request can succeed later. */
const notBegun: ReadonlySet<string> = new Set(['request_timeout', 'team_added_to_org', 'org_login_required'])

/** Slack documents that a part of the request may have been carried out. */
const inDoubt: ReadonlySet<string> = new Set(['internal_error', 'fatal_error', 'service_unavailable'])

type Said = readonly [code: string, message: string]

/** Our codes and messages for Slack's refusals. It did nothing, and would refuse the same request again. */
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

/** Slack's code of a refusal, for the few places that read one. */
export class SlackRefusal extends ToolError {
  readonly slackCode: string
  constructor(slackCode: string, [code, message]: Said) {
    // An unknown code may repeat a value.
    const detail = refusalOf.has(slackCode) ? {} : { detail: { slack_error: slackCode.slice(0, 200) } }
    super(code, message, { retryable: false, ...detail })
    this.slackCode = slackCode
  }
}

const failed = (
  code: string,
  message: string,
  retryable: boolean,
  cause?: unknown,
  seconds?: number | null,
) => new ToolError(code, message, { retryable, cause, retryAfterSeconds: seconds ?? null })

/**
 * The error table of Slack's tools. A request that must not be sent twice is `unknown` if it may have been carried out:
 * its answer was lost or cannot be read, or Slack failed. `expired` makes the error for a refused credential. Slack's own
 * words stay out of messages, because they may repeat values.
 */
export async function errorOf(
  error: unknown,
  sending: Sending,
  { retryAfterSeconds }: Exchanged,
  expired: () => Promise<ToolError>,
): Promise<unknown> {
  if (error instanceof WebAPIPlatformError) {
    const { error: code } = error.data
    // Anything that is no JSON comes back as the code.
    if (typeof code !== 'string' || !/^\w{1,100}$/.test(code)) return unreadable(sending)
    if (refusedCredential.has(code)) return expired()
    if (limited.has(code)) return rateLimited(retryAfterSeconds)
    if (notBegun.has(code)) return unavailable(retryAfterSeconds)
    if (inDoubt.has(code)) return sending === 'once' ? unknown() : unavailable(retryAfterSeconds)
    return new SlackRefusal(code, refusalOf.get(code) ?? ['slack_refused', 'Slack refused the request'])
  }
  const cause = error instanceof WebAPIRequestError ? error.original : error
  if (cause instanceof OutgoingError) return unanswered(cause, sending)
  if (cause instanceof HttpFailure) return byStatus(cause, sending, retryAfterSeconds)
  // The call was cancelled, or the client stumbled over the form of the answer.
  if (sending === 'once') return unknown()
  return error instanceof WebAPIRequestError ? cause : unreadable(sending)
}

function byStatus(cause: HttpFailure, sending: Sending, seconds: number | null): ToolError | OutcomeUnknown {
  const { status } = cause
  if (status === 429) return rateLimited(seconds)
  if (status < 500 && status !== 408)
    return failed(
      'slack_refused',
      `Slack refused the request (answer ${status}): check \`base_url\` of the connection`,
      false,
      cause,
    )
  return sending === 'once' ? unknown() : unavailable(seconds, cause)
}

function unanswered(cause: OutgoingError, sending: Sending): ToolError | OutcomeUnknown {
  const { problem, mayHaveArrived, message } = cause
  // A redirect says that the request must be sent to another place, so it was not carried out.
  if (problem === 'redirect_refused')
    return failed('slack_redirected', `${message}: check \`base_url\` of the connection`, false, cause)
  if (!mayHaveArrived) return failed('slack_unreachable', message, problem === 'unreachable', cause)
  if (sending === 'once') return unknown()
  if (problem === 'answer_too_large') return failed('response_too_large', message, false, cause)
  return failed('slack_unavailable', message, true, cause)
}

const rateLimited = (seconds: number | null): ToolError =>
  failed('slack_rate_limited', 'Slack takes no more requests of this account now', true, undefined, seconds)

const unavailable = (seconds: number | null, cause?: unknown): ToolError =>
  failed('slack_unavailable', 'Slack could not carry out the request now', true, cause, seconds)

const unknown = (): OutcomeUnknown =>
  new OutcomeUnknown('Slack did not say whether it carried out the request')

/** For an answer of another form than Slack documents. */
export const unreadable = (sending: Sending): ToolError | OutcomeUnknown =>
  sending === 'once'
    ? unknown()
    : failed('slack_bad_answer', 'the answer is none of Slack: check `base_url` of the connection', false)
