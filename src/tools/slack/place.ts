import type { LinkedAccount } from '../../governance/people/slack-accounts.ts'
import { channelOf } from '../../policy/readers/channels.ts'
import {
  invalidParams,
  StateChanged,
  ToolError,
  type Look,
  type ToolCall,
  type ToolContext,
} from '../kit/executor.ts'
import type { Slack } from './client.ts'
import { aConversation, channels, type Channel } from './forms.ts'

/** The destination of a message. */
export type Place =
  | { readonly kind: 'id'; readonly id: string }
  /** `name` is without `#`. */
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'person'; readonly id: string }
  | { readonly kind: 'requester' }

/** Reads `channel` by the same rules as tool policies. Throws ToolError `invalid_params`. */
export function placeAt(text: string): Place {
  const place = channelOf(text)
  if (place === null)
    throw invalidParams(
      '`channel` must be `#name`, a channel’s id, a link to a channel in slack.com, or `@me`',
    )
  if (place === '@me') return { kind: 'requester' }
  if (place.startsWith('#')) return { kind: 'name', name: place.slice(1) }
  return /^[UW]/.test(place) ? { kind: 'person', id: place } : { kind: 'id', id: place }
}

/** Returns the name of the channel to create, without `#`. Throws ToolError `invalid_params`. */
export function newNameOf(text: string): string {
  const name = channelOf(text)
  if (name?.startsWith('#') === true) return name.slice(1)
  throw invalidParams(
    '`name` must have lower-case letters, digits, `-` and `_` only, with or without `#` before it',
  )
}

/** Returns the revision of the account that a call reaches. An approval is valid only for this revision. */
export const revisionOf = (account: LinkedAccount | null): string => account?.id ?? 'none'

/** Returns the linked account, or null if none is linked. Throws StateChanged if the approvers saw another account. */
export async function approvedAccount(
  call: Pick<ToolCall<unknown>, 'organizationId' | 'requester' | 'revision'>,
  context: Pick<ToolContext, 'tools'>,
): Promise<LinkedAccount | null> {
  const account = await context.tools.slackAccount(call)
  if (call.revision !== null && call.revision !== revisionOf(account)) throw new StateChanged()
  return account
}

/**
 * Returns the approved account. Throws StateChanged, and ToolError `slack_account_not_linked` if no account is linked.
 */
export async function accountOf(
  call: Parameters<typeof approvedAccount>[0],
  context: ToolContext,
  why: string,
): Promise<LinkedAccount> {
  const account = await approvedAccount(call, context)
  if (account !== null) return account
  throw new ToolError(
    'slack_account_not_linked',
    `${why} needs the Slack account of the person who runs the workflow: link it with PUT /organizations/{id}/members/{user}/accounts/slack`,
    { retryable: false },
  )
}

/** If the account was linked more than this many seconds before the point of no return, the call used this account. */
const readSeconds = 60

/**
 * Returns whether the account may have been linked after the earlier attempt asked for the linked account. If so, the
 * earlier attempt may have used another account.
 */
export const isNewerThan = (account: LinkedAccount, { sentSecondsAgo }: Look): boolean =>
  account.linkedSecondsAgo < sentSecondsAgo + readSeconds

/** Returns the id of the direct conversation with a person. Opening the conversation again gives the same id. */
export async function conversationWith(slack: Slack, userId: string): Promise<string> {
  const { channel } = await slack.read(aConversation, (client) =>
    client.conversations.open({ users: userId }),
  )
  return channel.id
}

/** At most this many pages are read to find a channel by its name. */
const mostPages = 20
const pageSize = 1_000

/**
 * Returns the channels that have this name now or had it before. So a channel that was renamed meanwhile is found too.
 * Returns null if the workspace has too many channels to read.
 */
export async function channelsCalled(slack: Slack, name: string): Promise<readonly Channel[] | null> {
  const found: Channel[] = []
  let cursor = ''
  for (let page = 0; page < mostPages; page += 1) {
    const listed = await slack.read(channels, (client) =>
      client.conversations.list({
        types: 'public_channel,private_channel',
        limit: pageSize,
        ...(cursor === '' ? {} : { cursor }),
      }),
    )
    found.push(...listed.channels.filter((each) => [each.name, ...each.previous_names].includes(name)))
    cursor = listed.response_metadata
    if (cursor === '') return found
  }
  return null
}
