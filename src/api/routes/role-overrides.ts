import { z } from 'zod'
import { actOnce } from '../../governance/idempotency.ts'
import {
  createRoleOverride,
  deleteRoleOverride,
  listRoleOverrides,
} from '../../governance/rules/role-overrides.ts'
import { created, noContent, ok, route } from '../route.ts'
import { id, listOf, listQuery, time } from '../schemas/common.ts'
import { roleName, roleOverrideBody } from '../schemas/governance.ts'

const tag = 'Governance'
const roleOverride = z
  .strictObject({
    tool_name: z.string(),
    role: z.string(),
    allowed: z.boolean(),
    members: z.int().describe('how many members have the role now'),
    created_by: id,
    created_at: time,
  })
  .meta({ id: 'RolePolicyOverride' })

const getOverrides = route({
  key: 'GET /organizations/{id}/role-policy-overrides',
  summary: 'The overrides of all roles, with the members of each role',
  tag,
  query: listQuery.omit({ organization_id: true }),
  responses: { 200: listOf(roleOverride) },
  async handle({ context, caller, query }) {
    const { limit, cursor = null } = query
    return ok(await listRoleOverrides(context.db, caller.organizationId, { limit, cursor }))
  },
})

const postOverride = route({
  key: 'POST /organizations/{id}/role-policy-overrides',
  summary: 'Allow or block a tool for one role; a block of the organization holds all the same',
  tag,
  body: roleOverrideBody,
  responses: { 201: roleOverride },
  async handle({ context, caller, body, once }) {
    return created(await actOnce(once, () => createRoleOverride(context, caller, body, once)))
  },
})

const deleteOverride = route({
  key: 'DELETE /organizations/{id}/role-policy-overrides/{tool}',
  summary: 'Delete the override of a tool for the role in the query',
  tag,
  query: z.object({ role: roleName }),
  responses: { 204: null },
  async handle({ context, caller, params, query }) {
    await deleteRoleOverride(context, caller, params.tool, query.role)
    return noContent
  },
})

export const roleOverrideRoutes = [getOverrides, postOverride, deleteOverride]
