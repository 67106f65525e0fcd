import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { limitNames, planLimits } from '../../../src/contract/plan-limits.ts'
import { setPlan } from '../../../src/governance/limits/quota.ts'
import { auditOf } from '../support.ts'
import { startTestServer, type TestServer } from '../../api/server.ts'
import { countedTables } from '../../../src/db/migrations/0001-baseline/storage.ts'
import { authorize } from '../../../src/calls/agents/ask.ts'
import { createRoleOverride, deleteRoleOverride } from '../../../src/governance/rules/role-overrides.ts'
import { createRule } from '../rules/free-changes.ts'
import { labelRuleInput } from '../../../src/governance/rules/rule-kinds.ts'
import { openKey } from '../../../src/governance/idempotency.ts'
import { authenticate } from '../../../src/governance/access/identity.ts'
import { deleteMemory, setMemory } from '../../../src/governance/tools/memory.ts'
import {
  gatherMoves,
  readDrift,
  readUsage,
  recount,
} from '../../../src/governance/limits/storage-counters.ts'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import {
  effectOf,
  holdRule,
  opOf,
  outcomeOf,
  outputOf,
  startEngine,
  type Engine,
  type ResolvedCall,
} from '../runs/engine-fixture.ts'

let server: TestServer
let path: string
const keys = () => server.identities.users
beforeAll(async () => {
  server = await startTestServer()
  await server.context.db.updateTable('organizations').set({ quota_overrides: '{}' }).execute()
  path = `/organizations/${server.identities.organization_id}/quota`
})
afterAll(() => server?.close())

const patch = (body: unknown) => server.call(keys().owner.api_key, 'PATCH', path, body)
const read = async () => (await server.call(keys().admin.api_key, 'GET', path)).body
const lastEntry = () => auditOf(server.context, server.identities.organization_id, 1)

describe('the quota of an organization', () => {
  test('is its plan’s with an owner’s overrides; unnamed limits stay', async () => {
    expect(await read()).toEqual({
      plan: 'enterprise',
      limits: planLimits.enterprise,
      overrides: {},
      effective: planLimits.enterprise,
      usage: {
        ...Object.fromEntries(limitNames.map((name) => [name, 0])),
        storage_mb: expect.any(Number),
        requests_per_minute: expect.any(Number),
        requests_per_day: expect.any(Number),
      },
      overrides_by: 'owner',
    })
    await patch({ concurrent_executions: 7 })
    const { status, body } = await patch({ memory_mb: 1 })
    const entries = await lastEntry()
    for (const same of [{}, { memory_mb: 1 }, { requests_per_day: null }])
      expect((await patch(same)).body.overrides).toEqual(body.overrides)
    expect(await lastEntry()).toEqual(entries)
    expect(status).toBe(200)
    expect(body.overrides).toEqual({ concurrent_executions: 7, memory_mb: 1 })
    expect(body.effective).toEqual({ ...planLimits.enterprise, concurrent_executions: 7, memory_mb: 1 })
    expect(await read()).toMatchObject(body)
    const [entry] = await lastEntry()
    expect(entry).toMatchObject({
      event_type: 'quota.updated',
      user_id: keys().owner.user_id,
      metadata: { changes: { memory_mb: { from: 4096, to: 1 } } },
    })
  })

  test.each([
    ['zero', { concurrent_executions: 0 }, 'concurrent_executions'],
    ['a negative number', { memory_mb: -1 }, 'memory_mb'],
    ['text', { memory_mb: '5' }, 'memory_mb'],
    ['a fraction', { memory_mb: 1.5 }, 'memory_mb'],
    ['nothing like a limit', { memory_mb: false }, 'memory_mb'],
    ['an unknown key', { runs: 5 }, 'runs'],
    ['over 100 times the plan’s', { queued_executions: 1_000_001 }, 'queued_executions'],
  ])('refuses %s, and changes nothing', async (_name, body, field) => {
    const before = await read()
    const answer = await patch({ requests_per_day: 2_000_000, ...body })
    expect(answer.status).toBe(422)
    expect(answer.body.error).toMatchObject({ code: 'validation_error' })
    expect(answer.body.error.details.map((detail: { path: string }) => detail.path)).toContain(field)
    expect(await read()).toEqual(before)
  })

  test('null removes an override, and the plan’s limit applies again', async () => {
    await patch({ concurrent_executions: 7, memory_mb: 1 })
    const { status, body } = await patch({ memory_mb: null, requests_per_day: null })
    expect(status).toBe(200)
    expect(body.overrides).toMatchObject({ concurrent_executions: 7 })
    expect(Object.keys(body.overrides)).not.toContain('memory_mb')
    expect(body.effective.memory_mb).toBe(planLimits.enterprise.memory_mb)
    expect(await read()).toMatchObject(body)
    const [entry] = await lastEntry()
    expect(entry).toMatchObject({ metadata: { changes: { memory_mb: { from: 1, to: 4096 } } } })
    const { overrides } = (await patch({ concurrent_executions: null })).body
    expect(overrides).not.toHaveProperty('concurrent_executions')
  })

  test('follows the plan; an override above a smaller plan’s ceiling is cut to it', async () => {
    const { organization_id: id } = server.identities
    // An override may be exactly 100 times the plan’s limit.
    expect((await patch({ queued_executions: 1_000_000, concurrent_executions: 9 })).status).toBe(200)
    const moved = await setPlan(server.context.combiner, id, 'free')
    expect(moved).toMatchObject({ plan: 'free', limits: planLimits.free })
    expect(moved.effective).toMatchObject({ queued_executions: 10_000, concurrent_executions: 9 })
    await expect(setPlan(server.context.combiner, id, 'gold')).rejects.toMatchObject({ code: 'bad_request' })
    await expect(setPlan(server.context.combiner, 'org_none', 'pro')).rejects.toMatchObject({
      code: 'not_found',
    })
    await setPlan(server.context.combiner, id, 'enterprise')
  })
})

