import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { type ChatHome, startChatHome } from './chat-home.ts'
import { addOrganization, addPerson } from '../../api/fixtures.ts'
import { effectOf, holdRule, opOf } from '../../governance/runs/engine-fixture.ts'
import { Pace } from '../../../src/activities/notify/pace.ts'
import { connect } from '../../../src/governance/connections/connections.ts'
import { endTurns, takeLanes } from '../../../src/db/queries/lanes.ts'
import {
  type Turn,
  markFailed,
  markIntent,
  markRetry,
} from '../../../src/governance/notifications/slack-records.ts'
import { until } from '../../stack/until.ts'
import { emulatorToken } from '../../support/emulators.ts'
import { startFaultProxy } from '../../support/fault-proxy.ts'

/* Processes that send at the same time, stand still or die, and organizations that share a process. */

let home: ChatHome
beforeAll(async () => {
  home = await startChatHome()
})
beforeEach(async () => {
  home.proxy.choose = () => 'pass'
  await home.settle()
})
afterAll(() => home?.close())

const rows = () => home.rows()
/** The organizations whose lanes a turn has taken. */
async function takenBy(turn: string, most: number): Promise<readonly string[]> {
  const limits = { ids: null, leaseSeconds: 45, most, mostAiling: most, mostOfOrganization: null }
  const { rows } = await takeLanes({ kind: 'slack', turn, ...limits }).execute(home.engine.context.db)
  return rows.map(({ id }) => id)
}
const leave = (id: string, turn: string, due: number | null = 0) => {
  const ended = { id, turn, due, pause: 0, failures: 0, ailing: false, error: null, done: false }
  return endTurns('slack', [ended]).execute(home.engine.context.db)
}
const copies = (approvalId: string) => home.copies(approvalId)

test('two processes send each message once', async () => {
  const other = home.engine.another()
  const ids: string[] = []
  for (let each = 0; each < 10; each += 1) ids.push(await home.hold())
  const chats = [home.send(), home.send(other)]
  await home.plan()
  await home.quiet()
  for (const id of ids) await home.engine.vote(id, 'approver')
  await home.plan()
  await home.quiet()
  await Promise.all(chats.map((chat) => chat.stop()))
  for (const id of ids) expect(await copies(id)).toHaveLength(3)
})

test('a process that stood still after its intent sends nothing, and another one sends the message once', async () => {
  let posted = 0
  home.proxy.choose = (_, path) => (path === '/chat.postMessage' && (posted += 1), 'pass')
  const id = await home.hold()
  await home.plan()
  const still = home.send(home.engine.another(), { leaveMilliseconds: 0, retrySeconds: 3_600 })
  await until('all intents are written', async () =>
    (await rows()).filter(({ subject, intent_at }) => subject === id && intent_at !== null).length === 3,
  )
  await until('all were given back', async () =>
    (await rows()).filter(({ subject, last_error }) => subject === id && last_error === 'slack_unknown').length === 3,
  )
  await still.stop()
  expect(posted).toBe(0)
  await home.hurry()
  await home.settle()
  expect(await copies(id)).toHaveLength(3)
  expect(posted).toBe(3)
}) // prettier-ignore

test('an intent renews the lease, and a process whose turn is over writes nothing', async () => {
  const { context, organizationId } = home.engine
  const id = await home.hold()
  await home.plan()
  const [row] = (await rows()).filter(({ subject }) => subject === id)
  if (row === undefined) throw new Error('no row')
  const [mine, other] = ['mine', 'other'].map((turn) => ({ organizationId, turn })) as [Turn, Turn]
  const take = async (turn: string): Promise<void> => {
    await context.pool.query(
      `update lanes set leased_until = now() where kind = 'slack' and turn is not null`,
    )
    expect(await takenBy(turn, 9)).toEqual([organizationId])
  }
  const retry = { seconds: 0, error: 'e', attempts: 1, failures: 0, isUnsent: true }
  await take('mine')
  await context.pool.query(
    `update lanes set leased_until = now() + interval '2 seconds' where kind = 'slack'`,
  )
  expect(await markIntent(context.db, mine, row, { account: 'a' })).toBe(true)
  const left = `select extract(epoch from leased_until - now()) > 40 as much from lanes where kind = 'slack'`
  expect((await context.pool.query(left)).rows).toEqual([{ much: true }])
  await take('other')
  expect(await markIntent(context.db, mine, row, { account: 'a' })).toBe(false)
  await markRetry(context.db, mine, row.id, retry)
  await markFailed(context.db, mine, row, 'e', 2)
  const unchanged = async () => (await rows()).find((each) => each.id === row.id)
  expect(await unchanged()).toMatchObject({ state: 'pending', place: { account: 'a' }, last_error: null })
  await markRetry(context.db, other, row.id, retry)
  expect(await unchanged()).toMatchObject({ place: null, intent_at: null, last_error: 'e' })
  await leave(organizationId, 'other')
  await home.settle()
})

