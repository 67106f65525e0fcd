import { z } from 'zod'
import { actOnce } from '../../governance/idempotency.ts'
import {
  changeToolPolicy,
  createToolPolicy,
  deleteToolPolicy,
  listToolPolicies,
  toolPolicyBody,
  toolPolicyPatch,
} from '../../governance/tool-policies.ts'
import { created, noContent, ok, route } from '../route.ts'
import { id, role, time } from '../schemas/common.ts'

const tag = 'Governance'
const toolPolicy = z
  .strictObject({
    tool_name: z.string(),
    role: role.nullable().describe('null: the organization’s own'),
    allowed: z.boolean().nullable(),
    restrictions: toolPolicyBody.shape.restrictions.unwrap(),
    created_by: id,
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'ToolPolicy' })

const getPolicies = route({
  key: 'GET /organizations/{id}/tool-policies',
  summary: 'The tool policies of the organization and of its roles',
  tag,
  responses: { 200: z.strictObject({ data: z.array(toolPolicy), next_cursor: z.null() }) },
  async handle({ context, caller }) {
    return ok({ data: await listToolPolicies(context, caller.organizationId), next_cursor: null })
  },
})

const postPolicy = route({
  key: 'POST /organizations/{id}/tool-policies',
  summary: 'Block or limit a tool, for the organization or one role; policies only narrow',
  tag,
  body: toolPolicyBody,
  responses: { 201: toolPolicy },
  async handle({ context, caller, body, once }) {
    return created(await actOnce(once, () => createToolPolicy(context, caller, body, once)))
  },
})

const patchPolicy = route({
  key: 'PATCH /organizations/{id}/tool-policies/{tool}',
  summary: 'Change a tool policy; `role` says whose',
  tag,
  body: toolPolicyPatch,
  responses: { 200: toolPolicy },
  async handle({ context, caller, params, body }) {
    return ok(await changeToolPolicy(context, caller, params.tool, body))
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
