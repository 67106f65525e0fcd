import { deleteRoleOverride } from '../../../src/governance/rules/role-overrides.ts'
import { createToolPolicy, deleteToolPolicy } from '../../../src/governance/rules/tool-policies.ts'
import { toolPolicyBody } from '../../../src/api/routes/governance.ts'
import type { Restrictions } from '../../../src/policy/tool-limits.ts'
import type { Engine } from '../runs/engine-fixture.ts'

export const create = (engine: Engine, body: object) =>
  createToolPolicy(engine.context, engine.caller('owner'), toolPolicyBody.parse(body), null)

export const save = (engine: Engine, tool: string, restrictions: Restrictions) =>
  create(engine, { tool_name: tool, restrictions })

export const forget = (engine: Engine, tool: string) =>
  deleteToolPolicy(engine.context, engine.caller('owner'), tool, undefined).catch(() => {})

/** Deletes all policies and overrides. */
export async function forgetAll(engine: Engine): Promise<void> {
  const [{ db }, owner] = [engine.context, engine.caller('owner')]
  const policies = await db.selectFrom('tool_policies').select(['tool_name', 'role']).execute()
  for (const { tool_name: tool, role } of policies)
    await deleteToolPolicy(engine.context, owner, tool, role || undefined)
  const overrides = await db.selectFrom('role_policy_overrides').select(['tool_name', 'role']).execute()
  for (const { tool_name: tool, role } of overrides)
    await deleteRoleOverride(engine.context, owner, tool, role)
}
