import { beforeEach, describe, expect, jest, test } from '@jest/globals'
import { sql } from 'kysely'
import { newId } from '../../../src/contract/ids.ts'
import { readStorageDrift } from '../../../src/db/queries/limits.ts'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import { addKey } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { until } from '../../stack/until.ts'
import { asAdmin } from '../../support/postgres.ts'
import { Agent, agentWorld, useAgentWorld, type AgentWorld } from './agent.ts'

/* Calls that a rule holds, until they run, are denied or are withdrawn: POST /authorize and POST /hooks/claude-code. */

let server: TestServer
let world: AgentWorld
useAgentWorld((made) => ({ server } = world = made), { RETENTION_DAYS: '0' })
beforeEach(() => world.hold('Write'))

const expire = (id: string) =>
  server.context.pool.query('update approvals set expires_at = clock_timestamp() where id = $1', [id])

describe('a held call', () => {
  test('gets the same approval when asked again, and runs once after approval', async () => {
    const agent = world.agent()
    const held = await agent.ask('Write', { file_path: 'a' })
    expect(held).toMatchObject({ decision: 'require_approval', reason: 'r' })
    const again = await agent.ask('Write', { file_path: 'a' })
    expect(again.approval_id).toBe(held.approval_id)
    const other = await agent.ask('Write', { file_path: 'b' })
    expect(other.approval_id).not.toBe(held.approval_id)
    expect((await world.decide(held.approval_id, 'approve')).status).toBe(200)
    const racing = await Promise.all([1, 2, 3].map(() => agent.ask('Write', { file_path: 'a' })))
    expect(racing.filter((each) => each.decision === 'allow')).toHaveLength(1)
    const anew = racing.filter((each) => each.decision === 'require_approval').map((each) => each.approval_id)
    expect(new Set(anew).size).toBe(1)
    expect(anew[0]).not.toBe(held.approval_id)
    const approval = await world.approval(held.approval_id)
    expect(approval).toMatchObject({
      kind: 'agent_call',
      session_id: agent.session,
      params: { file_path: 'a' },
      tool: 'Write',
      status: 'approved',
      used_at: expect.any(String),
    })
    expect(approval.requested_by).toBe(world.member.userId)
    const email = `${world.member.userId}@elsewhere.test`
    const { data } = await world.read(`/approvals?organization_id=${world.organizationId}`)
    const inList = data.find((each: { id: string }) => each.id === held.approval_id)
    expect([approval.requester_email, inList.requester_email]).toEqual([email, email])
  })

  test('stays denied after a rejection', async () => {
    const agent = world.agent()
    await world.decide((await agent.ask('Write')).approval_id, 'reject')
    const explanation = expect.stringContaining('rejected it')
    expect(await agent.ask('Write')).toMatchObject({ decision: 'deny', reason: 'r', explanation })
  })

  test('that is sent back is not edited, and the model reads the comment', async () => {
    const agent = world.agent()
    const { approval_id: id } = await agent.ask('Write')
    const back = { request_changes: true, comment: 'write it to the other folder' }
    expect((await world.asAdmin('POST', `/approvals/${id}/reject`, back)).status).toBe(200)
    const explanation = expect.stringContaining('write it to the other folder')
    expect(await agent.ask('Write')).toMatchObject({ decision: 'deny', explanation })
    const edit = { params: { file_path: 'other' } }
    expect((await world.asMember('POST', `/approvals/${id}/revise`, edit)).body.error).toMatchObject({
      code: 'bad_transition',
      message: expect.stringContaining('a call of an agent is not edited') as unknown,
    })
  })

  test('waits for its person, gets the decision at once, and only its own person may withdraw it', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    const path = `/authorize/approvals/${approval_id}`
    const waiting = world.asMember('GET', `${path}?wait=30`)
    expect((await world.asAdmin('GET', path)).status).toBe(404)
    await world.decide(approval_id, 'approve')
    expect((await waiting).body).toMatchObject({ status: 'approved', decided_by: world.admin.userId })
    const next = await agent.ask('Write', { n: 1 })
    const cancel = `/authorize/approvals/${next.approval_id}/cancel`
    expect((await world.asAdmin('POST', cancel)).status).toBe(404)
    expect((await world.asMember('POST', cancel)).body.status).toBe('cancelled')
    expect((await agent.ask('Write', { n: 1 })).approval_id).not.toBe(next.approval_id)
  })

  test('shows nothing more to a key that was revoked during the wait', async () => {
    const key = await addKey(server.context, world.organizationId, world.member.userId, ['agents:authorize'])
    const { approval_id } = await new Agent(server, key.secret).ask('Write')
    const waiting = server.call(key.secret, 'GET', `/authorize/approvals/${approval_id}?wait=30`)
    // The waiting request may see the decision before or after the revocation: the result is the same.
    await server.context.pool.query('update api_keys set revoked_at = now() where id = $1', [key.id])
    await world.decide(approval_id, 'approve')
    expect((await waiting).status).toBe(401)
  })

  test('is held anew after its expiry', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    await expire(approval_id)
    const path = `/authorize/approvals/${approval_id}`
    expect((await world.asMember('GET', path)).body.status).toBe('expired')
    expect((await agent.ask('Write')).approval_id).not.toBe(approval_id)
  })

  test('is held anew if the session has since got labels that the approver did not see', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    await world.decide(approval_id, 'approve')
    await agent.ask('Read')
    expect(await agent.ask('Write')).toMatchObject({
      decision: 'require_approval',
      approval_id: expect.not.stringContaining(approval_id),
    })
  })

  test('is denied if a denying rule was saved after the approval', async () => {
    const agent = world.agent()
    await world.decide((await agent.ask('Write')).approval_id, 'approve')
    await world.change('POST', '/rules', { name: 'no writes', verdict: 'deny', tools: ['Write'] })
    expect(await agent.ask('Write')).toMatchObject({ decision: 'deny', reason: 'no writes' })
  })

  test('that nobody needs to decide any more is withdrawn', async () => {
    const agent = world.agent()
    const { approval_id } = await agent.ask('Write')
    const { data } = (await world.change('GET', '/rules')).body
    await world.change('DELETE', `/rules/${data[0].id}`)
    expect((await agent.ask('Write')).decision).toBe('allow')
    expect((await world.approval(approval_id)).status).toBe('cancelled')
  })

  // The setting `keep_decision_params` for agents' questions (docs/decisions/0051).
  test('has its input shown while it waits, and not kept after if the setting says so', async () => {
    const agent = world.agent()
    const input = { file_path: 'a', content: 'secret' }
    const { approval_id: first } = await agent.ask('Write', input)
    const { approval_id: second } = await agent.ask('Write', { ...input, file_path: 'b' })
    await world.decide(first, 'approve')
    await removeOldData(server.context)
    expect((await world.approval(first)).params).toEqual(input)
    await world.change('PATCH', '/governance', { keep_decision_params: false })
    await removeOldData(server.context)
    const { params, params_hash, status } = await world.approval(first)
    expect([params, params_hash.length, status]).toEqual([undefined, 64, 'approved'])
    expect((await world.approval(second)).params.content).toBe('secret')
    // The agent sends the input again with each question, so the removed input is not needed.
    expect((await agent.ask('Write', input)).decision).toBe('allow')
  })
})

