import { z } from 'zod'
import type { LinkedAccount } from '../../contract/tool-services.ts'
import { channelOf } from '../../policy/readers/place-ids.ts'
import type { ToolName } from '../index.ts'
import { mostRequestMilliseconds, mostWaitMilliseconds } from '../kit/exchange.ts'
import {
  invalidParams,
  OutcomeUnknown,
  StateChanged,
  ToolError,
  type Bodies,
  type Calling,
  type FinderOf,
  type Found,
  type Look,
  type ReadContext,
  type State,
  type StateReaderOf,
  type ToolBody,
  type ToolCall,
  type ToolContext,
  type ToolParams,
} from '../kit/executor.ts'
import { beforeSending, hasMark, markOf } from '../kit/marker.ts'
import { slackOf, SlackRefusal, type Slack } from './client.ts'
import { tools } from './tools.ts'

const nextPage = z
  .object({ next_cursor: z.string().nullish() })
  .nullish()
  .transform((metadata) => metadata?.next_cursor ?? '')

export const aConversation = z.object({ channel: z.object({ id: z.string() }) })
export const madeMessage = z.object({ channel: z.string(), ts: z.string() })

/** Null for metadata of other apps, which has other fields. */
const metadata = z
  .object({ event_payload: z.object({ id: z.string() }) })
  .transform(({ event_payload }) => event_payload.id)
  .nullish()
  .catch(null)

export const messages = z.object({
  messages: z.array(z.object({ ts: z.string(), thread_ts: z.string().nullish(), metadata })),
  response_metadata: nextPage,
})

const channel = z.object({
  id: z.string(),
  name: z.string(),
  created: z.number(),
  creator: z.string().nullish(),
  is_private: z.boolean().nullish(),
  purpose: z
    .object({ value: z.string() })
    .nullish()
    .transform((purpose) => purpose?.value ?? ''),
  previous_names: z
    .array(z.string())
    .nullish()
    .transform((names) => names ?? []),
})
type Channel = z.output<typeof channel>
export const channels = z.object({ channels: z.array(channel), response_metadata: nextPage })
export const madeChannel = z.object({ channel: z.object({ id: z.string(), name: z.string() }) })
export const ownAccount = z.object({ user_id: z.string() })
export const done = z.object({ ok: z.literal(true) })

type Place =
  | { readonly kind: 'id'; readonly id: string }
  /** Without `#`. */
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'person'; readonly id: string }
  | { readonly kind: 'requester' }

/** By the same rules as tool policies. Throws `invalid_params`. */
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

/** Without `#`. Throws `invalid_params`. */
function newNameOf(text: string): string {
  const name = channelOf(text)
  if (name?.startsWith('#') === true) return name.slice(1)
  throw invalidParams(
    '`name` must have lower-case letters, digits, `-` and `_` only, with or without `#` before it',
  )
}

/** An approval is valid only for this account. */
const revisionOf = (account: LinkedAccount | null): string => account?.id ?? 'none'

/** Null if none is linked. Throws StateChanged if the approvers saw another. */
async function approvedAccount(
  call: Pick<ToolCall<unknown>, 'organizationId' | 'requester' | 'revision'>,
  context: Pick<ToolContext, 'tools'>,
): Promise<LinkedAccount | null> {
  const account = await context.tools.slackAccount(call)
  if (call.revision !== null && call.revision !== revisionOf(account)) throw new StateChanged()
  return account
}

/** Throws StateChanged, and `slack_account_not_linked`. */
async function accountOf(
  call: Parameters<typeof approvedAccount>[0],
  context: ToolContext,
  why: string,
): Promise<LinkedAccount> {
  const account = await approvedAccount(call, context)
  if (account !== null) return account
  throw new ToolError(
    'slack_account_not_linked',
    `${why} needs the Slack account of the person who runs the workflow: link it with PUT /organizations/{id}/members/{user}/accounts/slack`,
  )
}

/** An account that was linked longer before the point of no return was used by the call. */
const readSeconds = 60

/** The earlier attempt may have used another account. */
const isNewerThan = (account: LinkedAccount, { sentSecondsAgo }: Look): boolean =>
  account.linkedSecondsAgo < sentSecondsAgo + readSeconds