let engine: Engine
let person: NonNullable<Awaited<ReturnType<typeof authenticate>>>
beforeAll(async () => {
  engine = await startEngine({ RETENTION_DAYS: '30' })
})
afterAll(() => engine?.close())

const nothing = { bytes: 0, pending: 0 }
const drift = () => readDrift(engine.context.db, engine.organizationId)
const stored = async () => (await readUsage(engine.context.db, engine.organizationId)).storage_mb

const calls: ResolvedCall[] = []
const latest = (): ResolvedCall | undefined => calls.at(-1)

/** Completes the call with this output, and ends its run. Returns false if the call may not go. */
async function complete(op: ResolvedCall, text: string): Promise<boolean> {
  const verdict = await engine.decide(op)
  if (!verdict.go) return false
  const call = {
    source: 'workflows',
    tool: op.tool.name,
    sideEffect: 'read',
    params: {},
    labels: [],
  } as const
  const output = outputOf(op.key, text)
  await engine.record(outcomeOf(op, verdict.attempt, { state: 'completed', output, labels: [], call }))
  await finishRun(engine.context, { runId: op.key.runId, status: 'completed' })
  return true
}

/** The possible steps of a history. Each step changes the stored data in a different way. */
const acts: Readonly<Record<string, (size: number) => Promise<unknown>>> = {
  async run(size) {
    const definition = { inputs: { text: { type: 'string' } }, steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] } // prettier-ignore
    calls.push(opOf(await engine.run(definition, { text: 'ä'.repeat(size) })))
  },
  async decide() {
    const op = latest()
    if (op === undefined) return
    const verdict = await engine.decide(op)
    if (verdict.go) await engine.record(outcomeOf(op, verdict.attempt, 'retry'))
  },
  async complete(size) {
    const op = latest()
    if (op === undefined) return
    await complete(op, 'é'.repeat(size))
  },
  async label(size) {
    const add_labels = [`label-${size % 10}-x${'x'.repeat(size % 40)}`]
    const tools = ['memory_get', 'Bash', 'Read']
    const body = labelRuleInput.parse({ name: `labels ${size}`, tools, add_labels })
    await createRule(engine.context, 'label_rule', engine.caller('admin'), body).catch(() => undefined)
  },
  async override(size) {
    const body = { tool_name: 'Bash', role: `role-${size % 3}`, allowed: true }
    await createRoleOverride(engine.context, engine.caller('owner'), body, null).catch(() => undefined)
  },
  async withoutOverride(size) {
    const owner = engine.caller('owner')
    await deleteRoleOverride(engine.context, owner, 'Bash', `role-${size % 3}`).catch(() => undefined)
  },
  hold: () => engine.rules(holdRule(), { name: 'ask', verdict: 'require_approval', tools: ['Bash'] }),
  release: () => engine.rules(),
  async vote(size) {
    const op = latest()
    const approval = op && (await effectOf(engine.context, op))?.approval_id
    if (approval == null) return
    await engine.vote(approval, 'approver', size % 2 === 0 ? 'approve' : 'reject').catch(() => undefined)
  },
  remember: (size) =>
    setMemory(engine.context, engine.caller('member'), { key: `k${size % 3}`, value: 'ß'.repeat(size), labels: [] }), // prettier-ignore
  forget: (size) =>
    deleteMemory(engine.context, engine.caller('member'), `k${size % 3}`).catch(() => undefined),
  async ask(size) {
    await authorize(engine.context, { identity: person, ip: null }, {
      agent: { name: 'tester', kind: 'hook' },
      session_id: `session-${size % 4}`,
      tool_name: size % 2 === 0 ? 'Bash' : 'Read',
      tool_input: { command: `echo ${'x'.repeat(size)}` },
      tool_use_id: `use-${size % 7}`,
    }) // prettier-ignore
  },
  async idempotent(size) {
    const use = { userId: 'usr_1', apiKeyId: 'key_1', route: 'POST /x', key: `key-${size}`, bodyHash: 'a' }
    const opening = await openKey(engine.context, { organizationId: engine.organizationId, ...use })
    if ('replay' in opening) return
    if (size % 2 === 0) await opening.claim.keep({ status: 200, body: 'x'.repeat(size) })
    else await opening.claim.release()
  },
  async age() {
    await engine.context.pool.query(
      `update runs set finished_at = now() - interval '31 days' where finished_at is not null`,
    )
    await removeOldData(engine.context)
  },
  gather: () => gatherMoves(engine.context.db),
  async refused() {
    await engine.run({ steps: [] }).catch(() => undefined)
  },
}

