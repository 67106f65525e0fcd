import { sql, type RawBuilder } from 'kysely'
import { z } from 'zod'
import { DomainError } from '../../governance/errors.ts'
import {
  changeToolPolicy,
  createToolPolicy,
  deleteToolPolicy,
  listToolPolicies,
  policyVersions,
  restoreToolPolicy,
} from '../../governance/rules/tool-policies.ts'
import { restrictions } from '../../governance/rules/tool-policy-limits.ts'
import { ok, tagged } from '../route.ts'
import { objects } from '../objects.ts'
import type { Inner } from '../subjects.ts'
import { id, listOf, managedBy, time, listQuery, side, named } from '../schemas/common.ts'
import { toolPolicyBody, toolPolicyPatch, roleName, roleOverrideBody } from './governance.ts'
import {
  createRoleOverride,
  deleteRoleOverride,
  listRoleOverrides,
} from '../../governance/rules/role-overrides.ts'
import type { ToolDeclaration } from '../../tools/kit/tool.ts'
import { limitNames } from '../../policy/tool-limits.ts'
import { pageOfTools } from './tools.ts'

const { route } = tagged('Governance')

/** What a version keeps. */
const versionOfPolicy = z.strictObject({ allowed: z.boolean().nullable(), restrictions })

const ofTool = (table: string, tool: string | undefined, of: string | null): RawBuilder<boolean> =>
  sql`exists (select from ${sql.table(table)} where organization_id = s.organization_id
              and tool_name = ${tool} and (${of}::text is null or role = ${of}))`

const onePolicy: Inner = {
  word: 'tool policy',
  param: 'tool',
  exists: ({ params, query, body }) =>
    ofTool('tool_policies', params['tool'], policyRole(query['role'] ?? roleOfBody(body))),
}
const oneOverride: Inner = {
  word: 'override',
  param: 'tool',
  exists: ({ params, query }) => ofTool('role_policy_overrides', params['tool'], query['role'] ?? null),
}

/**
 * '' is the policy of the organization. For a text that is no role, null: any policy of the tool counts, so that the
 * validation can say which roles there are.
 */
function policyRole(given: string | undefined): string | null {
  if (given === undefined) return ''
  return roleName.safeParse(given).success ? given : null
}

function roleOfBody(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'role')) return undefined
  const { role: given } = body as { role: unknown }
  return typeof given === 'string' ? given : 'unreadable'
}

const toolPolicy = named('ToolPolicy', {
  tool_name: z.string(),
  role: z.string().nullable().describe('a role or the name of a group; null: the organization’s own'),
  allowed: z.boolean().nullable(),
  restrictions,
  created_by: id,
  created_at: time,
  updated_at: time,
  managed_by: managedBy,
})

const roleOverride = named('RolePolicyOverride', {
  tool_name: z.string(),
  role: z.string(),
  allowed: z.boolean(),
  members: z.int().describe('how many members have the role, or are in the group, now'),
  created_by: id,
  created_at: time,
  managed_by: managedBy,
})

const limitName = z.enum(limitNames).meta({ id: 'LimitName' })
const limit = named('ToolLimit', {
  params: z.array(z.string()).describe('the parameters that it reads; none: it holds for the whole call'),
  schema: z.record(z.string(), z.unknown()).describe('JSON Schema of its value in `restrictions`'),
})
const constraints = named('ToolConstraints', {
  tool_name: z.string(),
  side_effect: side,
  constraints: z.array(limitName),
  limits: z.record(z.string(), limit).describe('by the limit’s name'),
})

const schemas = Object.fromEntries(
  limitNames.map((name) => {
    const { $schema: _, ...schema } = z.toJSONSchema(restrictions.shape[name].unwrap(), { io: 'input' })
    return [name, schema]
  }),
)

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

const reads = { scope: 'policies:read', role: 'admin' } as const
const writes = { scope: 'policies:write', role: 'owner' } as const

const policies = objects({
  tag: 'Governance',
  all: '/organizations/{id}/tool-policies',
  one: '/organizations/{id}/tool-policies/{tool}',
  subject: 'organization',
  reads,
  writes,
  shown: toolPolicy,
  from: onePolicy,
  governed: 'all',
})

const overrides = objects({
  tag: 'Governance',
  all: '/organizations/{id}/role-policy-overrides',
  one: '/organizations/{id}/role-policy-overrides/{tool}',
  subject: 'organization',
  reads,
  writes,
  shown: roleOverride,
  from: oneOverride,
  governed: 'all',
})

export const policyRoutes = [
  policies.list({
    summary: 'The tool policies of the organization and of its roles',
    filters: ['tool_name'],
    run: listToolPolicies,
  }),
  policies.create({
    summary: 'Block or limit a tool for the organization, a role or a group; policies can only restrict',
    body: toolPolicyBody,
    audit: ['tool_policy.created'],
    run: createToolPolicy,
  }),
  policies.change({
    summary: 'Change a tool policy; `role`, in the body or the query, selects a role’s policy',
    query: z.object({ role: roleName.optional() }),
    body: toolPolicyPatch,
    audit: ['tool_policy.updated'],
    async run(context, caller, tool, body, query) {
      const changes = { ...body, role: body.role ?? query.role }
      if (query.role !== undefined && query.role !== changes.role) {
        const message = `is \`${query.role}\` in the query and \`${changes.role}\` in the body: give it once`
        throw new DomainError('validation_error', `\`role\` ${message}`, [{ path: 'role', message }])
      }
      return changeToolPolicy(context, caller, tool, changes)
    },
  }),
  policies.remove({
    summary: 'Delete a tool policy; `role` says whose',
    query: z.object({ role: roleName.optional() }),
    audit: ['tool_policy.deleted'],
    run: (context, caller, tool, query) => deleteToolPolicy(context, caller, tool, query.role),
  }),
  ...policies.versions({
    kind: 'tool_policy',
    word: 'tool policy',
    name: 'ToolPolicyVersion',
    body: versionOfPolicy,
    query: z.object({ role: roleName.optional() }),
    audit: ['tool_policy.updated', 'tool_policy.created'],
    idOf: ({ id: tool, query }) => policyVersions(tool, query['role']).id,
    restore: (context, caller, { id: tool, query, version }, once) =>
      restoreToolPolicy(
        context,
        caller,
        { tool, role: roleName.optional().parse(query['role']), version },
        once,
      ),
  }),
  overrides.list({
    summary: 'The overrides of all roles, with the members of each role',
    filters: ['tool_name'],
    run: listRoleOverrides,
  }),
  overrides.create({
    summary: 'Allow or block a tool for a role or a group; a block of the organization holds all the same',
    body: roleOverrideBody,
    audit: ['role_override.created'],
    run: createRoleOverride,
  }),
  overrides.remove({
    summary: 'Delete the override of a tool for the role in the query',
    query: z.object({ role: roleName }),
    audit: ['role_override.deleted'],
    run: (context, caller, tool, query) => deleteRoleOverride(context, caller, tool, query.role),
  }),
  route({
    key: 'GET /governance/tool-constraints',
    needs: { scope: 'policies:read', role: 'admin', subject: 'own' },
    summary: 'The limits that a tool policy can set, for every tool of workflow steps',
    query: listQuery,
    responses: { 200: listOf(constraints) },
    handle: async ({ query }) => ok(pageOfTools(query, constraintsOf)),
  }),
]