/** Opening the conversation again gives the same id. */
export async function conversationWith(slack: Slack, userId: string): Promise<string> {
  const { channel } = await slack.read(aConversation, (client) =>
    client.conversations.open({ users: userId }),
  )
  return channel.id
}

/** Also by a former name, for one that was renamed meanwhile. Null if there are too many to read. */
async function channelsCalled(slack: Slack, name: string): Promise<readonly Channel[] | null> {
  const found: Channel[] = []
  let cursor = ''
  for (let page = 0; page < 20; page += 1) {
    const listed = await slack.read(channels, (client) =>
      client.conversations.list({
        types: 'public_channel,private_channel',
        limit: 1_000,
        ...(cursor === '' ? {} : { cursor }),
      }),
    )
    found.push(...listed.channels.filter((each) => [each.name, ...each.previous_names].includes(name)))
    cursor = listed.response_metadata
    if (cursor === '') return found
  }
  return null
}

/* Slack takes no idempotency key, so a message carries the mark of its call in metadata, which people do not see. */

const sendMessage: ToolBody<'slack_send_message'> = async (call, context) => {
  const { channel, text, thread_ts } = call.params
  const place = placeAt(channel)
  const account = place.kind === 'requester' ? await accountOf(call, context, '`@me`') : null
  const slack = await slackOf(call, context, 'slack_send_message')
  const given = {
    channel: await addressOf(),
    text: call.labels.includes('untrusted') ? withoutMentions(text) : text,
    metadata: { event_type: 'countersign_call', event_payload: { id: markOf(call) } },
    // Slack would fetch the links of the text, and other hosts would learn what they contain.
    unfurl_links: false,
    unfurl_media: false,
    ...(thread_ts === undefined ? {} : { thread_ts }),
  }
  await context.pointOfNoReturn()
  const made = await slack.write(madeMessage, (client) => client.chat.postMessage(given))
  return { output: { channel: made.channel, ts: made.ts } }

  /** Slack itself finds a channel by its name. */
  async function addressOf(): Promise<string> {
    if (place.kind === 'name') return `#${place.name}`
    if (place.kind === 'id') return place.id
    return conversationWith(slack, place.kind === 'person' ? place.id : (account?.id ?? ''))
  }
}

/** Texts of strangers must not notify people, as `<!channel>`, `<!here>` and `<@U…>` do. */
const withoutMentions = (text: string): string => text.replaceAll(/<(?=[!@])/g, '&lt;')

/** Earlier names of a channel count too, so several can match. */
const mostPlaces = 5

const findMessage: FinderOf<'slack_send_message'> = async (call, context, look) => {
  const place = placeAt(call.params.channel)
  const account = place.kind === 'requester' ? await accountOf(call, context, '`@me`') : null
  // The message may have gone to another account.
  if (account !== null && isNewerThan(account, look)) return { kind: 'unclear' }
  const slack = await slackOf(call, context, 'slack_send_message')
  const ids = await conversations()
  if (ids.length === 0 || ids.length > mostPlaces) return { kind: 'unclear' }
  const sought = { mark: markOf(call), thread: call.params.thread_ts, look }
  let isClear = true
  for (const id of ids) {
    const found = await findIn(slack, id, sought)
    if (found.kind === 'done') return { kind: 'done', output: { channel: id, ts: found.output } }
    isClear &&= found.kind === 'absent'
  }
  return { kind: isClear ? 'absent' : 'unclear' }

  async function conversations(): Promise<readonly string[]> {
    if (place.kind === 'id') return [place.id]
    if (place.kind === 'name') return ((await channelsCalled(slack, place.name)) ?? []).map(({ id }) => id)
    return [await conversationWith(slack, place.kind === 'person' ? place.id : (account?.id ?? ''))]
  }
}

/** A page has 100 messages. */
const mostPages = 10

interface Sought {
  readonly mark: string
  readonly thread: string | undefined
  readonly look: Look
}