describe('the input of a call that is not held', () => {
  /** How many are kept, and by how much the counter of the organization is wrong. */
  const counted = async () => {
    const { rows } = await readStorageDrift(world.organizationId).execute(server.context.db)
    const kept = await server.context.pool.query(
      'select coalesce(sum(cardinality(decision_ids)), 0)::int as kept from decision_inputs where organization_id = $1',
      [world.organizationId],
    )
    return { kept: kept.rows[0].kept, drift: Number(rows[0]?.bytes) }
  }

  test('stays sealed for 30 days, counts towards `storage_mb`, and goes when the setting says so', async () => {
    const agent = world.agent()
    await agent.ask('WebFetch', { url: 'https://secret.example' })
    await agent.ask('WebFetch', { url: 'https://other.example' })
    expect(await counted()).toEqual({ kept: 2, drift: 0 })
    const { rows } = await server.context.pool.query('select sealed from decision_inputs where organization_id = $1', [world.organizationId]) // prettier-ignore
    expect(rows.map(({ sealed }) => sealed.includes('secret.example'))).toEqual([false, false])
    await asAdmin(server.adminUrl, (client) => client.query(`update decision_inputs set decided_at = now() - interval '31 days' where organization_id = $1 and id = (select min(id) from decision_inputs where organization_id = $1)`, [world.organizationId])) // prettier-ignore
    await removeOldData(server.context)
    expect(await counted()).toEqual({ kept: 1, drift: 0 })
    await world.change('PATCH', '/governance', { keep_decision_params: 'held' })
    await agent.ask('WebFetch', { url: 'https://third.example' })
    await removeOldData(server.context)
    expect(await counted()).toEqual({ kept: 0, drift: 0 })
  })

  test('is not kept once four fifths of `storage_mb` are used, so that calls go on', async () => {
    await world.change('PATCH', '/quota', { storage_mb: 10 })
    const { pool } = server.context
    await pool.query('update chain_head set stored_bytes = $2 where organization_id = $1', [world.organizationId, 9 * 1024 ** 2]) // prettier-ignore
    expect(await world.agent().ask('WebFetch', { url: 'https://a.example' })).toMatchObject({
      decision: 'allow',
    })
    expect(await counted()).toMatchObject({ kept: 0 })
  })
})

