import { z } from 'zod'
import { DomainError } from '../../governance/errors.ts'
import { actOnce } from '../../governance/idempotency.ts'
import {
  changeToolPolicy,
  createToolPolicy,
  deleteToolPolicy,
  listToolPolicies,
} from '../../governance/rules/tool-policies.ts'
import { restrictions } from '../../governance/rules/tool-policy-limits.ts'
import { created, noContent, ok, route } from '../route.ts'
import { id, listOf, listQuery, role, time } from '../schemas/common.ts'
import { toolPolicyBody, toolPolicyPatch } from '../schemas/governance.ts'

const tag = 'Governance'
const toolPolicy = z
  .strictObject({
    tool_name: z.string(),
    role: role.nullable().describe('null: the organization’s own'),
    allowed: z.boolean().nullable(),
    restrictions,
    created_by: id,
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'ToolPolicy' })

const getPolicies = route({
  key: 'GET /organizations/{id}/tool-policies',
  summary: 'The tool policies of the organization and of its roles',
  tag,
  query: listQuery.omit({ organization_id: true }),
  responses: { 200: listOf(toolPolicy) },
  async handle({ context, caller, query }) {
    const { limit, cursor = null } = query
    return ok(await listToolPolicies(context.db, caller.organizationId, { limit, cursor }))
  },
})

const postPolicy = route({
  key: 'POST /organizations/{id}/tool-policies',
  summary: 'Block or limit a tool for the organization or one role; policies can only restrict',
  tag,
  body: toolPolicyBody,
  responses: { 201: toolPolicy },
  async handle({ context, caller, body, once }) {
    return created(await actOnce(once, () => createToolPolicy(context, caller, body, once)))
  },
})

const patchPolicy = route({
  key: 'PATCH /organizations/{id}/tool-policies/{tool}',
  summary: 'Change a tool policy; `role`, in the body or the query, selects a role’s policy',
  tag,
  query: z.object({ role: role.optional() }),
  body: toolPolicyPatch,
  responses: { 200: toolPolicy },
  async handle({ context, caller, params, query, body }) {
    const named = { ...body, role: body.role ?? query.role }
    if (query.role !== undefined && query.role !== named.role) {
      const message = `is \`${query.role}\` in the query and \`${named.role}\` in the body: give it once`
      throw new DomainError('validation_error', `\`role\` ${message}`, [{ path: 'role', message }])
    }
    return ok(await changeToolPolicy(context, caller, params.tool, named))
  },
})

const deletePolicy = route({
  key: 'DELETE /organizations/{id}/tool-policies/{tool}',
  summary: 'Delete a tool policy; `role` says whose',
  tag,
  query: z.object({ role: role.optional() }),
  responses: { 204: null },
  async handle({ context, caller, params, query }) {
    await deleteToolPolicy(context, caller, params.tool, query.role)
    return noContent
  },
})

export const toolPolicyRoutes = [getPolicies, postPolicy, patchPolicy, deletePolicy]
