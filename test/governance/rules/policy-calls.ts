import { createToolPolicy, deleteToolPolicy } from '../../../src/governance/rules/tool-policies.ts'
import { toolPolicyBody } from '../../../src/api/schemas/governance.ts'
import type { Restrictions } from '../../../src/policy/tool-limits.ts'
import type { Engine } from '../runs/engine-fixture.ts'

export const create = (engine: Engine, body: object) =>
  createToolPolicy(engine.context, engine.caller('owner'), toolPolicyBody.parse(body), null)

export const save = (engine: Engine, tool: string, restrictions: Restrictions) =>
  create(engine, { tool_name: tool, restrictions })

export const forget = (engine: Engine, tool: string) =>
  deleteToolPolicy(engine.context, engine.caller('owner'), tool, undefined).catch(() => {})