describe('storage counters', () => {
  test('equal the sums of the rows after any history', async () => {
    const identity = await authenticate(engine.context.keys, `Bearer ${engine.keyOf('member')}`)
    person = identity as typeof person
    const step = fc.record({ act: fc.constantFrom(...Object.keys(acts)), size: fc.nat(3_000) })
    expect(await drift()).toEqual(nothing)
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (history) => {
        for (const { act, size } of history) await acts[act]?.(size)
        expect(await drift()).toEqual(nothing)
        await gatherMoves(engine.context.db)
        expect(await drift()).toEqual(nothing)
      }),
      { numRuns: 12 },
    )
  })

  test('are right after concurrent writes of several processes', async () => {
    const other = engine.another()
    const both = [engine.context, other]
    await Promise.all(
      Array.from(
        { length: 24 },
        (_, index) =>
        setMemory(both[index % 2] ?? other, engine.caller('member'), { key: `p${index}`, value: 'x'.repeat(index * 100), labels: [] }), // prettier-ignore
      ).concat(Array.from({ length: 6 }, () => gatherMoves(other.db) as Promise<never>)),
    )
    expect(await drift()).toEqual(nothing)
  })

  test('decrease with the data that retention removes', async () => {
    await engine.rules()
    const op = opOf(await engine.run())
    expect(await complete(op, 'x'.repeat(2 * 1024 ** 2))).toBe(true)
    const before = await stored()
    await engine.context.pool.query(`update runs set finished_at = now() - interval '31 days' where id = $1`, [op.key.runId]) // prettier-ignore
    await removeOldData(engine.context)
    expect(before - (await stored())).toBeGreaterThan(2)
    expect(await drift()).toEqual(nothing)
  })

  test('that are wrong are corrected by the daily recount, once', async () => {
    await engine.context.pool
      .query(`update chain_head set stored_bytes = stored_bytes + 12345, pending_approvals = 7,
      storage_counted_at = now() - interval '2 days'`)
    expect((await drift()).bytes).toBe(12_345)
    await recount(engine.context.db, engine.context.log)
    await recount(engine.context.db, engine.context.log)
    expect(await drift()).toEqual(nothing)
  })
})

/** Columns whose values are short. The fixed allowance per row covers these columns. */
const bounded =
  /^(id|.*_id|.*_by|.*_hash|.*_name|hash|name|email|.*_email|key|route|method|status|state|status_reason|kind|type|role|tool|side_effect|verdict|rule_name|approver|decision|outcome|resolved_outcome|slot|time_zone|idempotency_key|visibility|plan|prefix|secret_hash|secret_version|last4|digest|integration|backend|last_error|sent_with|lacking|author_roles|destination|value_version|target_version|seats|readers|title|for_user|answered_for|slug|poll_of|rerun_of|chain|steps_anew|on_repeat|reused_from|repeats|revision|may_edit|touches|tools|default_agent_access)$/

test('every column that can grow is counted for its table', async () => {
  const { rows } = await engine.context.pool.query<{ table: string; column: string }>(
    `select table_name as table, column_name as column from information_schema.columns
     where table_name = any($1) and table_schema = 'public' and data_type in ('text', 'ARRAY', 'jsonb', 'bytea')`,
    [countedTables.map(({ name }) => name)],
  )
  const formulas = new Map(countedTables.map(({ name, bytes }) => [name, bytes]))
  const uncounted = rows.filter(
    ({ table, column }) =>
      !bounded.test(column) && !new RegExp(`t\\.${column}\\b`).test(formulas.get(table) ?? ''),
  )
  expect(rows.length).toBeGreaterThan(50)
  expect(uncounted).toEqual([])
})

test('labels count', async () => {
  const op = opOf(await engine.run(), { labels: ['a'.repeat(60), 'b'.repeat(60)] })
  const bytes = async () => {
    const { rows } = await engine.context.pool.query(`select bytes from recount_storage($1)`, [
      engine.organizationId,
    ])
    return Number(rows[0].bytes)
  }
  await engine.rules()
  await engine.decide(op)
  const before = await bytes()
  await engine.context.pool.query(`update effects set labels = '{}' where run_id = $1`, [op.key.runId])
  expect(before - (await bytes())).toBe(121)
  expect(await drift()).toEqual(nothing)
})
