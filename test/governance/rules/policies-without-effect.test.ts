import { describe, expect, test } from '@jest/globals'
import { policySnapshot } from '../../../src/governance/audit/policy-snapshot.ts'
import { changeGovernance } from '../../../src/governance/rules/settings.ts'
import { changeToolPolicy, deleteToolPolicy } from '../../../src/governance/rules/tool-policies.ts'
import { useEngine, type Engine } from '../runs/engine-fixture.ts'
import { create, forget, save } from './policy-calls.ts'

let engine: Engine
useEngine((started) => (engine = started))

describe('a tool policy without effect', () => {
  const owner = () => engine.caller('owner')
  const refusalOf = async (tool: string) => {
    const { toolAccess } = await policySnapshot(engine.context, engine.organizationId)
    return toolAccess.refusal({ tool, role: 'member', sideEffect: 'write', params: {} })
  }

  test.each<[string, string, object, object]>([
    ['without fields', 'memory_set', {}, {}],
    ['with `allowed: null`', 'memory_set', { allowed: null }, {}],
    ['of a role', 'memory_set', { role: 'member' }, {}],
    ['with `read_only: false`', 'memory_set', { restrictions: { read_only: false } }, { read_only: false }],
    ['of a tool without limits', 'web_search', { restrictions: { read_only: false } }, { read_only: false }],
  ])('%s is saved, and neither opens nor closes the tool', async (_, tool, body, restrictions) => {
    const role = 'role' in body ? 'member' : undefined
    expect(await create(engine, { tool_name: tool, ...body })).toMatchObject({ allowed: null, restrictions })
    try {
      expect(await refusalOf(tool)).toBeNull()
      await changeGovernance(engine.context, owner(), { default_tool_access: 'deny' })
      expect(await refusalOf(tool)).toMatchObject({ reason: 'tool not allowed by any policy' })
    } finally {
      await changeGovernance(engine.context, owner(), { default_tool_access: 'allow' })
      await deleteToolPolicy(engine.context, owner(), tool, role)
    }
  })

  test('may be the result of a change, and lifts no limit of the other policy', async () => {
    await save(engine, 'memory_set', { read_only: true })
    await create(engine, { tool_name: 'memory_set', allowed: false, role: 'member' })
    try {
      const change = (patch: object) =>
        changeToolPolicy(engine.context, owner(), 'memory_set', { role: 'member', ...patch })
      expect(await change({ allowed: null })).toMatchObject({ allowed: null, restrictions: {} })
      expect(await change({ restrictions: { read_only: false } })).toMatchObject({
        allowed: null,
        restrictions: { read_only: false },
      })
      expect(await refusalOf('memory_set')).toMatchObject({ reason: 'tool is read-only in the organization' })
    } finally {
      await deleteToolPolicy(engine.context, owner(), 'memory_set', 'member')
      await forget(engine, 'memory_set')
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
