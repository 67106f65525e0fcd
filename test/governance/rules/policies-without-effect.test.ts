import { describe, expect, test } from '@jest/globals'
import { changeToolPolicy, deleteToolPolicy } from '../../../src/governance/rules/tool-policies.ts'
import { useEngine, type Engine } from '../runs/engine-fixture.ts'
import { create, forget, save } from './policy-calls.ts'

let engine: Engine
useEngine((started) => (engine = started))

describe('a tool policy without effect', () => {
  const refusal = (...parts: string[]) => ({
    code: 'validation_error',
    message: expect.stringMatching(new RegExp(parts.join('.*'))),
    details: [{ path: 'allowed' }],
  })
  test.each<[string, object]>([
    ['without fields', {}],
    ['with `allowed: null`', { allowed: null }],
    ['with `read_only: false`', { restrictions: { read_only: false } }],
  ])('%s is refused, and the message names what the tool takes', async (_, body) => {
    await expect(create(engine, { tool_name: 'memory_set', ...body })).rejects.toMatchObject(
      refusal('give `allowed`, or in `restrictions`', '`read_only`'),
    )
  })

  test('for a tool without limits, the error asks for `allowed`', async () => {
    const body = { tool_name: 'web_search', role: 'member' }
    await expect(create(engine, body)).rejects.toMatchObject(refusal('has no effect: give `allowed`'))
  })

  test('is refused as the result of a change too, which names how to delete it', async () => {
    const owner = engine.caller('owner')
    await create(engine, { tool_name: 'memory_set', allowed: false, role: 'member' })
    try {
      const change = (patch: object) =>
        changeToolPolicy(engine.context, owner, 'memory_set', { role: 'member', ...patch })
      await expect(change({ allowed: null })).rejects.toMatchObject(
        refusal('`DELETE /organizations/org_', '/tool-policies/memory_set\\?role=member`'),
      )
      // The refused change had no effect: the tool is still blocked.
      expect(await change({ restrictions: { read_only: true } })).toMatchObject({ allowed: false })
      expect(await change({ allowed: null })).toMatchObject({ allowed: null })
    } finally {
      await deleteToolPolicy(engine.context, owner, 'memory_set', 'member')
    }
  })
})

describe('a block with limits', () => {
  const refused = {
    code: 'validation_error',
    message: expect.stringContaining('leave out `restrictions`, or give `allowed: null`'),
    details: [{ path: 'restrictions' }],
  }
  const limits = { allowed: false, restrictions: { read_only: true } }

  test('is refused if both are given at once', async () => {
    await expect(create(engine, { tool_name: 'memory_set', ...limits })).rejects.toMatchObject(refused)
    await create(engine, { tool_name: 'memory_set', allowed: false, restrictions: { read_only: false } })
    try {
      await expect(
        changeToolPolicy(engine.context, engine.caller('owner'), 'memory_set', limits),
      ).rejects.toMatchObject(refused)
    } finally {
      await forget(engine, 'memory_set')
    }
  })

  test('keeps limits that were saved before', async () => {
    await save(engine, 'memory_set', { read_only: true })
    try {
      const change = (allowed: boolean | null) =>
        changeToolPolicy(engine.context, engine.caller('owner'), 'memory_set', { allowed })
      expect(await change(false)).toMatchObject(limits)
      expect(await change(null)).toMatchObject({ ...limits, allowed: null })
    } finally {
      await forget(engine, 'memory_set')
    }
  })
})
