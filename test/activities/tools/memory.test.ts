import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { getMemory } from '../../../src/activities/tools/memory-get.ts'
import { setMemory } from '../../../src/activities/tools/memory-set.ts'
import { createDatabase, createPool } from '../../../src/db/connect.ts'
import { planLimits } from '../../../src/contract/plan-limits.ts'
import type { ToolCall } from '../../../src/activities/tools/executor.ts'
import { sha256 } from '../../../src/shared/canonical-json.ts'
import type { OwnWrite } from '../../../src/governance/runs/effects/outcome.ts'
import type { Db } from '../../../src/db/schema/index.ts'
import type { Json } from '../../../src/policy/types.ts'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import { toolCall, toolContext } from './call.ts'

describe('memory_get', () => {
  const context = toolContext({
    memory: {
      ...toolContext().tools.memory,
      get: async (organization, key) =>
        organization === 'org_1' && key === 'k' ? { value: { a: [1] }, labels: ['pii'] } : null,
      seal: async (_organization, _key, text) => ({ value_sealed: Buffer.from(text), value_version: 'v' }),
    },
  })

  test('returns the labels stored with the value', async () => {
    expect(await getMemory(toolCall({ key: 'k' }), context)).toEqual({
      output: { key: 'k', value: { a: [1] } },
      labels: ['pii'],
    })
  })

  test('an empty key gives null without labels', async () => {
    expect(await getMemory(toolCall({ key: 'other' }), context)).toEqual({
      output: { key: 'other', value: null },
      labels: [],
    })
  })

  test('organizations have separate keys', async () => {
    const result = await getMemory(toolCall({ key: 'k' }, { organizationId: 'org_2' }), context)
    expect(result.output).toEqual({ key: 'k', value: null })
  })
})

describe('memory_set', () => {
  let database: TestDatabase
  let db: Db
  beforeAll(async () => {
    database = await createTestDatabase()
    // The rows that memory refers to. Only the owner of the tables could skip them.
    const owner = createDatabase(createPool({ url: database.adminUrl, appRole: 'countersign_owner', max: 1 }))
    for (const id of ['org_1', 'org_2'])
      await owner.insertInto('organizations').values({ id, name: id }).execute()
    for (const id of ['usr_1', 'usr_2']) {
      await owner
        .insertInto('users')
        .values({ id, name: id, email: `${id}@x.example` })
        .execute()
    }
    await owner.destroy()
    db = createDatabase(createPool({ url: database.appUrl, max: 2 }))
  })
  afterAll(async () => {
    await db.destroy()
    await database.drop()
  })

  const set = (value: Json, over: Partial<Omit<ToolCall<never>, 'params'>> = {}) =>
    setMemory(toolCall({ key: 'k', value: value as never }, over), toolContext())
  const entries: unknown[] = []
  beforeEach(() => void (entries.length = 0))
  const own = (trx: OwnWrite['trx'], role: OwnWrite['role'] = 'member'): OwnWrite => ({
    trx,
    role,
    limits: planLimits.free,
    append: (entry) => void entries.push(entry),
  })
  const commitAs = async (role: OwnWrite['role'], ...args: Parameters<typeof set>) => {
    const result = await set(...args)
    await db.transaction().execute((trx) => result.commit!(own(trx, role)))
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

  test('writes only in `commit`, in the given transaction', async () => {
    const result = await set('x')
    expect(result.output).toEqual({ key: 'k' })
    expect(await rows()).toEqual([])
    const rolledBack = db.transaction().execute(async (trx) => {
      await result.commit!(own(trx))
      throw new Error('roll back')
    })
    await expect(rolledBack).rejects.toThrow('roll back')
    expect(await rows()).toEqual([])
  })

  test('refuses more than 1,000 labels for a key, and keeps the earlier value', async () => {
    const labels = Array.from({ length: 1_000 }, (_, index) => `l${index}`)
    const write = async (value: Json, more: string[]) => {
      const result = await set(value, { labels: more, organizationId: 'org_2' })
      return db.transaction().execute((trx) => result.commit!(own(trx)))
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

  test.each(['viewer', 'member', null] as const)(
    'a run of a %s adds labels to the key and removes none',
    async (role) => {
      await commitAs('owner', 'secret', { labels: ['pii'] })
      await commitAs(role, 'nothing', { labels: [] })
      expect((await rows())[0]?.labels).toEqual(['pii'])
      await commitAs(role, 'more', { labels: ['confidential'] })
      expect((await rows())[0]?.labels).toEqual(['confidential', 'pii'])
      // The state after `DELETE /memory/{key}`.
      await db.updateTable('memory').set({ value_sealed: null, deleted_at: new Date() }).execute()
      await commitAs(role, 'again', { labels: ['internal'] })
      expect((await rows())[0]?.labels).toEqual(['confidential', 'internal', 'pii'])
    },
  )

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
        status: 'success',
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