test('organizations take turns, and each gives its place to others when its turn ends', async () => {
  const { context } = home.engine
  const others = ['org_b', 'org_c']
  for (const id of others)
    await context.pool.query(
      `with o as (insert into organizations (id, name, plan) select $1, $1, plan from organizations limit 1 returning id)
       insert into notifications (id, organization_id, channel, event, kind, subject, recipient, message_id)
       select 'ntf_' || $1, id, 'slack', 'approval.created', 'approval', 'apr_x', 'usr_x', 'ntf_' || $1 from o`,
      [id],
    )
  for (const id of others)
    await context.pool.query(`insert into lanes (kind, id, organization_id) values ('slack', $1, $1)`, [id])
  const turns: string[] = []
  for (let turn = 0; turn < 4; turn += 1) {
    const [id] = await takenBy(`t${turn}`, 1)
    if (id === undefined) throw new Error('no lane')
    turns.push(id)
    await leave(id, `t${turn}`)
  }
  expect(turns).toEqual([...others, ...others])
  await context.pool.query(`delete from notifications where organization_id in ('org_b', 'org_c')`)
  await context.pool.query(`delete from lanes where id in ('org_b', 'org_c')`)
  // With turns of 0 ms, everything that is due is still sent, in many turns.
  const id = await home.hold()
  await home.plan()
  const chat = home.send(undefined, { turnMilliseconds: 0 })
  await home.quiet()
  await chat.stop()
  expect(await copies(id)).toHaveLength(3)
})

test('an organization whose Slack does not answer delays no other', async () => {
  const { context, caller } = home.engine
  const { id: slow, owner } = await addOrganization(context)
  const hanging = await startFaultProxy(home.proxy.url)
  await connect(
    context,
    { ...caller('owner'), organizationId: slow, userId: owner.userId, keyId: owner.keyId },
    { tool: 'slack_send_message', credential: { token: emulatorToken, base_url: hanging.url }, scope: 'organization', name: undefined },
    new AbortController().signal,
  )
  const asked = Promise.withResolvers<void>()
  hanging.choose = () => () => asked.resolve()
  const stuck = await home.hold()
  await home.plan()
  const { pool } = context
  await pool.query(`update memberships set slack_account = $1, slack_linked_at = now() where organization_id = $2`, [home.accounts['admin'], slow])
  await pool.query(`update approvals set organization_id = $1 where id = $2`, [slow, stuck])
  await pool.query(`delete from notifications where subject = $1 and id > (select min(id) from notifications where subject = $1)`, [stuck])
  await pool.query(`update notifications set organization_id = $1, recipient = $2 where subject = $3`, [slow, owner.userId, stuck])
  await pool.query(`insert into lanes (kind, id, organization_id) values ('slack', $1, $1)`, [slow])
  const chat = home.send()
  await asked.promise
  const id = await home.hold()
  await home.plan()
  await until('ours are sent', async () =>
    (await rows()).filter(({ subject, state }) => subject === id && state === 'sent').length === 3,
  )
  expect((await rows()).find(({ subject }) => subject === stuck)?.state).toBe('pending')
  expect(await copies(id)).toHaveLength(3)
  await pool.query(`delete from notifications where organization_id = $1`, [slow])
  await hanging.close()
  await chat.stop()
}) // prettier-ignore

test('a message whose process died is looked for, and sent if it is not there', async () => {
  const { context } = home.engine
  const [there, missing] = [await home.hold(), await home.hold()]
  let lost = 0
  // The process seems to die after Slack has taken the message, or before the request.
  home.proxy.choose = (_, path) => (path === '/chat.postMessage' ? ((lost += 1) % 2 === 0 ? 'lose answer' : 'cut') : 'pass')
  await home.plan()
  const chat = home.send(context, { retrySeconds: 3_600 })
  await until('all were tried', () => lost === 6)
  await chat.stop()
  home.proxy.choose = () => 'pass'
  await home.hurry()
  await home.settle()
  for (const id of [there, missing]) expect(await copies(id)).toHaveLength(3)
}) // prettier-ignore

