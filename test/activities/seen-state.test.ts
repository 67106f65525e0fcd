import { beforeEach, describe, expect, test } from '@jest/globals'
import { ToolError } from '../../src/activities/tools/executor.ts'
import { stateReaders } from '../../src/activities/tools/index.ts'
import { catalog } from '../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'
import { setMemory } from '../../src/governance/tools/memory.ts'
import { approvalsOf, holdRule, useEngine, type Engine } from '../governance/runs/engine-fixture.ts'
import { held, memoryCalls, newKey } from './memory-calls.ts'

/* Approvers of `memory_set` see the value that the call changes. */

let engine: Engine
useEngine((started) => (engine = started))
beforeEach(() => engine.rules(holdRule({ tools: ['memory_set'] })))
const { put, storing, attempt, newest, view, approve } = memoryCalls(() => engine)

describe('an approver', () => {
  test('sees the old value against the new one, and the labels of the key', async () => {
    const key = newKey()
    await setMemory(engine.context, engine.caller('admin'), { key, value: { a: 1 }, labels: ['pii'] })
    const call = await storing(key, { a: 2 })
    await attempt(call)
    expect(await view(call)).toMatchObject({
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
    expect((await view(call)).preview?.diff).toEqual({ before: null, after: '"new"', skipped: 0 })
  })

  test('sees a large value from its first difference, in a preview of limited size', async () => {
    const key = newKey()
    const same = 'same '.repeat(50_000)
    await put(key, `${same}old`)
    const call = await storing(key, `${same}new`)
    await attempt(call)
    const { preview } = await view(call)
    expect(preview?.diff?.before).toMatch(/same old"$/)
    expect(preview?.diff?.after).toMatch(/same new"$/)
    expect(JSON.stringify(preview).length).toBeLessThan(20_000)
  })

  test('nobody else sees it, and the row has it sealed', async () => {
    const key = newKey()
    await put(key, 'the-old-value')
    const call = await storing(key)
    await attempt(call)
    expect(await view(call, 'member')).not.toHaveProperty('preview')
    const { state_sealed: sealed } = await newest(call)
    expect(sealed?.includes('the-old-value')).toBe(false)
    expect(JSON.stringify((await view(call)).preview)).toContain('the-old-value')
  })
})

describe('what a call changes cannot be read', () => {
  /** Replaces the reader of `memory_set` while `work` runs. */
  async function reading(read: () => Promise<never>, work: () => Promise<void>): Promise<void> {
    const readers = stateReaders as Record<string, unknown>
    const real = readers['memory_set']
    readers['memory_set'] = read
    try {
      await work()
    } finally {
      readers['memory_set'] = real
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
    expect((await view(call)).preview).toMatchObject({
      note: 'It could not be read what the call changes (`github_forbidden`). The approval covers the parameters alone.',
    })
    await approve(call)
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

test('every tool with a precondition has a reader, and none is `keyed`', () => {
  const tools: readonly ToolDeclaration[] = Object.values(catalog)
  const declaring = tools.filter(({ precondition }) => precondition !== undefined)
  expect(declaring.map(({ name }) => name).sort()).toEqual(Object.keys(stateReaders).sort())
  expect(declaring.map(({ repeat }) => repeat)).not.toContain('keyed')
})
