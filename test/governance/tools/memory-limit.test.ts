import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { setMemory as memoryTool } from '../../../src/activities/tools/memory-set.ts'
import { deleteMemory, setMemory } from '../../../src/governance/tools/memory.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { recordWithWrite } from '../../../src/governance/runs/effects/outcome.ts'
import { toolCall, toolContext } from '../../activities/tools/call.ts'
import { auditOf } from '../support.ts'
import { basisOf, effectOf, go, opOf, outcomeOf, startEngine, type Engine } from '../runs/engine-fixture.ts'

let engine: Engine
beforeAll(async () => {
  engine = await startEngine()
  await changeQuota(engine.context, engine.caller('owner'), { memory_mb: 1 })
})
afterAll(() => engine?.close())
beforeEach(() => engine.context.pool.query('delete from memory'))

const set = (key: string, length: number) =>
  setMemory(engine.context, engine.caller('member'), { key, value: 'x'.repeat(length), labels: [] })
const keys = async () =>
  (await engine.context.db.selectFrom('memory').select('key').orderBy('key').execute()).map(({ key }) => key)
const used = async () =>
  (await engine.context.db.selectFrom('memory_usage').select('bytes').executeTakeFirstOrThrow()).bytes

describe('memory_mb', () => {
  test('limits the sum of all values and keys: a value above it is refused and audited', async () => {
    // Three bytes are subtracted: two quotes around each value, and a key of one byte.
    await set('a', 512 * 1024 - 3)
    await set('b', 512 * 1024 - 3)
    expect(await used()).toBe(1024 * 1024)
    await expect(set('c', 1)).rejects.toMatchObject({
      code: 'quota_exceeded',
      details: [{ path: 'memory_mb', message: 'the limit is 1' }],
    })
    expect(await keys()).toEqual(['a', 'b'])
    expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([
      { event_type: 'quota.exceeded', action: 'set', metadata: { limit: 'memory_mb', value: 1 } },
    ])
  })

  test('labels count, and so do those of a deleted value', async () => {
    const labels = ['confidential', 'pii']
    await setMemory(engine.context, engine.caller('member'), { key: 'key', value: 1, labels })
    expect(await used()).toBe('key'.length + 1 + 'confidential pii'.length)
    await deleteMemory(engine.context, engine.caller('member'), 'key')
    expect(await used()).toBe('key'.length + 'confidential pii'.length)
    await deleteMemory(engine.context, engine.caller('admin'), 'key')
    expect(await used()).toBe(0)
  })

  test('has storage left again after a replacement by a smaller value, and after a deletion', async () => {
    await set('a', 1024 * 1024 - 3)
    await expect(set('a', 1024 * 1024 - 2)).rejects.toMatchObject({ code: 'quota_exceeded' })
    await set('a', 1024 * 1024 - 10)
    await set('b', 4)
    await deleteMemory(engine.context, engine.caller('member'), 'a')
    await set('c', 1024 * 1024 - 20)
    expect(await keys()).toEqual(['b', 'c'])
  })

  test('of two processes that write at the same time one is refused', async () => {
    const other = engine.another()
    const value = 'x'.repeat(600 * 1024)
    const write = (context: typeof other, key: string) =>
      setMemory(context, engine.caller('member'), { key, value, labels: [] })
    const ends = await Promise.allSettled([write(engine.context, 'a'), write(other, 'b')])
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await keys()).toHaveLength(1)
  })

  test('fails the step whose value exceeds it, and nothing is written', async () => {
    await set('a', 1024 * 1024 - 10)
    const op = opOf(await engine.run())
    const attempt = await go(engine, op)
    const call = toolCall({ key: 'b', value: 'too much' }, { organizationId: engine.organizationId })
    const { commit } = await memoryTool(call, toolContext())
    const outcome = outcomeOf(op, attempt, 'completed')
    const basis = await basisOf(engine.context, op)
    const recorded = recordWithWrite(engine.context, engine.organizationId, outcome, basis, commit!)
    expect(await recorded).toBe('failed')
    expect((await effectOf(engine.context, op))?.error).toMatchObject({ code: 'quota_exceeded' })
    expect(await keys()).toEqual(['a'])
    const entries = await auditOf(engine.context, engine.organizationId, 2)
    expect(entries.map((entry) => entry.event_type)).toEqual(['quota.exceeded', 'tool_call.failed'])
  })
})
