import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { deleteMemory, readMemory, setMemory } from '../../../src/governance/tools/memory.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { auditOf, testContext, withPeople, type TestContext } from '../support.ts'

let running: TestContext
let member: Caller
let admin: Caller
beforeAll(async () => {
  running = await testContext()
  const { caller } = await withPeople(running.context)
  member = caller('member')
  admin = caller('admin')
})
afterAll(() => running.close())

describe('memory', () => {
  test.each([[{ a: [1, null, 'ü'] }], [null], ['text'], [0], [false]])('keeps %j as it is', async (value) => {
    const { context } = running
    const set = await setMemory(context, member, { key: 'k', value, labels: ['pii', 'internal', 'pii'] })
    expect(set).toEqual({ key: 'k', value, labels: ['internal', 'pii'], updated_at: expect.any(String) })
    expect(await readMemory(context, member.organizationId, 'k')).toEqual(set)
  })

  test('a key has 1,000 labels at most', async () => {
    const { context } = running
    const labels = Array.from({ length: 1_000 }, (_, index) => `label-${index}`)
    expect((await setMemory(context, member, { key: 'full', value: 1, labels })).labels).toHaveLength(1_000)
    const more = setMemory(context, member, { key: 'full', value: 1, labels: [...labels, 'more'] })
    await expect(more).rejects.toMatchObject({ code: 'validation_error', details: [{ path: 'labels' }] })
  })

  test('replaces the value, and keeps the labels', async () => {
    const { context } = running
    await setMemory(context, member, { key: 'k', value: 1, labels: ['internal', 'pii'] })
    const kept = await setMemory(context, member, { key: 'k', value: 2, labels: null })
    expect(kept.labels).toEqual(['internal', 'pii'])
    expect(await readMemory(context, member.organizationId, 'k')).toEqual(kept)
  })

  test('is audited by hash: the log never contains a value', async () => {
    await setMemory(running.context, member, { key: 'secret', value: 'the-secret-value', labels: ['pii'] })
    const [entry] = await auditOf(running.context, member.organizationId, 1)
    expect(entry).toMatchObject({ event_type: 'memory.set', metadata: { key: 'secret', labels: ['pii'] } })
    expect(entry?.canonical).not.toContain('the-secret-value')
  })

  test('belongs to one organization', async () => {
    const other = await addOrganization(running.context)
    await setMemory(running.context, member, { key: 'ours', value: 1, labels: [] })
    await expect(readMemory(running.context, other.id, 'ours')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('deletes a value once', async () => {
    await setMemory(running.context, member, { key: 'gone', value: 1, labels: [] })
    await deleteMemory(running.context, member, 'gone')
    const [entry] = await auditOf(running.context, member.organizationId, 1)
    expect(entry).toMatchObject({ event_type: 'memory.deleted', metadata: { key: 'gone' } })
    await expect(readMemory(running.context, member.organizationId, 'gone')).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(deleteMemory(running.context, member, 'gone')).rejects.toMatchObject({ code: 'not_found' })
    expect(await auditOf(running.context, member.organizationId, 1)).toEqual([entry])
  })
})

describe('labels of a key', () => {
  const put = (who: Caller, key: string, labels: string[] | null, value: number = 1) =>
    setMemory(running.context, who, { key, value, labels })
  const refused = (...labels: string[]) => ({
    code: 'insufficient_role',
    message: expect.stringMatching(`^${labels.map((label) => `\`${label}\``).join(', ')} would be removed`),
    details: [{ path: 'labels' }],
  })

  test('a member can add but not remove labels; an admin can, and the log has both states', async () => {
    await put(member, 'l', ['pii'])
    await expect(put(member, 'l', [])).rejects.toMatchObject(refused('pii'))
    expect((await put(member, 'l', ['confidential', 'pii'])).labels).toEqual(['confidential', 'pii'])
    await expect(put(member, 'l', ['internal'])).rejects.toMatchObject(refused('confidential', 'pii'))
    expect((await put(admin, 'l', ['internal'])).labels).toEqual(['internal'])
    const [entry] = await auditOf(running.context, member.organizationId, 1)
    expect(entry?.metadata).toMatchObject({ labels: ['internal'], labels_before: ['confidential', 'pii'] })
  })

  test('apply to the next value after a deletion', async () => {
    await put(member, 'd', ['pii'])
    await deleteMemory(running.context, member, 'd')
    const [entry] = await auditOf(running.context, member.organizationId, 1)
    expect(entry).toMatchObject({
      event_type: 'memory.deleted',
      metadata: { labels: ['pii'], labels_before: ['pii'] },
    })
    await expect(deleteMemory(running.context, member, 'd')).rejects.toMatchObject({ code: 'not_found' })
    await expect(put(member, 'd', [])).rejects.toMatchObject(refused('pii'))
    expect((await put(member, 'd', null)).labels).toEqual(['pii'])
    await deleteMemory(running.context, member, 'd')
    expect((await put(admin, 'd', [])).labels).toEqual([])
    expect((await put(member, 'd', null)).labels).toEqual([])
  })

  test('an admin who deletes a second time deletes them too', async () => {
    await put(member, 'f', ['pii'])
    await deleteMemory(running.context, admin, 'f')
    await deleteMemory(running.context, admin, 'f')
    const [entry] = await auditOf(running.context, member.organizationId, 1)
    expect(entry?.metadata).toMatchObject({ labels: [], labels_before: ['pii'] })
    await expect(deleteMemory(running.context, admin, 'f')).rejects.toMatchObject({ code: 'not_found' })
    expect((await put(member, 'f', [])).labels).toEqual([])
  })

  test('law: members cannot make a key lose a label', async () => {
    const label = fc.subarray(['pii', 'internal', 'confidential'])
    const step = fc.oneof(fc.constant('delete' as const), fc.option(label))
    let runs = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 6 }), async (steps) => {
        const key = `p${(runs += 1)}`
        const ever = new Set<string>()
        for (const each of steps) {
          if (each === 'delete') await deleteMemory(running.context, member, key).catch(() => {})
          else {
            const kept = await put(member, key, each).catch(() => null)
            for (const given of kept === null ? [] : (each ?? [])) ever.add(given)
            if (kept !== null) expect(kept.labels).toEqual([...ever].sort())
          }
        }
      }),
      { numRuns: 30 },
    )
  })
})
