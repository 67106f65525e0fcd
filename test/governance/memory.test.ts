import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Caller } from '../../src/governance/identity.ts'
import { deleteMemory, readMemory, setMemory } from '../../src/governance/memory.ts'
import { addOrganization } from '../api/fixtures.ts'
import { auditOf, testContext, withPeople, type TestContext } from './support.ts'

let running: TestContext
let member: Caller
beforeAll(async () => {
  running = await testContext()
  member = (await withPeople(running.context)).caller('member')
})
afterAll(() => running.close())

describe('memory', () => {
  test.each([[{ a: [1, null, 'ü'] }], [null], ['text'], [0], [false]])('keeps %j as it is', async (value) => {
    const { context } = running
    const set = await setMemory(context, member, { key: 'k', value, labels: ['pii', 'internal', 'pii'] })
    expect(set).toEqual({ key: 'k', value, labels: ['internal', 'pii'], updated_at: expect.any(String) })
    expect(await readMemory(context, member.organizationId, 'k')).toEqual(set)
  })

  test('replaces value and labels together', async () => {
    const { context } = running
    await setMemory(context, member, { key: 'k', value: 1, labels: ['pii'] })
    const kept = await setMemory(context, member, { key: 'k', value: 2, labels: null })
    expect(kept.labels).toEqual(['pii'])
    await setMemory(context, member, { key: 'k', value: 2, labels: [] })
    expect(await readMemory(context, member.organizationId, 'k')).toMatchObject({ value: 2, labels: [] })
  })

  test('is audited by hash: the log never holds a value', async () => {
    await setMemory(running.context, member, { key: 'k', value: 'the-secret-value', labels: ['pii'] })
    const [entry] = await auditOf(running.context, member.organizationId, 1)
    expect(entry).toMatchObject({ event_type: 'memory.set', metadata: { key: 'k', labels: ['pii'] } })
    expect(entry?.canonical).not.toContain('the-secret-value')
  })

  test('belongs to one organization', async () => {
    const other = await addOrganization(running.context)
    await setMemory(running.context, member, { key: 'ours', value: 1, labels: [] })
    await expect(readMemory(running.context, other.id, 'ours')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('forgets, once', async () => {
    await setMemory(running.context, member, { key: 'k', value: 1, labels: [] })
    await deleteMemory(running.context, member, 'k')
    const [entry] = await auditOf(running.context, member.organizationId, 1)
    expect(entry).toMatchObject({ event_type: 'memory.deleted', metadata: { key: 'k' } })
    await expect(readMemory(running.context, member.organizationId, 'k')).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(deleteMemory(running.context, member, 'k')).rejects.toMatchObject({ code: 'not_found' })
    expect(await auditOf(running.context, member.organizationId, 1)).toEqual([entry])
  })
})
