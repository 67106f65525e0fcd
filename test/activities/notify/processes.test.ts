import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { connect } from '../../../src/governance/connections/connections.ts'
import { leaveLane, takeLanes, type Turn } from '../../../src/governance/notifications/lanes.ts'
import { markFailed, markIntent, markRetry } from '../../../src/governance/notifications/record.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { until } from '../../stack/until.ts'
import { emulatorToken } from '../../support/emulators.ts'
import { startFaultProxy } from '../../support/fault-proxy.ts'
import { startChatHome, type ChatHome } from './chat-home.ts'

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
  await home.engine.context.pool.query('update notifications set next_attempt_at = now()')
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
    await context.pool.query(`update notification_lanes set leased_until = null, paused_until = null`)
    expect(await takeLanes(context.db, turn, { limit: 9, own: [] })).toEqual([{ organizationId, turn }])
  }
  const retry = { seconds: 0, error: 'e', attempts: 1, failures: 0, isUnsent: true }
  await take('mine')
  await context.pool.query(`update notification_lanes set leased_until = now() + interval '2 seconds'`)
  expect(await markIntent(context.db, mine, row, { account: 'a' })).toBe(true)
  const left = `select extract(epoch from leased_until - now()) > 40 as much from notification_lanes`
  expect((await context.pool.query(left)).rows).toEqual([{ much: true }])
  await take('other')
  expect(await markIntent(context.db, mine, row, { account: 'a' })).toBe(false)
  await markRetry(context.db, mine, row.id, retry)
  await markFailed(context.db, mine, row, 'e', 2)
  const unchanged = async () => (await rows()).find((each) => each.id === row.id)
  expect(await unchanged()).toMatchObject({ state: 'pending', place: { account: 'a' }, last_error: null })
  await markRetry(context.db, other, row.id, retry)
  expect(await unchanged()).toMatchObject({ place: null, intent_at: null, last_error: 'e' })
  await leaveLane(context.db, other, 0)
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
  const turns: string[] = []
  for (let turn = 0; turn < 4; turn += 1) {
    const [lane] = await takeLanes(context.db, `t${turn}`, { limit: 1, own: [] })
    if (lane === undefined) throw new Error('no lane')
    turns.push(lane.organizationId)
    await leaveLane(context.db, lane, 0)
  }
  expect(turns).toEqual([...others, ...others])
  await context.pool.query(`delete from notifications where organization_id in ('org_b', 'org_c')`)
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
  await context.pool.query('update notifications set next_attempt_at = now()')
  await home.settle()
  for (const id of [there, missing]) expect(await copies(id)).toHaveLength(3)
}) // prettier-ignore
