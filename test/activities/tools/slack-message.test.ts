import { describe, expect, test } from '@jest/globals'
import { rejection } from './call.ts'
import { SlackCall } from './slack-call.ts'
import { useSlack, type SlackStand } from './slack-fixture.ts'

let slack: SlackStand
useSlack((started) => (slack = started))

const message = (params: object, over = {}) =>
  new SlackCall('slack_send_message', { text: 't', ...params }, { base: slack.proxy.url, ...over })

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
      const call = message({ channel: slack.at.team, text }, { labels })
      const { ts } = await call.make()
      expect(await slack.sent(slack.at.team)).toContainEqual(expect.objectContaining({ ts, text: expected }))
      expect(await call.find()).toMatchObject({ ts })
    }
  })

  const places = [
    ['an id', () => slack.at.team, () => slack.at.team],
    ['`#name`', () => '#team', () => slack.at.team],
    ['a name', () => 'team', () => slack.at.team],
    ['the name of a private channel', () => '#hidden', () => slack.at.hidden],
    [
      'a link',
      () => `https://acme.slack.com/archives/${slack.at.team}/p1700000000000100`,
      () => slack.at.team,
    ],
  ] as const
  test.each(places)('to %s goes there, and is found there', async (_, given, expected) => {
    const call = message({ channel: given(), text: 'words & <marks>' })
    expect(await call.find()).toBe('absent')
    const made = await call.make()
    expect(made.channel).toBe(expected())
    expect(await slack.sent(made.channel)).toContainEqual(
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

  test.each(['@me', 'the id of a person'])(
    'to %s goes to the conversation with the person',
    async (given) => {
      const call = message(
        { channel: given === '@me' ? given : slack.at.member },
        { account: slack.at.member },
      )
      const made = await call.make()
      expect(made.channel).toMatch(/^D/)
      expect(await slack.sent(made.channel)).toContainEqual(expect.objectContaining({ ts: made.ts }))
      expect(await call.find()).toEqual(made)
    },
  )

  test('to `@me` without a linked account says what to do, and sends nothing', async () => {
    const error = await rejection(message({ channel: '@me' }, { base: slack.scripted.url }).make())
    expect(error).toMatchObject({
      code: 'slack_account_not_linked',
      retryable: false,
      message: expect.stringContaining('accounts/slack'),
    })
    expect(slack.scripted.arrived).toEqual([])
  })

  test('to `@me` is not looked for if another account was linked since', async () => {
    const over = { account: slack.at.member, linkedSecondsAgo: 30 }
    expect(await message({ channel: '@me' }, over).find(10)).toBe('unclear')
  })

  test('in a thread is found in the thread', async () => {
    const { ts } = await slack.ask('chat.postMessage', { channel: slack.at.general, text: 'begin' })
    const call = message({ channel: slack.at.general, thread_ts: ts })
    expect(await call.find()).toBe('absent')
    const made = await call.make()
    expect(await slack.sent(slack.at.general)).not.toContainEqual(expect.objectContaining({ ts: made.ts }))
    expect(await call.find()).toEqual(made)
    expect(await message({ channel: slack.at.general, thread_ts: made.ts }).find()).toBe('unclear')
  })

  test('to a name that no channel has, or too many have had, cannot be looked for', async () => {
    expect(await message({ channel: '#nowhere' }).find()).toBe('unclear')
    const called = (id: number) => ({
      id: `C00000000${id}`,
      name: `n${id}`,
      created: 1,
      previous_names: ['old'],
    })
    slack.scripted.answer = () => ({
      status: 200,
      body: { ok: true, channels: [1, 2, 3, 4, 5, 6].map(called) },
    })
    expect(await message({ channel: '#old' }, { base: slack.scripted.url }).find()).toBe('unclear')
  })

  test('is looked for in a channel that has another name by now', async () => {
    const renamed = { id: slack.at.team, name: 'new', created: 1, previous_names: ['old'] }
    const messages: object[] = []
    slack.scripted.answer = ({ body }) => {
      const metadata = new URLSearchParams(body).get('metadata')
      if (metadata !== null) messages.push({ ts: '1.0', metadata: JSON.parse(metadata) })
      return {
        status: 200,
        body: { ok: true, channel: slack.at.team, ts: '1.0', channels: [renamed], messages },
      }
    }
    const call = message({ channel: '#old' }, { base: slack.scripted.url })
    expect(await call.find()).toBe('absent')
    const made = await call.make()
    slack.scripted.arrived.splice(0)
    expect(await call.find()).toEqual(made)
    expect(slack.scripted.arrived.map(({ path }) => path)).toEqual([
      '/conversations.list',
      '/conversations.history',
    ])
  })

  test('is looked for since an hour before it was sent, on at most 10 pages', async () => {
    slack.scripted.answer = () => ({
      status: 200,
      body: { ok: true, messages: [{ ts: '1.0' }], response_metadata: { next_cursor: 'next' } },
    })
    expect(await message({ channel: slack.at.team }, { base: slack.scripted.url }).find(600)).toBe('unclear')
    expect(slack.scripted.arrived).toHaveLength(10)
    const asked = new URLSearchParams(slack.scripted.arrived[1]?.body)
    expect(Object.fromEntries(asked)).toMatchObject({ include_all_metadata: 'true', cursor: 'next' })
    const since = Date.now() / 1_000 - Number(asked.get('oldest'))
    expect(since).toBeGreaterThan(3_600 + 599)
  })
})
