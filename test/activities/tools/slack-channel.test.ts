import { describe, expect, test } from '@jest/globals'
import { rejection } from './call.ts'
import { SlackCall } from './slack-call.ts'
import { useSlack, type SlackStand } from './slack-fixture.ts'

let slack: SlackStand
useSlack((started) => (slack = started))

const channel = (params: object, over = {}) =>
  new SlackCall('slack_create_channel', params, { base: slack.proxy.url, ...over })

describe('a channel', () => {
  const of = async (id: string) => (await slack.channels()).find((each) => each.id === id)
  const membersOf = async (id: string) =>
    ((await slack.ask('conversations.members', { channel: id })) as unknown as { members: string[] }).members

  test.each([
    ['public', false],
    ['private', true],
  ])('%s is made, and the person who runs the workflow is invited', async (name, is_private) => {
    const call = channel({ name: `#new-${name}`, is_private }, { account: slack.at.member })
    const made = await call.make()
    expect(made).toEqual({ channel: made.channel, name: `new-${name}`, invited: true })
    expect(await of(made.channel)).toMatchObject({ name: `new-${name}`, is_private })
    expect(await membersOf(made.channel)).toContain(slack.at.member)
    expect(await call.find()).toEqual(made)
  })

  test('public is made without an invitation if no account is linked, private is not', async () => {
    expect(await channel({ name: 'alone' }).make()).toMatchObject({ name: 'alone', invited: false })
    const error = await rejection(channel({ name: 'closed', is_private: true }).make())
    expect(error).toMatchObject({ code: 'slack_account_not_linked', retryable: false })
    expect((await slack.channels()).map(({ name }) => name)).not.toContain('closed')
  })

  test('stands although Slack refuses the invitation', async () => {
    const made = await channel({ name: 'refused' }, { account: 'U99999999' }).make()
    expect(made).toMatchObject({ name: 'refused', invited: false })
  })

  test.each(['conversations.setPurpose', 'conversations.invite'])(
    'that was interrupted before %s is completed when it is found',
    async (method) => {
      const name = `cut-${method.slice(14).toLowerCase()}`
      const call = channel({ name }, { account: slack.at.member })
      slack.proxy.choose = (_, path) => (path.endsWith(method) ? 'cut' : 'pass')
      expect(await rejection(call.make())).toMatchObject({ name: 'OutcomeUnknown' })
      expect(await rejection(call.find())).toMatchObject({ code: 'slack_unavailable', retryable: true })
      slack.proxy.choose = () => 'pass'
      const found = await call.find()
      expect(found).toMatchObject({ name, invited: true })
      expect((await slack.channels()).filter((each) => each.name === name)).toHaveLength(1)
      expect(await call.find()).toEqual(found)
    },
  )

  test('that is found does not get an account that was linked after it was made', async () => {
    const call = channel({ name: 'linked-later' }, { account: slack.at.member, linkedSecondsAgo: 30 })
    slack.proxy.choose = (_, path) => (path.endsWith('conversations.invite') ? 'cut' : 'pass')
    expect(await rejection(call.make())).toMatchObject({ name: 'OutcomeUnknown' })
    slack.proxy.choose = () => 'pass'
    const found = await call.find(10)
    expect(found).toMatchObject({ name: 'linked-later', invited: false })
    expect(await membersOf((found as { channel: string }).channel)).not.toContain(slack.at.member)
  })

  test('is absent if there is none, or if the one of this name is another call’s', async () => {
    expect(await channel({ name: 'nobody' }).find()).toBe('absent')
    await channel({ name: 'mine' }).make()
    const other = channel({ name: 'mine' })
    expect(await rejection(other.make())).toMatchObject({ code: 'slack_name_taken', retryable: false })
    expect(await other.find()).toBe('absent')
  })

  const taken = (found: object): void => {
    const listed = { id: 'C0TAKEN01', name: 'taken', creator: 'U0SELF', is_private: false, ...found }
    slack.scripted.answer = ({ path }) => ({
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
    const call = channel({ name: 'taken' }, { base: slack.scripted.url })
    expect(await call.find(600)).toEqual(expected)
    const changes = slack.scripted.arrived.filter(
      ({ path }) => !['/auth.test', '/conversations.list'].includes(path),
    )
    expect(changes.length).toBe(expected === found ? 1 : 0)
  })

  test('among very many is looked for on at most 20 pages', async () => {
    slack.scripted.answer = () => ({
      status: 200,
      body: { ok: true, channels: [], response_metadata: { next_cursor: 'next' } },
    })
    expect(await channel({ name: 'one-of-many' }, { base: slack.scripted.url }).find(600)).toBe('unclear')
    expect(slack.scripted.arrived).toHaveLength(20)
  })

  test('two calls for one name whose answers are both lost make one channel, and one of them fails', async () => {
    const calls = [channel({ name: 'twice' }), channel({ name: 'twice' })] as const
    slack.proxy.choose = (_, path) => (path.endsWith('conversations.create') ? 'lose answer' : 'pass')
    for (const call of calls) expect(await rejection(call.make())).toMatchObject({ name: 'OutcomeUnknown' })
    slack.proxy.choose = () => 'pass'
    expect(await calls[0].find(10)).toMatchObject({ name: 'twice' })
    expect(await calls[1].find(10)).toBe('absent')
    expect(await rejection(calls[1].make())).toMatchObject({ code: 'slack_name_taken' })
    expect((await slack.channels()).filter(({ name }) => name === 'twice')).toHaveLength(1)
  })

  test('that somebody else made at that time is no answer', async () => {
    const { channel: made } = await slack.ask('conversations.create', { name: 'theirs' })
    await slack.ask('conversations.setPurpose', { channel: made.id, purpose: 'ours' })
    expect(await channel({ name: 'theirs' }).find()).toBe('unclear')
  })
})