test('60 waiting held calls use no database connection, and all get their decision', async () => {
  const held = 60
  const agent = world.agent()
  const answers = await Promise.all(
    Array.from({ length: held }, (_, n) => agent.ask('Write', { file_path: `/w/${n}` })),
  )
  const path = (id: string) => `/authorize/approvals/${id}`
  const waiting = answers.map(({ approval_id: id }) =>
    server.call(agent.key, 'GET', `${path(id)}?wait=30`).then(({ body }) => body.status),
  )

  // There are more waiting calls than connections in the pool. If each waiting call held a connection, no other request
  // would be answered.
  expect(held).toBeGreaterThan(server.context.pool.options.max)
  expect(await agent.ask('Read')).toMatchObject({ decision: 'allow' })
  await free(server)

  await agent.send(agent.question('Read'))
  for (const { approval_id: id } of answers) await server.call(agent.key, 'POST', `${path(id)}/cancel`, {})
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['cancelled']))
})

/** Resolves once all connections of the application are idle. */
async function free({ context }: TestServer): Promise<void> {
  for (;;) {
    const { rows } = await sql<{ busy: number }>`
      select count(*)::int as busy from pg_stat_activity
      where datname = current_database() and usename = current_user and pid <> pg_backend_pid() and state <> 'idle'
    `.execute(context.db)
    if (rows[0]?.busy === 0) return
  }
}

/*
 * POST /hooks/claude-code. A client runs the call unless it gets a 2xx answer with a denial that it can read. Every
 * answer is therefore judged as the client would judge it.
 */

const event = (more: object = {}) => ({
  hook_event_name: 'PreToolUse',
  session_id: newId('session'),
  transcript_path: '/home/u/.claude/x.jsonl',
  cwd: '/w',
  permission_mode: 'default',
  tool_name: 'Write',
  tool_input: { file_path: 'a' },
  tool_use_id: newId('event'),
  ...more,
})
const read = (more: object = {}) => event({ tool_name: 'Read', ...more })

/**
 * The effect of the answer on the client: the text of the denial that the model reads, or `runs`. The call runs unless
 * the answer denies it in the client's schema.
 */
async function hook(body: unknown, query = '?wait=0', headers = {}, key = world.member.key): Promise<string> {
  const path = `/hooks/claude-code${query}`
  const answer = await server.call(key, 'POST', path, body, headers)
  const told = answer.status === 200 ? answer.body?.hookSpecificOutput : undefined
  const blocks = told?.hookEventName === 'PreToolUse' && told.permissionDecision === 'deny'
  return blocks ? told.permissionDecisionReason : 'runs'
}

const approvals = async (session: string) => {
  const { data } = await world.read('/approvals?kind=agent_call')
  return data.filter((each: { session_id: string }) => each.session_id === session)
}
const statusesOf = async (session: string) =>
  (await approvals(session)).map((each: { status: string }) => each.status)