/** In a conversation, or in one thread of it. The output is the `ts` of the message. */
export async function findIn(
  slack: Slack,
  channel: string,
  { mark, thread, look }: Sought,
): Promise<Found<string>> {
  const oldest = (beforeSending(look).getTime() / 1_000).toFixed(6)
  let cursor = ''
  let isThread = thread === undefined
  for (let page = 0; page < mostPages; page += 1) {
    const asked = {
      channel,
      oldest,
      include_all_metadata: true,
      limit: 100,
      ...(cursor === '' ? {} : { cursor }),
    }
    const listed = await slack.read(messages, (client) =>
      thread === undefined
        ? client.conversations.history(asked)
        : client.conversations.replies({ ...asked, ts: thread }),
    )
    const found = listed.messages.find((message) => message.metadata === mark)
    if (found !== undefined) return { kind: 'done', output: found.ts }
    // For a reply, Slack lists only the reply, which proves nothing. A thread begins with its first message.
    isThread ||= listed.messages.some((each) => each.ts === thread && (each.thread_ts ?? each.ts) === thread)
    cursor = listed.response_metadata
    if (cursor === '') return { kind: isThread ? 'absent' : 'unclear' }
  }
  return { kind: 'unclear' }
}

/* Creates the channel, then marks it and invites the requester, which looking for an interrupted call repeats. */

const { defaults } = tools.slack_create_channel

type Call = ToolCall<ToolParams<'slack_create_channel'>>
type Made = { readonly channel: string; readonly name: string; readonly invited: boolean }

const createChannel: ToolBody<'slack_create_channel'> = async (call, context) => {
  const name = newNameOf(call.params.name)
  const { is_private = defaults.is_private } = call.params
  // People enter a private channel only if they are invited.
  const account = is_private
    ? await accountOf(call, context, 'a private channel')
    : await approvedAccount(call, context)
  const slack = await slackOf(call, context, 'slack_create_channel')
  await context.pointOfNoReturn()
  const made = await slack.write(madeChannel, (client) => client.conversations.create({ name, is_private }))
  try {
    return { output: await completed(slack, call, made.channel, account) }
  } catch {
    // The next attempt finds and completes the channel, or a person is asked.
    throw new OutcomeUnknown('the channel was created, but not everything after it is certain')
  }
}

/** A final refusal is ignored, because the channel exists. Any other failure throws: a later try can succeed. */
async function completed(
  slack: Slack,
  call: Call,
  { id, name }: Pick<Channel, 'id' | 'name'>,
  account: LinkedAccount | null,
): Promise<Made> {
  const purpose = `Created by a Countersign workflow (${markOf(call)})`
  await accepted(slack.complete(done, (client) => client.conversations.setPurpose({ channel: id, purpose })))
  const invited =
    account !== null &&
    (await accepted(
      slack.complete(done, (client) => client.conversations.invite({ channel: id, users: account.id })),
    ))
  return { channel: id, name, invited }
}

/** Somebody else has invited the person, or the connected token is the person's. */
const alreadyThere: ReadonlySet<string> = new Set(['already_in_channel', 'cant_invite_self'])

/** False if Slack would refuse again. The channel exists all the same, so the call does not fail. */
async function accepted(request: Promise<unknown>): Promise<boolean> {
  try {
    await request
    return true
  } catch (error) {
    if (!(error instanceof SlackRefusal)) throw error
    return alreadyThere.has(error.slackCode)
  }
}

/** Between Slack's clock and ours. Only for channels without a mark. */
const smallSkew = 60
/** After the point of no return, for the request that makes the channel. */
const mostSeconds = (mostWaitMilliseconds + mostRequestMilliseconds) / 1_000

/**
 * Names are unique in a workspace, so without a channel of this name the call was not carried out.
 * A channel without a mark may be a person's. It counts as the call's only if the connected account made it at the time
 * of the call, as private or public as the call asks.
 */
