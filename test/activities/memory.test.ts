import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { approvalsAt, attempted, endOf, held } from './attempt.ts'
import { toolCall, toolContext } from '../tools/call.ts'
import {
  approvalsOf,
  effectOf,
  type Engine,
  holdRule,
  opOf,
  runOf,
  stepOf,
  useEngine,
} from '../governance/runs/engine-fixture.ts'
import { createToolActivities } from '../../src/activities/attempt.ts'
import { type ToolCall, ToolError } from '../../src/tools/kit/executor.ts'
import { run } from '../../src/tools/memory/run.ts'
import { planLimits } from '../../src/contract/plan-limits.ts'
import { createDatabase, createPool } from '../../src/db/connect.ts'
import type { Db } from '../../src/db/schema/index.ts'
import { mostChanges } from '../../src/calls/runs/approval-use.ts'
import {
  deleteMemory,
  readMemory,
  setMemory as storeMemory,
  storeOfCall,
  type OutcomeTx,
} from '../../src/governance/tools/memory.ts'
import type { Json } from '../../src/policy/types.ts'
import { sha256 } from '../../src/shared/canonical-json.ts'
import { createTestDatabase, type TestDatabase } from '../support/stack.ts'

let keys = 0
const newKey = () => `k${(keys += 1)}`

/** A run whose only call stores a value under this key. */
interface MemoryCall {
  readonly runId: string
  readonly key: string
}

/* Calls of `memory_set`, the memory that they change, and their approvals. */

let engine: Engine
useEngine((started) => (engine = started))
beforeEach(() => engine.rules(holdRule({ tools: ['memory_set'] })))
const bodies = createToolActivities()
const { newest, view, approve } = approvalsAt(() => engine)

const put = (key: string, value: Json) =>
  storeMemory(engine.context, engine.caller('admin'), { key, value, labels: null })
const remove = (key: string) => deleteMemory(engine.context, engine.caller('admin'), key)
const present = async (key: string) =>
  (await readMemory(engine.context, engine.caller('owner'), key).catch(() => null))?.value

async function storing(key: string, value: Json = 'new'): Promise<MemoryCall> {
  const steps = [{ id: 's', tool: 'memory_set', params: { key, value } }]
  return { runId: await engine.run({ steps }), key }
}

/** One attempt at the call. Its body runs after `before`. */
const attempt = async ({ runId }: MemoryCall, before: () => Promise<unknown> = async () => {}) => {
  const body = async (decided: unknown) => (await before(), bodies['memory_set']!(decided))
  return endOf(await attempted(engine, runId, 'memory_set', { body }))
}

/** A held call, which a person has approved. */
async function approved(key = newKey(), value: Json = 'new'): Promise<MemoryCall> {
  const call = await storing(key, value)
  expect(await attempt(call)).toBe(held)
  await approve(call.runId)
  return call
}

const because = 'the value in the memory has changed since it was approved'