/** Waits for a pending approval of this session, and returns it. */
async function waiting(session: string): Promise<string> {
  for (;;) {
    const [found] = await approvals(session)
    if (found?.status === 'pending') return found.id
  }
}

describe('the hook', () => {
  test('leaves an allowed call to the client, blocks a denied one, and accepts unknown fields', async () => {
    await world.change('POST', '/rules', { name: 'no edits', verdict: 'deny', tools: ['Edit'] })
    expect(await hook(read())).toBe('runs')
    const edit = event({ tool_name: 'Edit', agent_id: 'a', of_tomorrow: { x: 1 } })
    expect(await hook(edit)).toContain('no edits')
  })

  test('belongs to the organization of its address: the key of another one is denied', async () => {
    const { key } = (await agentWorld(server)).member
    const named = `?wait=0&organization_id=${world.organizationId}`
    expect(await hook(read(), named)).toBe('runs')
    expect(await hook(read(), named, {}, key)).toMatch(/wrong organization/i)
    expect(await hook(read(), '?wait=0', {}, key)).toBe('runs')
    expect(await hook(read(), '?organization_id=', {}, key)).toContain('Blocked')
    expect(await hook(read(), `?organisation_id=${world.organizationId}`)).toContain('unknown parameter')
  })

  test.each<[string, unknown, string?, object?]>([
    ['nothing', undefined],
    ['no JSON', '{'],
    ['null', 'null'],
    ['another event', read({ hook_event_name: 'PostToolUse' })],
    ['an event name in another case', read({ hook_event_name: 'preToolUse' })],
    ['no event', read({ hook_event_name: undefined })],
    ['no session', read({ session_id: undefined })],
    ['an empty session', read({ session_id: '' })],
    ['no tool', event({ tool_name: undefined })],
    ['no input', read({ tool_input: undefined })],
    ['an input that is a list', read({ tool_input: [] })],
    ['an id that is a number', read({ tool_use_id: 1 })],
    ['a wait that is given twice', read(), '?wait=1&wait=2'],
    ['another type', read(), '', { 'content-type': 'text/plain' }],
    ['an encoding', read(), '', { 'content-encoding': 'gzip' }],
  ])('blocks an unreadable body: %s', async (_name, body, query = '', headers = {}) => {
    expect(await hook(body, query, headers)).toContain('unreadable request')
  })

  test('reads 3 MB, and 5 MB are too many', async () => {
    const sized = (length: number) => read({ tool_input: { text: 'x'.repeat(length) } })
    expect(await hook(sized(3_000_000))).toBe('runs')
    expect(await hook(sized(5_000_000))).toContain('unreadable request')
  })

  test.each(['?wait=-1', '?wait=x', '?wait=1e9', '?wait=', '?wait=0'])(
    'holds without a wait: %s',
    async (query) => {
      expect(await hook(event(), query)).toContain('is still pending')
    },
  )

  test('ends its wait when the approval expires, also after more than a minute', async () => {
    const seconds = 77
    const rule = { name: 'searches wait', verdict: 'require_approval', tools: ['Grep'] }
    await world.change('POST', '/rules', { ...rule, expires_after_seconds: seconds })
    const timers = jest.spyOn(globalThis, 'setTimeout')
    try {
      const call = event({ tool_name: 'Grep' })
      const answer = hook(call, '?wait=500')
      const id = await waiting(call.session_id)
      const isOfExpiry = (milliseconds: number | undefined): boolean =>
        milliseconds !== undefined && Math.abs(milliseconds / 1_000 - seconds) < 5
      const armed = () => timers.mock.calls.find(([, milliseconds]) => isOfExpiry(milliseconds))
      await until('a timer for the expiry', () => armed() !== undefined)
      await expire(id)
      armed()?.[0]()
      expect(await answer).toContain('has expired')
    } finally {
      timers.mockRestore()
    }
  })
})

