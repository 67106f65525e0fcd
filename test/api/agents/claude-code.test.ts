import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { sql } from 'kysely'
import { newId } from '../../../src/contract/ids.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { until } from '../../stack/until.ts'
import { agentWorld, type AgentWorld } from './agent.ts'

/*
 * POST /hooks/claude-code. A client runs the call unless it gets a 2xx answer with a denial that it can read. Every
 * answer is therefore judged as the client would judge it.
 */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
  await world.change('POST', '/rules', { name: 'writes wait', verdict: 'require_approval', tools: ['Write'] })
})
afterAll(() => server.close())

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
  const { data } = (await server.call(world.admin.key, 'GET', '/approvals?kind=agent_call')).body
  return data.filter((each: { session_id: string }) => each.session_id === session)
}

/** Waits for a pending approval of this session, and returns it. */
async function waiting(session: string): Promise<string> {
  for (;;) {
    const [found] = await approvals(session)
    if (found?.status === 'pending') return found.id
  }
}

test('an allowed call is left to the client, a denied one is blocked, and unknown fields are accepted', async () => {
  await world.change('POST', '/rules', { name: 'no edits', verdict: 'deny', tools: ['Edit'] })
  expect(await hook(event({ tool_name: 'Read' }))).toBe('runs')
  expect(await hook(event({ tool_name: 'Edit', agent_id: 'a', of_tomorrow: { x: 1 } }))).toContain('no edits')
})

test('the organization of the address decides: the key of another one is denied', async () => {
  const other = await agentWorld(server)
  const read = () => event({ tool_name: 'Read' })
  const named = `?wait=0&organization_id=${world.organizationId}`
  expect(await hook(read(), named)).toBe('runs')
  expect(await hook(read(), named, {}, other.member.key)).toMatch(/wrong organization/i)
  expect(await hook(read(), '?wait=0', {}, other.member.key)).toBe('runs')
  expect(await hook(read(), '?organization_id=', {}, other.member.key)).toContain('Blocked')
  expect(await hook(read(), `?organisation_id=${world.organizationId}`)).toContain('unknown parameter')
})

test('the organization of the address also counts when an approved call is asked about again', async () => {
  const named = `?wait=30&organization_id=${world.organizationId}`
  const call = event()
  const answer = hook(call, named)
  await world.decide(await waiting(call.session_id), 'approve')
  expect(await answer).toBe('runs')
})

test.each<[string, unknown, string?, object?]>([
  ['nothing', undefined],
  ['no JSON', '{'],
  ['null', 'null'],
  ['another event', event({ hook_event_name: 'PostToolUse', tool_name: 'Read' })],
  ['an event name in another case', event({ hook_event_name: 'preToolUse', tool_name: 'Read' })],
  ['no event', { ...event({ tool_name: 'Read' }), hook_event_name: undefined }],
  ['no session', { ...event({ tool_name: 'Read' }), session_id: undefined }],
  ['an empty session', event({ tool_name: 'Read', session_id: '' })],
  ['no tool', { ...event(), tool_name: undefined }],
  ['no input', { ...event({ tool_name: 'Read' }), tool_input: undefined }],
  ['an input that is a list', event({ tool_name: 'Read', tool_input: [] })],
  ['an id that is a number', event({ tool_name: 'Read', tool_use_id: 1 })],
  ['a wait that is given twice', event({ tool_name: 'Read' }), '?wait=1&wait=2'],
  ['another type', event({ tool_name: 'Read' }), '', { 'content-type': 'text/plain' }],
  ['an encoding', event({ tool_name: 'Read' }), '', { 'content-encoding': 'gzip' }],
])('an unreadable body is blocked: %s', async (_name, body, query = '', headers = {}) => {
  expect(await hook(body, query, headers)).toContain('unreadable request')
})

test('a wait ends when the approval expires, also after more than a minute', async () => {
  const seconds = 77
  const rule = {
    name: 'searches wait',
    verdict: 'require_approval',
    tools: ['Grep'],
    expires_after_seconds: seconds,
  }
  await world.change('POST', '/rules', rule)
  const timers = jest.spyOn(globalThis, 'setTimeout')
  try {
    const call = event({ tool_name: 'Grep' })
    const answer = hook(call, '?wait=500')
    const id = await waiting(call.session_id)
    const isOfExpiry = (milliseconds: number | undefined): boolean =>
      milliseconds !== undefined && Math.abs(milliseconds / 1_000 - seconds) < 5
    const armed = () => timers.mock.calls.find(([, milliseconds]) => isOfExpiry(milliseconds))
    await until('a timer for the expiry', () => armed() !== undefined)
    await sql`update approvals set expires_at = clock_timestamp() where id = ${id}`.execute(server.context.db)
    armed()?.[0]()
    expect(await answer).toContain('has expired')
  } finally {
    timers.mockRestore()
  }
})