const findChannel: FinderOf<'slack_create_channel'> = async (call, context, look) => {
  const sentAt = Date.now() / 1_000 - look.sentSecondsAgo
  const since = beforeSending(look).getTime() / 1_000
  const name = newNameOf(call.params.name)
  const { is_private: isPrivate = defaults.is_private } = call.params
  const slack = await slackOf(call, context, 'slack_create_channel')
  const listed = await channelsCalled(slack, name)
  if (listed === null) return { kind: 'unclear' }
  if (listed.length === 0) return { kind: 'absent' }
  const { user_id: self } = await slack.read(ownAccount, (client) => client.auth.test())
  const isOfThen = (created: number): boolean =>
    created >= sentAt - smallSkew && created <= sentAt + mostSeconds + smallSkew
  const isUnmarked = ({ created, creator, purpose, is_private }: Channel): boolean =>
    creator === self && purpose === '' && is_private === isPrivate && isOfThen(created)
  const found =
    listed.find(({ purpose }) => purpose.includes(markOf(call))) ?? listed.find((each) => isUnmarked(each))
  if (found === undefined) {
    // Another call has marked it, or it is more than an hour older (marker.ts). If all of this name are others', the
    // name was taken, and Slack has refused the call.
    const isOthers = ({ created, purpose, creator }: Channel): boolean =>
      created < since || (creator === self && hasMark(purpose))
    return { kind: listed.every(isOthers) ? 'absent' : 'unclear' }
  }
  const account = await context.tools.slackAccount(call)
  // Perhaps no approver has seen an account that may have been linked after the call was sent.
  const invited = account !== null && isNewerThan(account, look) ? null : account
  return { kind: 'done', output: await completed(slack, call, found, invited) }
}

/* Names that approvers see beside ids. Only ids decide where a message goes. */

/** Slower names are left out. */
const mostMilliseconds = 3_000
const aChannel = z
  .object({ channel: z.object({ name: z.string().min(1) }) })
  .transform(({ channel }) => `#${channel.name}`)
const aPerson = z
  .object({
    user: z.object({
      name: z.string().min(1),
      real_name: z.string().nullish(),
      profile: z.object({ display_name: z.string().nullish() }).nullish(),
    }),
  })
  .transform(({ user }) => user.profile?.display_name || user.real_name || user.name)

interface Names {
  channel(id: string): Promise<string>
  person(id: string): Promise<string>
}

/** With the id, such as `#name (C012…)`; only the id if Slack does not give the name in time. */
function namesOf(call: Calling, context: ReadContext, tool: ToolName): Names {
  const named = async (id: string, read: (slack: Slack) => Promise<string>): Promise<string> => {
    const limit = AbortSignal.any([context.signal, AbortSignal.timeout(mostMilliseconds)])
    try {
      const name = await read(await slackOf(call, { tools: context.tools, signal: limit }, tool))
      return `${shown(name)} (${id})`
    } catch {
      return id
    }
  }
  return {
    channel: (id) =>
      named(id, (slack) => slack.read(aChannel, (client) => client.conversations.info({ channel: id }))),
    person: (id) => named(id, (slack) => slack.read(aPerson, (client) => client.users.info({ user: id }))),
  }
}

/** People choose their names freely. */
const shown = (name: string): string =>
  name
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim()
    .slice(0, 80)
    .toWellFormed()

const accountState = async (account: LinkedAccount | null, names: Names): Promise<State> => ({
  revision: revisionOf(account),
  fields: {
    'Slack account of the requester': account === null ? 'none is linked' : await names.person(account.id),
  },
})

/** The linked account for `@me`; the name of a channel's or person's id. */
const readRecipient: StateReaderOf<'slack_send_message'> = async (call, context) => {
  const place = placeAt(call.params.channel)
  const names = namesOf(call, context, 'slack_send_message')
  if (place.kind === 'requester') return accountState(await context.tools.slackAccount(call), names)
  const revision = revisionOf(null)
  if (place.kind === 'id') return { revision, fields: { 'channel in Slack': await names.channel(place.id) } }
  if (place.kind === 'person')
    return { revision, fields: { 'person in Slack': await names.person(place.id) } }
  return { revision }
}

const readInvited: StateReaderOf<'slack_create_channel'> = async (call, context) =>
  accountState(await context.tools.slackAccount(call), namesOf(call, context, 'slack_create_channel'))

export const run = {
  slack_send_message: { body: sendMessage, find: findMessage, state: readRecipient },
  slack_create_channel: { body: createChannel, find: findChannel, state: readInvited },
} satisfies Bodies<typeof tools>
