import type { Found, Look } from '../kit/executor.ts'
import { beforeSending, markOf } from '../kit/marker.ts'
import type { FinderOf, ToolBody } from '../kit/params.ts'
import { slackOf, type Slack } from './client.ts'
import { madeMessage, messages } from './forms.ts'
import { accountOf, channelsCalled, conversationWith, isNewerThan, placeAt } from './place.ts'

/*
 * Slack takes no idempotency key. So each message carries the mark of its call in its metadata, which people do not
 * see. A call whose answer was lost is looked for in its channel by this mark.
 */

export const sendMessage: ToolBody<'slack_send_message'> = async (call, context) => {
  const { channel, text, thread_ts } = call.params
  const place = placeAt(channel)
  const account = place.kind === 'requester' ? await accountOf(call, context, '`@me`') : null
  const slack = await slackOf(call, context, 'slack_send_message')
  const given = {
    channel: await addressOf(),
    text: call.labels.includes('untrusted') ? withoutMentions(text) : text,
    metadata: { event_type: 'countersign_call', event_payload: { id: markOf(call) } },
    // Otherwise Slack would fetch the links of the text, and other hosts would learn what these links contain.
    unfurl_links: false,
    unfurl_media: false,
    ...(thread_ts === undefined ? {} : { thread_ts }),
  }
  await context.pointOfNoReturn()
  const made = await slack.write(madeMessage, (client) => client.chat.postMessage(given))
  return { output: { channel: made.channel, ts: made.ts } }

  /** Slack itself finds a channel by its name, so no list of all channels is needed. */
  async function addressOf(): Promise<string> {
    if (place.kind === 'name') return `#${place.name}`
    if (place.kind === 'id') return place.id
    return conversationWith(slack, place.kind === 'person' ? place.id : (account?.id ?? ''))
  }
}

/**
 * Texts of strangers must not notify people. In Slack's texts `<!channel>`, `<!here>` and `<@U…>` notify people. With
 * `&lt;` Slack shows them as plain text.
 */
const withoutMentions = (text: string): string => text.replaceAll(/<(?=[!@])/g, '&lt;')

/**
 * A finder searches at most this many channels. Several channels can match one name, because earlier names of a channel
 * count too.
 */
const mostPlaces = 5

export const findMessage: FinderOf<'slack_send_message'> = async (call, context, look) => {
  const place = placeAt(call.params.channel)
  const account = place.kind === 'requester' ? await accountOf(call, context, '`@me`') : null
  // If the present account may have been linked after the call was sent, the message may have gone to another account.
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

/** A finder reads at most this many pages of 100 messages. */
const mostPages = 10

interface Sought {
  readonly mark: string
  readonly thread: string | undefined
  readonly look: Look
}

/** Looks for the marked message in a conversation, or in one thread of it. The output is the `ts` of the message. */
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
    // `thread` may be the `ts` of a reply. In this case Slack lists only the reply, so a missing mark proves nothing.
    // The list of a whole thread begins with the thread's first message.
    isThread ||= listed.messages.some((each) => each.ts === thread && (each.thread_ts ?? each.ts) === thread)
    cursor = listed.response_metadata
    if (cursor === '') return { kind: isThread ? 'absent' : 'unclear' }
  }
  return { kind: 'unclear' }
}