test('3 MB are read, 5 MB are too many', async () => {
  expect(await hook(event({ tool_name: 'Read', tool_input: { text: 'x'.repeat(3_000_000) } }))).toBe('runs')
  const more = event({ tool_name: 'Read', tool_input: { text: 'x'.repeat(5_000_000) } })
  expect(await hook(more)).toContain('unreadable request')
})

test.each(['?wait=-1', '?wait=x', '?wait=1e9', '?wait=', '?wait=0'])(
  'held without a wait: %s',
  async (query) => {
    expect(await hook(event(), query)).toContain('is still pending')
  },
)

describe('a call that waits', () => {
  test('runs once after its approval', async () => {
    const call = event()
    const answer = hook(call, '?wait=999')
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
    const { data } = (
      await server.call(world.admin.key, 'GET', `/agent-sessions?session_id=${call.session_id}`)
    ).body
    if (how === 'ended')
      await server.call(world.member.key, 'POST', '/authorize/sessions/end', { session_id: call.session_id })
    else if (how === 'revoked')
      await server.call(world.admin.key, 'POST', `/agent-sessions/${data[0].id}/revoke`, {})
    else await server.call(world.member.key, 'POST', `/authorize/approvals/${id}/cancel`)
    const words =
      how === 'revoked' ? 'was withdrawn, because this session was revoked: it can' : 'was withdrawn: make'
    expect(await answer).toContain(words)
    const own = await server.call(world.member.key, 'GET', `/authorize/approvals/${id}`)
    const session_status = how === 'withdrawn' ? 'live' : how
    expect(own.body).toMatchObject({ status: 'cancelled', session_status })
    expect((await approvals(call.session_id)).map((each: { status: string }) => each.status)).toEqual([
      'cancelled',
    ])
    const after = (await server.call(world.admin.key, 'GET', `/agent-sessions/${data[0].id}`)).body
    expect(after.status).toBe(how === 'withdrawn' ? 'live' : how)
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
    const headers = { authorization: `Bearer ${world.member.key}`, 'content-type': 'application/json' }
    const answer = fetch(`${server.base}/api/v1/hooks/claude-code?wait=60`, {
      method: 'POST',
      headers,
      body: JSON.stringify(call),
      signal: patience.signal,
    })
    const hangUp = async (): Promise<void> => {
      patience.abort()
      await expect(answer).rejects.toThrow()
    }
    return { hangUp }
  }

  test('is withdrawn if the client hangs up', async () => {
    const call = event()
    const { hangUp } = asking(call)
    await waiting(call.session_id)
    await hangUp()
    await until('the call no longer waits', async () => {
      const [found] = await approvals(call.session_id)
      return found.status === 'cancelled'
    })
    // The same call, sent again, is a new question.
    expect(await hook(call)).toContain('is still pending')
  })

  test('keeps an approval that was given before the client hung up: the same call passes once', async () => {
    const call = event()
    const { notifier } = server.context
    const subscribe = notifier.subscribe.bind(notifier)
    const { promise: over, resolve } = Promise.withResolvers<void>()
    // Replaced so that the decision does not wake the request: it still waits when its client closes the connection.
    notifier.subscribe = () => resolve
    try {
      const { hangUp } = asking(call)
      await world.decide(await waiting(call.session_id), 'approve')
      await hangUp()
      await over
    } finally {
      notifier.subscribe = subscribe
    }
    expect((await approvals(call.session_id)).map((each: { status: string }) => each.status)).toEqual([
      'approved',
    ])
    expect(await hook(call)).toBe('runs')
    expect(await hook({ ...call, tool_use_id: 'another' })).toContain('is still pending')
  })

  test('stays held if waiting for it fails', async () => {
    const call = event()
    const { notifier } = server.context
    const subscribe = notifier.subscribe.bind(notifier)
    notifier.subscribe = () => {
      throw new Error('the database is gone')
    }
    try {
      expect(await hook(call, '?wait=60')).toContain('is still pending')
    } finally {
      notifier.subscribe = subscribe
    }
  })
})