describe('an approved call of `memory_set`', () => {
  test('is made while the key is as its approvers saw it', async () => {
    const key = newKey()
    await put(key, 'old')
    const call = await approved(key)
    await engine.context.pool.query('update memory set value_sealed = value_sealed where key = $1', [key])
    expect(await attempt(call)).toBe('completed')
    expect(await present(key)).toBe('new')
    expect(await approvalsOf(engine.context, call.runId)).toHaveLength(1)
  })

  type Change = readonly [string, Json | null, (key: string) => Promise<unknown>, Json | undefined]
  /** Each change between the approval and the call, from an empty key or a value. */
  const changes: readonly Change[] = [
    ['another value', 'old', (key) => put(key, 'other'), 'other'],
    ['the same value stored again', 'old', (key) => put(key, 'old'), 'old'],
    ['changed and changed back', 'old', async (key) => (await put(key, 'other'), put(key, 'old')), 'old'],
    ['deleted', 'old', (key) => remove(key), undefined],
    ['deleted and stored again', 'old', async (key) => (await remove(key), put(key, 'old')), 'old'],
    ['stored under an empty key', null, (key) => put(key, 'other'), 'other'],
  ]
  test.each(changes)(
    '%s: nothing is written, and a person is asked again',
    async (_, before, change, now) => {
      const key = newKey()
      if (before !== null) await put(key, before)
      const call = await approved(key)
      await change(key)
      expect(await attempt(call)).toBe(held)
      expect(await present(key)).toBe(now)
      const [first, second, ...more] = await approvalsOf(engine.context, call.runId)
      expect(more).toEqual([])
      expect(first).toMatchObject({ status: 'approved', superseded_by: second?.id })
      expect(second).toMatchObject({ status: 'pending', supersedes_id: first?.id, held_again: because })
      expect(await view(call.runId)).toMatchObject({
        supersedes_id: first?.id,
        held_again: because,
        votes: [],
        preview: { diff: { before: now === undefined ? null : JSON.stringify(now) } },
      })
      expect(await runOf(engine.context, call.runId)).toMatchObject({ status: 'paused' })
      expect(await stepOf(engine.context, call.runId)).toMatchObject({ status: 'held' })
      // The votes on the first approval do not let the call through.
      expect(await attempt(call)).toBe(held)
      await approve(call.runId)
      expect(await attempt(call)).toBe('completed')
      expect(await present(key)).toBe('new')
    },
  )

  test('a change after its decision, while its body runs, counts too', async () => {
    const key = newKey()
    await put(key, 'old')
    const call = await approved(key)
    expect(await attempt(call, () => put(key, 'other'))).toBe(held)
    expect(await present(key)).toBe('other')
  })

  test('two approvals for one key: the first write asks again for the second', async () => {
    const key = newKey()
    const calls = [await approved(key, 'one'), await approved(key, 'two')]
    const answers = await Promise.all(calls.map((call) => attempt(call)))
    expect(new Set(answers)).toEqual(new Set([held, 'completed']))
    const [written, waits] = answers[0] === held ? ['two', calls[0]!] : ['one', calls[1]!]
    expect(await present(key)).toBe(written)
    expect((await view(waits.runId)).preview?.diff).toMatchObject({ before: JSON.stringify(written) })
  })

  test('audit log and receipt tell both approvals', async () => {
    const call = await approved()
    const first = await newest(call.runId)
    await put(call.key, 'other')
    await attempt(call)
    const second = await newest(call.runId)
    const { rows } = await engine.context.pool.query<{ metadata: object }>(
      `select canonical::jsonb->'metadata' as metadata from audit_events
       where run_id = $1 and event_type = 'approval.requested' order by seq`,
      [call.runId],
    )
    expect(rows.map(({ metadata }) => metadata)).toMatchObject([
      { approval_id: first.id },
      { approval_id: second.id, supersedes_id: first.id, because },
    ])
    expect(rows[0]?.metadata).not.toHaveProperty('supersedes_id')
    expect(rows[0]?.metadata).not.toHaveProperty('because')
    const ofRun = engine.context.db.selectFrom('decisions').where('run_id', '=', call.runId).orderBy('seq')
    const decisions = await ofRun.select(['approval_id', 'explanation']).execute()
    expect(decisions.map(({ approval_id }) => approval_id)).toEqual([first.id, first.id, second.id])
    expect(decisions.at(-1)?.explanation).toContain(`held again: ${because}`)
  })

  test('asks a limited number of times, and then fails', async () => {
    const call = await approved()
    const { key } = call
    for (let round = 1; round <= mostChanges; round += 1) {
      await put(key, round)
      expect([round, await attempt(call)]).toEqual([round, held])
      await approve(call.runId)
    }
    await put(key, 'once more')
    expect(await attempt(call)).toBe('failed')
    expect(await present(key)).toBe('once more')
    expect(await effectOf(engine.context, opOf(call.runId))).toMatchObject({
      state: 'failed',
      error: { code: 'changed_too_often' },
    })
  })

  test('is made whatever the key is, once no rule holds it', async () => {
    const call = await approved()
    const { key } = call
    const gone = async () => (await engine.rules(), await put(key, 'other'))
    expect(await attempt(call, gone)).toBe('Unavailable')
    expect(await attempt(call)).toBe('completed')
    expect(await present(key)).toBe('new')
  })

  test('is checked too if its rule was gone at its decision, and is back when it acts', async () => {
    const call = await approved()
    const { key } = call
    await engine.rules()
    const back = async () => {
      await engine.rules(holdRule({ tools: ['memory_set'] }))
      await put(key, 'other')
    }
    expect(await attempt(call, back)).toBe('Unavailable')
    expect(await attempt(call)).toBe(held)
    expect(await present(key)).toBe('other')
  })

  test('without a rule that holds it, no state is read, and the last writer wins', async () => {
    await engine.rules()
    const key = newKey()
    const call = await storing(key)
    expect(await attempt(call, () => put(key, 'other'))).toBe('completed')
    expect(await present(key)).toBe('new')
    expect(await approvalsOf(engine.context, call.runId)).toEqual([])
  })
})

