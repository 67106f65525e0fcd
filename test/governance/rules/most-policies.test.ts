import { expect, test } from '@jest/globals'
import { changeToolPolicy, mostToolPolicies } from '../../../src/governance/rules/tool-policies.ts'
import {
  createRoleOverride,
  deleteRoleOverride,
  mostRoleOverrides,
} from '../../../src/governance/rules/role-overrides.ts'
import { useEngine, type Engine } from '../runs/engine-fixture.ts'
import { save, forget } from './policy-calls.ts'

/* The greatest number of tool policies and role overrides that an organization can have. */

let engine: Engine

useEngine((started) => (engine = started))

test('an organization has at most 2,000 overrides of roles', async () => {
  const { db } = engine.context
  const override = {
    organization_id: engine.organizationId,
    role: 'member',
    allowed: true,
    created_by: engine.caller('owner').userId,
  }
  const rows = Array.from({ length: mostRoleOverrides }, (_, n) => ({
    ...override,
    tool_name: `mcp__a__t${n}`,
  }))
  await db.insertInto('role_policy_overrides').values(rows).execute()
  const owner = engine.caller('owner')
  const more = { tool_name: 'Bash', role: 'member', allowed: false }
  await expect(createRoleOverride(engine.context, owner, more, null)).rejects.toMatchObject({
    code: 'validation_error',
    message: expect.stringContaining('at most 2,000 overrides'),
  })
  await deleteRoleOverride(engine.context, owner, 'mcp__a__t0', 'member')
  await createRoleOverride(engine.context, owner, more, null)
  await db.deleteFrom('role_policy_overrides').where('organization_id', '=', engine.organizationId).execute()
})

test('an organization has at most 2,000 tool policies, and still changes and deletes them', async () => {
  const { db } = engine.context
  const policy = {
    organization_id: engine.organizationId,
    role: '' as const,
    allowed: null,
    restrictions: '{}',
    created_by: engine.caller('owner').userId,
    created_at: new Date(),
    updated_at: new Date(),
  }
  const rows = Array.from({ length: mostToolPolicies }, (_, n) => ({ ...policy, tool_name: `mcp__a__t${n}` }))
  await db.insertInto('tool_policies').values(rows).execute()
  await expect(save(engine, 'Bash', { read_only: true })).rejects.toMatchObject({
    code: 'validation_error',
    message: expect.stringContaining('at most 2,000 tool policies'),
  })
  await changeToolPolicy(engine.context, engine.caller('owner'), 'mcp__a__t0', { allowed: false })
  await forget(engine, 'mcp__a__t0')
  await save(engine, 'Bash', { read_only: true })
  await db.deleteFrom('tool_policies').where('organization_id', '=', engine.organizationId).execute()
})
