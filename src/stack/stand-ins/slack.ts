import type { Answer, Request } from './github.ts'
import { textOf, type Keeper, type KeptChannel, type KeptMessage } from './kept.ts'

/* The methods of Slack's API that our tools and messages use. Every channel exists from its first message on. */

const self = 'U0STANDIN'

type Said = Readonly<Record<string, unknown>>

const refused = (error: string): Said => ({ ok: false, error })

/** Slack answers 200 to nearly everything. */
export function answerSlack(keeper: Keeper, { path, body }: Request): Answer {
  const method = methods[path.slice(1)]
  const said = method === undefined ? refused('unknown_method') : method(keeper, body)
  return { status: 200, body: { ok: true, ...said } }
}

const methods: Readonly<Record<string, (keeper: Keeper, given: Said) => Said>> = {
  'auth.test': () => ({ user: 'stand-in', user_id: self, team: 'Stand-in', team_id: 'T0STANDIN' }),
  'chat.postMessage': post,
  'chat.update': change,
  'conversations.list': ({ kept }) => ({
    channels: kept.channels.filter(({ id }) => id.startsWith('C')).map(shown),
    response_metadata: { next_cursor: '' },
  }),
  'conversations.info': (keeper, given) =>
    withChannel(keeper, given, (channel) => ({ channel: shown(channel) })),
  'conversations.create': create,
  'conversations.setPurpose': (keeper, given) =>
    withChannel(keeper, given, (channel) => {
      channel.purpose = textOf(given['purpose'])
      keeper.save()
      return {}
    }),
  'conversations.invite': (keeper, given) =>
    withChannel(keeper, given, (channel) => ({ channel: shown(channel) })),
  'conversations.open': (keeper, given) => ({
    channel: { id: channelOf(keeper, `D${textOf(given['users']).slice(1)}`).id },
  }),
  'conversations.history': (keeper, given) => ({
    messages: messagesIn(keeper, given, ({ thread_ts: thread }) => thread === null).toReversed(),
    response_metadata: { next_cursor: '' },
  }),
  'conversations.replies': (keeper, given) => ({
    messages: messagesIn(keeper, given, ({ ts, thread_ts: thread }) =>
      [ts, thread].includes(textOf(given['ts'])),
    ),
    response_metadata: { next_cursor: '' },
  }),
  'users.info': (_, given) => ({
    user: { id: textOf(given['user']), name: 'stand-in', real_name: 'Stand-in' },
  }),
}

const shown = ({ purpose, ...channel }: KeptChannel) => ({
  ...channel,
  creator: self,
  purpose: { value: purpose },
  previous_names: [],
})

/** `named`: an id, or a name with or without `#`. */
const find = ({ kept }: Keeper, named: string): KeptChannel | undefined =>
  kept.channels.find(({ id, name }) => id === named || name === named.replace(/^#/, ''))

function withChannel(keeper: Keeper, given: Said, work: (channel: KeptChannel) => Said): Said {
  const channel = find(keeper, textOf(given['channel']))
  return channel === undefined ? refused('channel_not_found') : work(channel)
}

function make({ kept }: Keeper, named: string, isPrivate = false): KeptChannel {
  const isId = /^[CDG][A-Z0-9]{6,}$/.test(named)
  const channel: KeptChannel = {
    id: isId ? named : `C${Date.now().toString(36).toUpperCase()}${kept.channels.length}`,
    name: named.replace(/^#/, '').toLowerCase(),
    is_private: isPrivate,
    purpose: '',
    created: Math.floor(Date.now() / 1_000),
  }
  kept.channels.push(channel)
  return channel
}

const channelOf = (keeper: Keeper, named: string): KeptChannel => find(keeper, named) ?? make(keeper, named)

function create(keeper: Keeper, given: Said): Said {
  const name = textOf(given['name'])
  if (find(keeper, name) !== undefined) return refused('name_taken')
  const channel = make(keeper, name, String(given['is_private']) === 'true')
  keeper.save()
  return { channel: shown(channel) }
}

function post(keeper: Keeper, given: Said): Said {
  const channel = channelOf(keeper, textOf(given['channel']))
  const message: KeptMessage = {
    channel: channel.id,
    ts: nextTime(keeper),
    thread_ts: textOf(given['thread_ts']) || null,
    text: textOf(given['text']),
    metadata: jsonOf(given['metadata']),
  }
  keeper.kept.messages.push(message)
  keeper.save()
  return { channel: channel.id, ts: message.ts, message: sent(message) }
}

function change(keeper: Keeper, given: Said): Said {
  const [channel, ts] = [textOf(given['channel']), textOf(given['ts'])]
  const message = keeper.kept.messages.find((each) => each.channel === channel && each.ts === ts)
  if (message === undefined) return refused('message_not_found')
  message.text = textOf(given['text'])
  message.metadata = jsonOf(given['metadata']) ?? message.metadata
  keeper.save()
  return { channel, ts, text: message.text }
}

/** Slack's times are also the ids of messages, so no two are equal. */
function nextTime({ kept }: Keeper): string {
  const last = Number(kept.messages.at(-1)?.ts ?? 0)
  return Math.max(Date.now() / 1_000, last + 0.000_1).toFixed(6)
}

const sent = ({ ts, thread_ts: thread, text, metadata }: KeptMessage): Said => ({
  type: 'message',
  user: self,
  ts,
  text,
  ...(thread === null ? {} : { thread_ts: thread }),
  ...(metadata === null ? {} : { metadata }),
})

function messagesIn({ kept }: Keeper, given: Said, isWanted: (message: KeptMessage) => boolean) {
  const [channel, oldest] = [textOf(given['channel']), Number(given['oldest']) || 0]
  return kept.messages
    .filter((each) => each.channel === channel && Number(each.ts) >= oldest && isWanted(each))
    .map(sent)
}

function jsonOf(value: unknown): unknown {
  try {
    return JSON.parse(textOf(typeof value === 'string' ? value : JSON.stringify(value)))
  } catch {
    return null
  }
}