const acts = fc.array(fc.constantFrom('put a', 'put b', 'delete', 'approve', 'attempt'), { maxLength: 12 })

test('whatever happens meanwhile, a call stores only over the value that the approvers of its approval saw', async () => {
  await fc.assert(
    fc.asyncProperty(acts, async (each) => {
      const call = await storing(newKey())
      /** The stored value when each approval was requested, by the approval's id. */
      const shown = new Map<string, Json | undefined>()
      let approved: string | null = null
      for (const act of ['attempt', ...each, 'approve', 'attempt']) {
        if (act.startsWith('put')) await put(call.key, act.slice(4))
        else if (act === 'delete') await remove(call.key).catch(() => {})
        else if (act === 'approve') {
          const { id, status } = await newest(call.runId)
          if (status !== 'pending') continue
          await engine.vote(id, 'approver')
          approved = id
        } else {
          const before = await present(call.key)
          const outcome = await attempt(call)
          if (outcome === 'completed') {
            expect(shown.get(approved ?? '')).toEqual(before)
            expect(await present(call.key)).toBe('new')
            return
          }
          const { id } = await newest(call.runId)
          if (!shown.has(id)) shown.set(id, before)
        }
      }
      expect(await present(call.key)).not.toBe('new')
    }),
    { numRuns: 25 },
  )
})