describe('many approvals', () => {
  /*
   * Many approvals for many people at once, with the limits of Slack made 100 times faster. `MANY_MESSAGES=1` sends 10,000
   * messages, which takes minutes.
   */

  const [approvals, people] = process.env['MANY_MESSAGES'] === '1' ? [200, 50] : [30, 12]
  const names = Array.from({ length: people }, (_, index) => `many${index}`)

  let home: ChatHome
  beforeAll(async () => {
    home = await startChatHome(names)
    const { context, organizationId } = home.engine
    for (const name of names) {
      const { userId } = await addPerson(context, organizationId, 'admin')
      await context.db
        .updateTable('memberships')
        .set({ slack_account: home.accounts[name] as string, slack_linked_at: new Date() })
        .where('user_id', '=', userId)
        .where('organization_id', '=', organizationId)
        .execute()
    }
  })
  afterAll(() => home?.close())

  /** Slack's limits, in requests per minute. In this test a minute is 100 times shorter. */
  const limits: Readonly<Record<string, number>> = {
    '/chat.postMessage': 240,
    '/chat.update': 50,
    '/conversations.open': 50,
    '/conversations.history': 50,
  }
  const minute = 600
  /** Requests that may already be on their way when Slack begins to refuse. */
  const underWay = 16

  const due = async (): Promise<number> => {
    const { rows } = await home.engine.context.pool.query<{ count: number }>(
      'select count(*)::int as count from notifications where shown < wanted and id = message_id',
    )
    return rows[0]?.count ?? 0
  }

  /** Waits while the number of messages that are due falls, however long this takes. */
  async function everythingIsSent(): Promise<void> {
    for (let left = await due(); left > 0; left = await due()) {
      const before = left
      await until('some more are sent', async () => (await due()) < before)
    }
  }

  test(`${approvals} approvals for ${people} people: none is lost or doubled, and the limits are kept`, async () => {
    const seen = new Map<string, number[]>()
    let patientUntil = 0
    let impatient = 0
    let refusals = 0
    home.proxy.choose = (_, path) => {
      const now = performance.now()
      if (now < patientUntil) impatient += 1
      const times = (seen.get(path) ?? []).filter((time) => time > now - minute)
      times.push(now)
      seen.set(path, times)
      if (times.length <= (limits[path] ?? Infinity)) return 'pass'
      refusals += 1
      patientUntil = now + 1_000
      return { status: 429, headers: { 'retry-after': '1' } }
    }
    const ids: string[] = []
    await home.engine.rules(holdRule())
    for (let each = 0; each < approvals; each += 1) {
      const op = opOf(await home.engine.run())
      await home.engine.decide(op)
      ids.push((await effectOf(home.engine.context, op))?.approval_id as string)
    }
    const chats = [home.send(undefined, { speed: 100 }), home.send(home.engine.another(), { speed: 100 })]
    while ((await home.plan()) !== 0);
    await everythingIsSent()
    const mostEnded = ids.slice(0, 10)
    for (const id of mostEnded) await home.engine.vote(id, 'approver', 'reject')
    while ((await home.plan()) !== 0);
    await everythingIsSent()
    await Promise.all(chats.map((chat) => chat.stop()))
    home.proxy.choose = () => 'pass'
    for (const name of names) {
      const texts = (await home.messages(name)).map(({ text }) => text)
      expect(texts).toHaveLength(approvals)
      const about = texts.map((text) => /approvals\/(apr_\w+)/.exec(text)?.[1])
      expect(new Set(about)).toEqual(new Set(ids))
      const ended = texts.filter((text) => text.startsWith('*Rejected*'))
      expect(ended).toHaveLength(mostEnded.length)
    }
    expect(impatient).toBeLessThanOrEqual(refusals * underWay)
  }, 1_200_000)
})

describe('the pace of requests', () => {
  /** The limits are this many times faster in these tests. */
  const speed = 100
  const minute = 60_000 / speed

  /** Milliseconds until all requests may be sent, if all of them are wanted at once. */
  async function timeFor(
    requests: readonly (readonly [Parameters<Pace['take']>[0], string?])[],
  ): Promise<number> {
    const pace = new Pace(speed)
    const started = performance.now()
    await Promise.all(requests.map(([kind, place]) => pace.take(kind, place)))
    return performance.now() - started
  }

  /*
   * The tests state only the shortest time that a limit demands, so that a slow machine passes them. Without a limit, the
   * requests take no time at all. `early`: a timer may fire a little too early.
   */
  const early = 5
  test.each([
    ['post', 220, 20],
    ['open', 40, 10],
    ['history', 40, 10],
    ['update', 40, 10],
  ] as const)('%s: %i requests a minute, of which %i may go at once', async (kind, perMinute, burst) => {
    const count = burst + perMinute / 4
    const shortest = ((count - burst) / perMinute) * minute
    expect(await timeFor(Array.from({ length: count }, () => [kind]))).toBeGreaterThanOrEqual(
      shortest - early,
    )
  })

  test('a conversation gets one message a second', async () => {
    const messages = Array.from({ length: 11 }, () => ['conversation', 'C1'] as const)
    expect(await timeFor(messages)).toBeGreaterThanOrEqual(10 * (1_000 / speed) - early)
  })

  test('conversations do not wait for each other', async () => {
    const pace = new Pace(1e-6)
    await Promise.all(Array.from({ length: 50 }, (_, each) => pace.take('conversation', `C${each}`)))
  })
})
