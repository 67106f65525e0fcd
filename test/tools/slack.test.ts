import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { final, later, rejection, toolContext } from './call.ts'
import { connectionTo } from './connection.ts'
import { ServiceCall } from './service-call.ts'
import type { ToolName } from '../../src/tools/index.ts'
import { type Emulator, emulatorToken } from '../support/emulators.ts'
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts'
import { type Scripted, type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts'
import { askSlack, startSlack } from '../support/slack-emulator.ts'

interface Over {
  readonly base: string
  readonly account?: string
  readonly linkedSecondsAgo?: number
  readonly mostMilliseconds?: number
  readonly labels?: readonly string[]
  /** The account that the approvers saw. */
  readonly revision?: string
}

class SlackCall extends ServiceCall {
  constructor(name: ToolName, params: object, over: Over) {
    const { base, account, linkedSecondsAgo = 1_000, mostMilliseconds = Infinity } = over
    const connection = connectionTo('slack', { token: emulatorToken }, base, {
      account: 'admin',
      mostMilliseconds,
    })
    const slackAccount = async () => (account === undefined ? null : { id: account, linkedSecondsAgo })
    const context = toolContext({ connection: (async () => connection) as never, slackAccount })
    super(name, params, context, { labels: over.labels ?? [], revision: over.revision ?? null })
  }
}

interface Made {
  readonly channel: string
  readonly ts: string
  readonly name: string
  readonly invited: boolean
}

/* A workspace in the emulator, a proxy before it, and a server that answers as a test says. */

let emulator: Emulator
let proxy: FaultProxy
let scripted: ScriptedServer
/** Ids in the emulator. */
const at = { general: '', team: '', hidden: '', member: '' }
const ask = (method: string, body: object) => askSlack(emulator.url, method, body)
const channels = async () =>
  (await ask('conversations.list', { types: 'public_channel,private_channel', limit: 1_000 })).channels
const sent = async (channel: string) => (await ask('conversations.history', { channel })).messages

beforeAll(async () => {
  const team = [{ name: 'team' }, { name: 'hidden', is_private: true }]
  ;[emulator, scripted] = await Promise.all([
    startSlack({ users: [{ name: 'member' }], channels: team }),
    startScriptedServer(),
  ])
  proxy = await startFaultProxy(emulator.url)
  const { members } = await ask('users.list', {})
  for (const { id, name } of [...(await channels()), ...members])
    if (name in at) at[name as keyof typeof at] = id
})
beforeEach(() => {
  proxy.choose = () => 'pass'
  scripted.arrived.splice(0)
})
afterAll(() => Promise.all([proxy?.close(), emulator?.close(), scripted?.close()]))

const channel = (params: object, over = {}) =>
  new SlackCall('slack_create_channel', params, { base: proxy.url, ...over })

describe('a channel', () => {
  const of = async (id: string) => (await channels()).find((each) => each.id === id)
  const membersOf = async (id: string) =>
    ((await ask('conversations.members', { channel: id })) as unknown as { members: string[] }).members

  test.each([
    ['public', false],
    ['private', true],
  ])('%s is made, and the person who runs the workflow is invited', async (name, is_private) => {
    const call = channel({ name: `#new-${name}`, is_private }, { account: at.member })
    const made = await call.make<Made>()
    expect(made).toEqual({ channel: made.channel, name: `new-${name}`, invited: true })
    expect(await of(made.channel)).toMatchObject({ name: `new-${name}`, is_private })
    expect(await membersOf(made.channel)).toContain(at.member)
    expect(await call.find()).toEqual(made)
  })

  test('public is made without an invitation if no account is linked, private is not', async () => {
    expect(await channel({ name: 'alone' }).make<Made>()).toMatchObject({ name: 'alone', invited: false })
    const error = await rejection(channel({ name: 'closed', is_private: true }).make<Made>())
    expect(error).toMatchObject({ code: 'slack_account_not_linked', retryable: false })
    expect((await channels()).map(({ name }) => name)).not.toContain('closed')
  })

  test('stands although Slack refuses the invitation', async () => {
    const made = await channel({ name: 'refused' }, { account: 'U99999999' }).make<Made>()
    expect(made).toMatchObject({ name: 'refused', invited: false })
  })

  const methods = ['conversations.setPurpose', 'conversations.invite']
  test.each(methods)('that was interrupted before %s is completed when it is found', async (method) => {
    const name = `cut-${method.slice(14).toLowerCase()}`
    const call = channel({ name }, { account: at.member })
    proxy.choose = (_, path) => (path.endsWith(method) ? 'cut' : 'pass')
    expect(await rejection(call.make<Made>())).toMatchObject({ name: 'OutcomeUnknown' })
    expect(await rejection(call.find())).toMatchObject({ code: 'slack_unavailable', retryable: true })
    proxy.choose = () => 'pass'
    const found = await call.find()
    expect(found).toMatchObject({ name, invited: true })
    expect((await channels()).filter((each) => each.name === name)).toHaveLength(1)
    expect(await call.find()).toEqual(found)
  })

  test('that is found does not get an account that was linked after it was made', async () => {
    const call = channel({ name: 'linked-later' }, { account: at.member, linkedSecondsAgo: 30 })
    proxy.choose = (_, path) => (path.endsWith('conversations.invite') ? 'cut' : 'pass')
    expect(await rejection(call.make<Made>())).toMatchObject({ name: 'OutcomeUnknown' })
    proxy.choose = () => 'pass'
    const found = await call.find(10)
    expect(found).toMatchObject({ name: 'linked-later', invited: false })
    expect(await membersOf((found as { channel: string }).channel)).not.toContain(at.member)
  })

  test('is absent if there is none, or if the one of this name is another call’s', async () => {
    expect(await channel({ name: 'nobody' }).find()).toBe('absent')
    await channel({ name: 'mine' }).make<Made>()
    const other = channel({ name: 'mine' })
    expect(await rejection(other.make<Made>())).toMatchObject({ code: 'slack_name_taken', retryable: false })
    expect(await other.find()).toBe('absent')
  })

  const taken = (found: object): void => {
    const listed = { id: 'C0TAKEN01', name: 'taken', creator: 'U0SELF', is_private: false, ...found }
    scripted.answer = ({ path }) => ({
      status: 200,
      body: path === '/auth.test' ? { ok: true, user_id: 'U0SELF' } : { ok: true, channels: [listed] },
    })
  }
  const secondsAgo = (seconds: number) => Math.floor(Date.now() / 1_000) - seconds
  const marked = { purpose: { value: `countersign:call:${'0'.repeat(32)}` } }
  const found = { channel: 'C0TAKEN01', name: 'taken', invited: false }
  test.each([
    ['without a mark from a moment before', {}, 30, found],
    ['without a mark from a moment after', {}, -30, found],
    ['that somebody made by hand two minutes after', {}, -120, 'unclear'],
    ['that somebody made by hand half an hour before', {}, 1_800, 'unclear'],
    ['that somebody made by hand two minutes before', {}, 120, 'unclear'],
    ['that another call made half an hour before', marked, 1_800, 'absent'],
    ['from an hour and a half before', {}, 5_400, 'absent'],
    ['from a moment before that is private', { is_private: true }, 30, 'unclear'],
    ['from a moment before whose privacy Slack does not say', { is_private: null }, 30, 'unclear'],
    ['from a moment before of another account', { creator: 'U0OTHER' }, 30, 'unclear'],
  ] as const)('%s, of the same name, is told from the call’s own', async (_, other, age, expected) => {
    taken({ created: secondsAgo(600 + age), ...other })
    const call = channel({ name: 'taken' }, { base: scripted.url })
    expect(await call.find(600)).toEqual(expected)
    const changes = scripted.arrived.filter(
      ({ path }) => !['/auth.test', '/conversations.list'].includes(path),
    )
    expect(changes.length).toBe(expected === found ? 1 : 0)
  })

  test('among very many is looked for on at most 20 pages', async () => {
    scripted.answer = () => fine({ channels: [], response_metadata: { next_cursor: 'next' } })
    expect(await channel({ name: 'one-of-many' }, { base: scripted.url }).find(600)).toBe('unclear')
    expect(scripted.arrived).toHaveLength(20)
  })

  test('two calls for one name whose answers are both lost make one channel, and one of them fails', async () => {
    const calls = [channel({ name: 'twice' }), channel({ name: 'twice' })] as const
    proxy.choose = (_, path) => (path.endsWith('conversations.create') ? 'lose answer' : 'pass')
    for (const call of calls)
      expect(await rejection(call.make<Made>())).toMatchObject({ name: 'OutcomeUnknown' })
    proxy.choose = () => 'pass'
    expect(await calls[0].find(10)).toMatchObject({ name: 'twice' })
    expect(await calls[1].find(10)).toBe('absent')
    expect(await rejection(calls[1].make<Made>())).toMatchObject({ code: 'slack_name_taken' })
    expect((await channels()).filter(({ name }) => name === 'twice')).toHaveLength(1)
  })

  test('that somebody else made at that time is no answer', async () => {
    const { channel: made } = await ask('conversations.create', { name: 'theirs' })
    await ask('conversations.setPurpose', { channel: made.id, purpose: 'ours' })
    expect(await channel({ name: 'theirs' }).find()).toBe('unclear')
  })
})

const message = (params: object, over = {}) =>
  new SlackCall('slack_send_message', { text: 't', ...params }, { base: proxy.url, ...over })

describe('a message', () => {
  test.each([
    [
      '<!channel> <!here|here> <@U012AB> <!subteam^S1>',
      '&lt;!channel> &lt;!here|here> &lt;@U012AB> &lt;!subteam^S1>',
    ],
    [
      '<<!channel>> <https://acme.example|a link> *bold* a < b',
      '<&lt;!channel>> <https://acme.example|a link> *bold* a < b',
    ],
  ])('with %s notifies nobody if a stranger may have written it', async (text, shown) => {
    for (const [labels, expected] of [
      [['internal', 'untrusted'], shown],
      [['internal'], text],
    ] as const) {
      const call = message({ channel: at.team, text }, { labels })
      const { ts } = await call.make<Made>()
      expect(await sent(at.team)).toContainEqual(expect.objectContaining({ ts, text: expected }))
      expect(await call.find()).toMatchObject({ ts })
    }
  })

  const places = [
    ['an id', () => at.team, () => at.team],
    ['`#name`', () => '#team', () => at.team],
    ['a name', () => 'team', () => at.team],
    ['the name of a private channel', () => '#hidden', () => at.hidden],
    ['a link', () => `https://acme.slack.com/archives/${at.team}/p1700000000000100`, () => at.team],
  ] as const
  test.each(places)('to %s goes there, and is found there', async (_, given, expected) => {
    const call = message({ channel: given(), text: 'words & <marks>' })
    expect(await call.find()).toBe('absent')
    const made = await call.make<Made>()
    expect(made.channel).toBe(expected())
    expect(await sent(made.channel)).toContainEqual(
      expect.objectContaining({
        ts: made.ts,
        text: 'words & <marks>',
        unfurl_links: false,
        unfurl_media: false,
      }),
    )
    expect(await call.find()).toEqual(made)
    expect(await message({ channel: given() }).find()).toBe('absent')
  })

  const people = ['@me', 'the id of a person']
  test.each(people)('to %s goes to the conversation with the person', async (given) => {
    const call = message({ channel: given === '@me' ? given : at.member }, { account: at.member })
    const made = await call.make<Made>()
    expect(made.channel).toMatch(/^D/)
    expect(await sent(made.channel)).toContainEqual(expect.objectContaining({ ts: made.ts }))
    expect(await call.find()).toEqual(made)
  })

  test('to `@me` without a linked account says what to do, and sends nothing', async () => {
    const error = await rejection(message({ channel: '@me' }, { base: scripted.url }).make<Made>())
    expect(error).toMatchObject({
      code: 'slack_account_not_linked',
      retryable: false,
      message: expect.stringContaining('accounts/slack'),
    })
    expect(scripted.arrived).toEqual([])
  })

  test('to `@me` is not looked for if another account was linked since', async () => {
    const over = { account: at.member, linkedSecondsAgo: 30 }
    expect(await message({ channel: '@me' }, over).find(10)).toBe('unclear')
  })

  test('in a thread is found in the thread', async () => {
    const { ts } = await ask('chat.postMessage', { channel: at.general, text: 'begin' })
    const call = message({ channel: at.general, thread_ts: ts })
    expect(await call.find()).toBe('absent')
    const made = await call.make<Made>()
    expect(await sent(at.general)).not.toContainEqual(expect.objectContaining({ ts: made.ts }))
    expect(await call.find()).toEqual(made)
    expect(await message({ channel: at.general, thread_ts: made.ts }).find()).toBe('unclear')
  })

  test('to a name that no channel has, or too many have had, cannot be looked for', async () => {
    expect(await message({ channel: '#nowhere' }).find()).toBe('unclear')
    const called = (id: number) => ({
      id: `C00000000${id}`,
      name: `n${id}`,
      created: 1,
      previous_names: ['old'],
    })
    scripted.answer = () => fine({ channels: [1, 2, 3, 4, 5, 6].map(called) })
    expect(await message({ channel: '#old' }, { base: scripted.url }).find()).toBe('unclear')
  })

  test('is looked for in a channel that has another name by now', async () => {
    const renamed = { id: at.team, name: 'new', created: 1, previous_names: ['old'] }
    const messages: object[] = []
    scripted.answer = ({ body }) => {
      const metadata = new URLSearchParams(body).get('metadata')
      if (metadata !== null) messages.push({ ts: '1.0', metadata: JSON.parse(metadata) })
      return {
        status: 200,
        body: { ok: true, channel: at.team, ts: '1.0', channels: [renamed], messages },
      }
    }
    const call = message({ channel: '#old' }, { base: scripted.url })
    expect(await call.find()).toBe('absent')
    const made = await call.make<Made>()
    scripted.arrived.splice(0)
    expect(await call.find()).toEqual(made)
    expect(scripted.arrived.map(({ path }) => path)).toEqual([
      '/conversations.list',
      '/conversations.history',
    ])
  })

  test('is looked for since an hour before it was sent, on at most 10 pages', async () => {
    scripted.answer = () => fine({ messages: [{ ts: '1.0' }], response_metadata: { next_cursor: 'next' } })
    expect(await message({ channel: at.team }, { base: scripted.url }).find(600)).toBe('unclear')
    expect(scripted.arrived).toHaveLength(10)
    const asked = new URLSearchParams(scripted.arrived[1]?.body)
    expect(Object.fromEntries(asked)).toMatchObject({ include_all_metadata: 'true', cursor: 'next' })
    const since = Date.now() / 1_000 - Number(asked.get('oldest'))
    expect(since).toBeGreaterThan(3_600 + 599)
  })
})

const told = (base = scripted.url, over = {}) =>
  new SlackCall('slack_send_message', { channel: 'C024BE91L', text: 'secret words' }, { base, ...over })

const unknown = { name: 'OutcomeUnknown' }
const fine = (more: object): Scripted => ({ status: 200, body: { ok: true, ...more } })
const says = (error: string, headers: Record<string, string> = {}): Scripted => ({
  status: 200,
  headers,
  body: { ok: false, error },
})

/** An answer of Slack, with its meaning for a look. A write means the same, or its outcome is unknown. */
const answers: readonly (readonly [name: string, Scripted, look: object, write?: object])[] = [
  ...['invalid_auth', 'not_authed', 'token_revoked', 'token_expired', 'account_inactive'].map(
    (code) => [code, says(code), final('connection_expired')] as const,
  ),
  ['ratelimited', says('ratelimited'), later('slack_rate_limited')],
  ['ratelimited with a time', says('ratelimited', { 'retry-after': '9' }), later('slack_rate_limited', 9)],
  ['429 with a time', { status: 429, headers: { 'retry-after': '7' } }, later('slack_rate_limited', 7)],
  ['429', { status: 429, body: '' }, later('slack_rate_limited')],
  ['request_timeout', says('request_timeout'), later('slack_unavailable')],
  ['internal_error', says('internal_error'), later('slack_unavailable'), unknown],
  ['fatal_error', says('fatal_error'), later('slack_unavailable'), unknown],
  ['service_unavailable', says('service_unavailable'), later('slack_unavailable'), unknown],
  ['500', { status: 500, body: '' }, later('slack_unavailable'), unknown],
  [
    '503 with a time',
    { status: 503, headers: { 'retry-after': '5' } },
    later('slack_unavailable', 5),
    unknown,
  ],
  ['404', { status: 404, body: '' }, final('slack_refused')],
  ['missing_scope', says('missing_scope'), final('slack_missing_scope')],
  ['restricted_action', says('restricted_action'), final('slack_forbidden')],
  ['channel_not_found', says('channel_not_found'), final('slack_not_found')],
  ['not_in_channel', says('not_in_channel'), final('slack_not_in_channel')],
  ['is_archived', says('is_archived'), final('slack_archived')],
  ['msg_too_long', says('msg_too_long'), final('slack_text_refused')],
  ['an unknown code', says('secret_words'), final('slack_refused')],
  ['HTML', { status: 200, body: '<p>secret words' }, final('slack_bad_answer'), unknown],
  ['half an answer', { status: 200, body: '{"ok":' }, final('slack_bad_answer'), unknown],
  ['null', { status: 200, body: 'null' }, final('slack_bad_answer'), unknown],
  ['a text', { status: 200, body: '"ok"' }, final('slack_bad_answer'), unknown],
  ['other types', fine({ ts: 1, messages: 1 }), final('slack_bad_answer'), unknown],
  [
    'hostile metadata',
    fine({ response_metadata: { warnings: 1, messages: 1 } }),
    final('slack_bad_answer'),
    unknown,
  ],
  [
    'an answer that calls itself gzip',
    says('is_archived', { 'content-type': 'application/gzip' }),
    final('slack_archived'),
  ],
]

describe('an answer that is no success', () => {
  test.each(answers)('%s', async (_, answer, look, write = look) => {
    scripted.answer = () => answer
    for (const [error, expected] of [
      [await rejection(told().make<Made>()), write],
      [await rejection(told().find()), look],
    ]) {
      expect(error).toMatchObject(expected as object)
      expect((error as Error).message).not.toMatch(/secret.words/)
    }
    // The client repeats nothing by itself.
    expect(scripted.arrived).toHaveLength(2)
  })

  test('shows an unknown code only to people who may see parameters', async () => {
    scripted.answer = () => says('secret_words')
    expect(await rejection(told().make<Made>())).toMatchObject({ detail: { slack_error: 'secret_words' } })
    scripted.answer = () => says('is_archived')
    expect(await rejection(told().make<Made>())).toMatchObject({ detail: undefined })
  })

  test('of more than 32 MiB is not read to its end', async () => {
    scripted.answer = () => ({ status: 200, body: ' '.repeat(33 * 1024 * 1024) })
    expect(await rejection(told().make<Made>())).toMatchObject(unknown)
    expect(await rejection(told().find())).toMatchObject(final('response_too_large'))
  })
})

test('a redirect to another host is refused, and the credential does not go there', async () => {
  const elsewhere = await startScriptedServer()
  scripted.answer = () => ({ status: 307, headers: { location: `${elsewhere.url}/chat.postMessage` } })
  expect(await rejection(told().make<Made>())).toMatchObject(final('slack_redirected'))
  expect(elsewhere.arrived).toEqual([])
  await elsewhere.close()
})

test('an answer that never ends is not awaited', async () => {
  const slow = createServer((_, response) => void response.writeHead(200).write('{"ok":'))
  await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve))
  const base = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`
  const call = told(base, { mostMilliseconds: 200 })
  expect(await rejection(call.make<Made>())).toMatchObject(unknown)
  expect(await rejection(call.find())).toMatchObject(later('slack_unavailable'))
  slow.closeAllConnections()
  await new Promise((resolve) => void slow.close(resolve))
})

test('a server that is away is tried again', async () => {
  const gone = await startScriptedServer()
  await gone.close()
  expect(await rejection(told(gone.url).make<Made>())).toMatchObject(later('slack_unreachable'))
})

test('the request carries the credential in its header alone, and is sent as Countersign', async () => {
  scripted.answer = () => says('is_archived')
  await rejection(told().make<Made>())
  const [{ headers, body, path } = { headers: {}, body: '', path: '' }] = scripted.arrived
  expect(headers).toMatchObject({ authorization: `Bearer ${emulatorToken}`, 'user-agent': 'countersign' })
  expect(path + body).not.toContain(emulatorToken)
})

describe('an approved call sends nothing if another account is linked by now', () => {
  const calls: readonly (readonly [ToolName, object])[] = [
    ['slack_send_message', { channel: '@me', text: 't' }],
    ['slack_create_channel', { name: 'approved' }],
    ['slack_create_channel', { name: 'approved', is_private: true }],
  ]
  test.each(calls)('%s %j', async (name, params) => {
    for (const revision of ['U0APPROVED', 'none']) {
      const over = { base: scripted.url, account: 'U0ANOTHER1', revision }
      expect(await rejection(new SlackCall(name, params, over).make<Made>())).toMatchObject({
        name: 'StateChanged',
      })
    }
    expect(scripted.arrived).toEqual([])
  })
})

describe('parameters that name no one thing with certainty are refused before any request', () => {
  const wrong: readonly (readonly [ToolName, object])[] = [
    ['slack_send_message', { channel: '#a,#b', text: 't' }],
    ['slack_send_message', { channel: '@someone', text: 't' }],
    ['slack_send_message', { channel: 'https://evil.example/archives/C024BE91L', text: 't' }],
    ['slack_send_message', { channel: '#Team', text: 't' }],
    ['slack_create_channel', { name: 'Team' }],
    ['slack_create_channel', { name: '@me' }],
    ['slack_create_channel', { name: 'C024BE91L' }],
  ]
  test.each(wrong)('%s %j', async (name, params) => {
    expect(await rejection(new SlackCall(name, params, { base: scripted.url }).make<Made>())).toMatchObject(
      final('invalid_params'),
    )
    expect(scripted.arrived).toEqual([])
  })
})