describe('an approver of `memory_set`', () => {
  test('sees the old value against the new one, and the labels of the key', async () => {
    const key = newKey()
    await storeMemory(engine.context, engine.caller('admin'), { key, value: { a: 1 }, labels: ['pii'] })
    const call = await storing(key, { a: 2 })
    await attempt(call)
    expect(await view(call.runId)).toMatchObject({
      reversible: 'by hand',
      supersedes_id: null,
      held_again: null,
      preview: {
        title: `Store a value under “${key}”`,
        fields: [
          { name: 'key', value: key },
          { name: 'value', value: '{\n  "a": 2\n}' },
          { name: 'labels of the key now', value: 'pii' },
        ],
        diff: { before: '{\n  "a": 1\n}', after: '{\n  "a": 2\n}', skipped: 0 },
      },
    })
  })

  test('sees that a key is empty', async () => {
    const call = await storing(newKey())
    await attempt(call)
    expect((await view(call.runId)).preview?.diff).toEqual({ before: null, after: '"new"', skipped: 0 })
  })

  test('sees a large value from its first difference, in a preview of limited size', async () => {
    const key = newKey()
    const same = 'same '.repeat(50_000)
    await put(key, `${same}old`)
    const call = await storing(key, `${same}new`)
    await attempt(call)
    const { preview } = await view(call.runId)
    expect(preview?.diff?.before).toMatch(/same old"$/)
    expect(preview?.diff?.after).toMatch(/same new"$/)
    expect(JSON.stringify(preview).length).toBeLessThan(20_000)
  })

  test('the requester does not see it, and the row has it sealed', async () => {
    const key = newKey()
    await put(key, 'the-old-value')
    const call = await storing(key)
    await attempt(call)
    const { preview } = await view(call.runId, 'member')
    expect(preview).toMatchObject({
      fields: [
        { name: 'key', value: key },
        { name: 'value', value: 'new' },
      ],
    })
    expect(JSON.stringify(preview)).not.toContain('the-old-value')
    const { state_sealed: sealed } = await newest(call.runId)
    expect(sealed?.includes('the-old-value')).toBe(false)
    expect(JSON.stringify((await view(call.runId)).preview)).toContain('the-old-value')
  })
})

describe('what a call changes cannot be read', () => {
  /** Replaces the reader of `memory_set` while `work` runs. */
  async function reading(read: () => Promise<never>, work: () => Promise<void>): Promise<void> {
    const reader = jest.spyOn(run.memory_set, 'state').mockImplementation(read)
    try {
      await work()
    } finally {
      reader.mockRestore()
    }
  }

  test('the approval is made all the same, says so, and covers the parameters', async () => {
    const key = newKey()
    const call = await storing(key)
    const refuse = async () => {
      throw new ToolError('github_forbidden', 'no', { retryable: false })
    }
    await reading(refuse, async () => {
      expect(await attempt(call)).toBe(held)
    })
    expect((await view(call.runId)).preview).toMatchObject({
      note: 'It could not be read what the call changes (`github_forbidden`). The approval covers the parameters alone.',
    })
    await approve(call.runId)
    await put(key, 'other')
    expect(await attempt(call)).toBe('completed')
  })

  test('an outage of the database makes no approval', async () => {
    const call = await storing(newKey())
    const outage = async () => {
      throw Object.assign(new Error('gone'), { code: 'ECONNREFUSED' })
    }
    await reading(outage, async () => {
      expect(await attempt(call)).toBe('Unavailable')
    })
    expect(await approvalsOf(engine.context, call.runId)).toEqual([])
    expect(await attempt(call)).toBe(held)
  })
})

describe('memory_get', () => {
  const get = async (organization: string, key: string) =>
    organization === 'org_1' && key === 'k' ? { value: { a: [1] }, labels: ['pii'] } : null
  const context = toolContext({ memory: { ...toolContext().tools.memory, get } })

  test('returns the labels stored with the value', async () => {
    expect(await run.memory_get.body(toolCall({ key: 'k' }), context)).toEqual({
      output: { key: 'k', value: { a: [1] } },
      labels: ['pii'],
    })
  })

  test.each([
    ['an empty key', 'other', 'org_1'],
    ['a key of another organization', 'k', 'org_2'],
  ])('%s gives null without labels', async (_, key, organizationId) => {
    const result = await run.memory_get.body(toolCall({ key }, { organizationId }), context)
    expect(result).toEqual({ output: { key, value: null }, labels: [] })
  })
})

describe('memory_set', () => {
  let database: TestDatabase
  let db: Db
  beforeAll(async () => {
    database = await createTestDatabase()
    // The rows that memory refers to. Only the owner of the tables could skip them.
    const owner = createDatabase(createPool({ url: database.adminUrl, appRole: 'countersign_owner', max: 1 }))
    const organizations = ['org_1', 'org_2'].map((id) => ({ id, name: id }))
    await owner.insertInto('organizations').values(organizations).execute()
    const people = ['usr_1', 'usr_2'].map((id) => ({ id, name: id, email: `${id}@x.example` }))
    await owner.insertInto('users').values(people).execute()
    await owner.destroy()
    db = createDatabase(createPool({ url: database.appUrl, max: 2 }))
  })
  afterAll(async () => {
    await db.destroy()
    await database.drop()
  })

  const set = (value: Json, over: Partial<Omit<ToolCall<never>, 'params'>> = {}) =>
    run.memory_set.body(toolCall({ key: 'k', value: value as never }, over), toolContext())
  const entries: unknown[] = []
  beforeEach(() => void (entries.length = 0))
  const own = (trx: OutcomeTx['trx'], role: OutcomeTx['role'] = 'member'): OutcomeTx => ({
    trx,
    role,
    limits: planLimits.free,
    append: (entry) => void entries.push(entry),
  })
  const commitAs = async (role: OutcomeTx['role'], ...args: Parameters<typeof set>) => {
    const result = await set(...args)
    await db.transaction().execute((trx) => storeOfCall(own(trx, role), result.stores!))
  }
  const commit = (...args: Parameters<typeof set>) => commitAs('member', ...args)
  const rows = (organization = 'org_1') =>
    db
      .selectFrom('memory')
      .select(['key', 'value_sealed', 'labels', 'updated_by', 'updated_at'])
      .where('organization_id', '=', organization)
      .execute()

  /** The value written by this test's replacement for sealing. */
  const textOf = (row?: { value_sealed: Buffer | null }) => JSON.parse(String(row?.value_sealed))

  test('writes nothing itself; the value is stored in the given transaction', async () => {
    const result = await set('x')
    expect(result.output).toEqual({ key: 'k', set: true })
    expect(await rows()).toEqual([])
    const rolledBack = db.transaction().execute(async (trx) => {
      await storeOfCall(own(trx), result.stores!)
      throw new Error('roll back')
    })
    await expect(rolledBack).rejects.toThrow('roll back')
    expect(await rows()).toEqual([])
  })

  test('refuses more than 1,000 labels for a key, and keeps the earlier value', async () => {
    const labels = Array.from({ length: 1_000 }, (_, index) => `l${index}`)
    const write = async (value: Json, more: string[]) => {
      const result = await set(value, { labels: more, organizationId: 'org_2' })
      return db.transaction().execute((trx) => storeOfCall(own(trx), result.stores!))
    }
    expect(await write('first', labels)).toBeNull()
    expect(await write('second', ['more'])).toEqual({
      code: 'resource_exhausted',
      message: 'the key would have more than 1,000 labels',
    })
    const [row] = await rows('org_2')
    expect(textOf(row)).toBe('first')
    expect(row?.labels).toHaveLength(1_000)
    expect(await write('third', ['l1'])).toBeNull()
    await db.deleteFrom('memory').where('organization_id', '=', 'org_2').execute()
  })

  test('stores value, labels and writer; the next write of an admin’s run replaces all of them', async () => {
    await commit({ a: ['ü', null, 1.5] }, { labels: ['pii', 'internal', 'pii'] })
    const [first] = await rows()
    expect(first).toMatchObject({ key: 'k', labels: ['internal', 'pii'], updated_by: 'usr_1' })
    expect(textOf(first)).toEqual({ a: ['ü', null, 1.5] })
    await db
      .updateTable('memory')
      .set({ updated_at: new Date(0) })
      .execute()
    await commitAs('admin', null, { labels: [], requester: { userId: 'usr_2' } })
    const after = await rows()
    expect(after).toHaveLength(1)
    expect(textOf(after[0])).toBeNull()
    expect(after[0]).toMatchObject({ labels: [], updated_by: 'usr_2' })
    expect(after[0]!.updated_at.getTime()).toBeGreaterThan(0)
  })

  const runners = ['viewer', 'member', null] as const
  test.each(runners)('a run of a %s adds labels to the key and removes none', async (role) => {
    await commitAs('owner', 'secret', { labels: ['pii'] })
    await commitAs(role, 'nothing', { labels: [] })
    expect((await rows())[0]?.labels).toEqual(['pii'])
    await commitAs(role, 'more', { labels: ['confidential'] })
    expect((await rows())[0]?.labels).toEqual(['confidential', 'pii'])
    // The state after `DELETE /memory/{key}`.
    await db.updateTable('memory').set({ value_sealed: null, deleted_at: new Date() }).execute()
    await commitAs(role, 'again', { labels: ['internal'] })
    expect((await rows())[0]?.labels).toEqual(['confidential', 'internal', 'pii'])
  })

  test.each(['admin', 'owner'] as const)('a run of an %s removes labels', async (role) => {
    await commit('secret', { labels: ['pii'] })
    await commitAs(role, 'clean', { labels: ['internal'] })
    expect((await rows())[0]?.labels).toEqual(['internal'])
  })

  test('a change of labels is an audit entry with both states; a change of only the value is not', async () => {
    await commitAs('owner', 'x', { labels: [] })
    entries.length = 0
    await commit('x', { labels: ['pii'] })
    expect(entries).toEqual([
      {
        eventType: 'memory.set',
        action: 'set',
        metadata: { key: 'k', value_hash: sha256('"x"'), labels: ['pii'], labels_before: [] },
      },
    ])
    await commit('y', { labels: [] })
    expect(entries).toHaveLength(1)
    await commitAs('admin', 'y', { labels: [] })
    expect(entries[1]).toMatchObject({ metadata: { labels: [], labels_before: ['pii'] } })
  })

  test('organizations have separate keys, and committing twice keeps one row', async () => {
    await commit('theirs', { organizationId: 'org_2' })
    await commit('theirs', { organizationId: 'org_2' })
    expect((await rows('org_2')).map(textOf)).toEqual(['theirs'])
    expect((await rows('org_1')).map(textOf)).not.toContain('theirs')
  })

  test('NUL inside a value survives', async () => {
    await commit('a\0b')
    expect(textOf((await rows())[0])).toBe('a\0b')
  })
})
