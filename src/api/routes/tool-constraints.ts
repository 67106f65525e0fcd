import { z } from 'zod'
import type { ToolDeclaration } from '../../tools/kit/tool.ts'
import { restrictions } from '../../governance/rules/tool-policy-limits.ts'
import { limitNames } from '../../policy/tool-limits.ts'
import { ok, route } from '../route.ts'
import { pageOfTools } from '../tool-page.ts'
import { listOf, listQuery, side } from '../schemas/common.ts'

const limitName = z.enum(limitNames).meta({ id: 'LimitName' })
const limit = z
  .strictObject({
    params: z.array(z.string()).describe('the parameters that it reads; none: it holds for the whole call'),
    schema: z.record(z.string(), z.unknown()).describe('JSON Schema of its value in `restrictions`'),
  })
  .meta({ id: 'ToolLimit' })
const constraints = z
  .strictObject({
    tool_name: z.string(),
    side_effect: side,
    constraints: z.array(limitName),
    limits: z.record(z.string(), limit).describe('by the limit’s name'),
  })
  .meta({ id: 'ToolConstraints' })

const schemas = Object.fromEntries(
  limitNames.map((name) => {
    const { $schema: _, ...schema } = z.toJSONSchema(restrictions.shape[name].unwrap(), { io: 'input' })
    return [name, schema]
  }),
)

/** Returns the entry of one tool, with the limits from its declaration. */
function constraintsOf(tool: ToolDeclaration): z.infer<typeof constraints> {
  const names = limitNames.filter((name) => Object.hasOwn(tool.constraints, name))
  const limits = names.map((name) => {
    const params = Object.keys(tool.constraints[name] ?? {})
    return [name, { params, schema: schemas[name] ?? {} }] as const
  })
  return {
    tool_name: tool.name,
    side_effect: tool.sideEffect,
    constraints: names,
    limits: Object.fromEntries(limits),
  }
}

export const getToolConstraints = route({
  key: 'GET /governance/tool-constraints',
  summary: 'The limits that a tool policy can set, for every tool of workflow steps',
  tag: 'Governance',
  query: listQuery,
  responses: { 200: listOf(constraints) },
  async handle({ query }) {
    return ok(pageOfTools(query, constraintsOf))
  },
})