describe('a call that waits in the hook', () => {
  test.each([
    ['', () => ''],
    [' of the organization in the address', () => `&organization_id=${world.organizationId}`],
  ])('runs once after its approval%s', async (_, named) => {
    const call = event()
    const answer = hook(call, `?wait=999${named()}`)
    await world.decide(await waiting(call.session_id), 'approve')
    expect(await answer).toBe('runs')
    expect(await hook({ ...call, tool_use_id: 'another' })).toContain('is still pending')
  })

  test('is blocked after a rejection', async () => {
    const call = event()
    const answer = hook(call, '?wait=60')
    await world.decide(await waiting(call.session_id), 'reject')
    expect(await answer).toContain('It stays denied')
  })

  test.each(['ended', 'revoked', 'withdrawn'])('is blocked, and nothing waits any more: %s', async (how) => {
    const call = event()
    const answer = hook(call, '?wait=60')
    const id = await waiting(call.session_id)
    if (how === 'ended') await world.end(call.session_id)
    else if (how === 'revoked') await world.revoke(call.session_id)
    else await world.asMember('POST', `/authorize/approvals/${id}/cancel`)
    const words =
      how === 'revoked' ? 'was withdrawn, because this session was revoked: it can' : 'was withdrawn: make'
    expect(await answer).toContain(words)
    const own = await world.asMember('GET', `/authorize/approvals/${id}`)
    const session_status = how === 'withdrawn' ? 'live' : how
    expect(own.body).toMatchObject({ status: 'cancelled', session_status })
    expect(await statusesOf(call.session_id)).toEqual(['cancelled'])
    expect(await world.sessions(call.session_id)).toMatchObject([{ status: session_status }])
  })

  test('is blocked if the organization is frozen, the key ends or the person leaves meanwhile', async () => {
    const call = event()
    const answer = hook(call, '?wait=60')
    const id = await waiting(call.session_id)
    await world.change('POST', '/freeze', { reason: 'incident' })
    await world.decide(id, 'approve')
    expect(await answer).toContain('organization frozen')
    await world.change('POST', '/unfreeze', { reason: 'over' })
    const other = event()
    const second = hook(other, '?wait=60')
    const held = await waiting(other.session_id)
    await world.change('DELETE', `/members/${world.member.userId}`)
    await world.decide(held, 'approve')
    expect(await second).toContain('was withdrawn')
    expect(await hook(other)).toContain('not a member')
  })

  /** Asks about the call as a client that can close the connection would. */
  const asking = (call: object): { hangUp: () => Promise<void> } => {
    const patience = new AbortController()
    const answer = fetch(`${server.base}/api/v1/hooks/claude-code?wait=60`, {
      method: 'POST',
      headers: { authorization: `Bearer ${world.member.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(call),
      signal: patience.signal,
    })
    const hangUp = async (): Promise<void> => {
      patience.abort()
      await expect(answer).rejects.toThrow()
    }
    return { hangUp }
  }
  /** Replaces how requests learn of decisions while `work` runs. */
  async function subscribingBy(subscribe: () => () => void, work: () => Promise<void>): Promise<void> {
    const { notifier } = server.context
    const before = notifier.subscribe.bind(notifier)
    notifier.subscribe = subscribe
    try {
      await work()
    } finally {
      notifier.subscribe = before
    }
  }

  test('is withdrawn if the client hangs up', async () => {
    const call = event()
    const { hangUp } = asking(call)
    await waiting(call.session_id)
    await hangUp()
    await until('the call no longer waits', async () => {
      const [status] = await statusesOf(call.session_id)
      return status === 'cancelled'
    })
    // The same call, sent again, is a new question.
    expect(await hook(call)).toContain('is still pending')
  })

  test('keeps an approval that was given before the client hung up: the same call passes once', async () => {
    const call = event()
    const { promise: over, resolve } = Promise.withResolvers<void>()
    // The decision does not wake the request: it still waits when its client closes the connection.
    await subscribingBy(
      () => resolve,
      async () => {
        const { hangUp } = asking(call)
        await world.decide(await waiting(call.session_id), 'approve')
        await hangUp()
        await over
      },
    )
    expect(await statusesOf(call.session_id)).toEqual(['approved'])
    expect(await hook(call)).toBe('runs')
    expect(await hook({ ...call, tool_use_id: 'another' })).toContain('is still pending')
  })

  test('stays held if waiting for it fails', async () => {
    const fail = (): never => {
      throw new Error('the database is gone')
    }
    await subscribingBy(fail, async () => {
      expect(await hook(event(), '?wait=60')).toContain('is still pending')
    })
  })
})
