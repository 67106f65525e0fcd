import { z } from 'zod'
import { workflowDefinition } from '../../contract/definition.ts'
import { actOnce } from '../../governance/idempotency.ts'
import {
  approveTemplate,
  archiveTemplate,
  deprecateTemplate,
  useTemplate,
} from '../../governance/workflows/registry-lifecycle.ts'
import { listTemplates } from '../../governance/workflows/registry-entry.ts'
import { flag } from '../query.ts'
import { created, ok, route, type Route } from '../route.ts'
import { emptyBody, id, listOf, listQuery, time } from '../schemas/common.ts'
import { deprecationBody, templateBody, templateUseBody, workflowShape } from '../schemas/workflows.ts'

const tag = 'Workflow registry'

const template = z
  .strictObject({
    id: id.meta({ description: 'the workflow’s' }),
    organization_id: id,
    state: z.enum(['active', 'deprecated', 'archived']),
    template_name: z.string(),
    description: z.string(),
    tags: z.array(z.string()),
    version: z.int().meta({ description: 'the frozen version that was approved' }),
    approved_by: id,
    approved_at: time,
    deprecated_by: id.nullable(),
    deprecated_at: time.nullable(),
    reason: z.string().nullable().meta({ description: 'why it was deprecated' }),
    replacement_id: id.nullable(),
    archived_by: id.nullable(),
    archived_at: time.nullable(),
  })
  .meta({ id: 'Template' })

const usedTemplate = z
  .strictObject({
    ...workflowShape,
    definition: workflowDefinition,
    template_id: id,
    template_version: z.int(),
    warning: z.string().optional().meta({ description: 'only for a deprecated template' }),
    replacement_id: id.nullable().optional(),
  })
  .meta({ id: 'UsedTemplate' })

export const registryRoutes: readonly Route[] = [
  route({
    key: 'GET /workflow-registry',
    summary: 'Templates, latest approval first; archived ones only with `include_archived=true`',
    tag,
    query: listQuery.extend({ include_archived: flag.default(false) }),
    responses: { 200: listOf(template) },
    async handle({ context, caller, query }) {
      const { limit, cursor = null, include_archived: archived } = query
      return ok(await listTemplates(context.db, caller.organizationId, archived, { limit, cursor }))
    },
  }),
  route({
    key: 'POST /workflow-registry/{id}/approve-template',
    summary: 'Approve a version of a workflow as a template',
    description:
      'Approves one frozen version: `version`, or the current one. Later versions do not change the template.',
    tag,
    body: templateBody,
    responses: { 200: template },
    async handle({ context, caller, params, body, once }) {
      const { template_name: templateName, ...rest } = body
      const input = { templateName, ...rest }
      return ok(await actOnce(once, () => approveTemplate(context, caller, params.id, input, once)))
    },
  }),
  route({
    key: 'POST /workflow-registry/{id}/deprecate',
    summary: 'Deprecate a template: everybody who uses it is warned and told the replacement',
    tag,
    body: deprecationBody,
    responses: { 200: template },
    async handle({ context, caller, params, body, once }) {
      const input = { reason: body.reason, replacementId: body.replacement_id }
      return ok(await actOnce(once, () => deprecateTemplate(context, caller, params.id, input, once)))
    },
  }),
  route({
    key: 'POST /workflow-registry/{id}/archive',
    summary: 'Archive a deprecated template; this cannot be undone',
    tag,
    body: emptyBody,
    responses: { 200: template },
    async handle({ context, caller, params, once }) {
      return ok(await actOnce(once, () => archiveTemplate(context, caller, params.id, once)))
    },
  }),
  route({
    key: 'POST /workflow-registry/{id}/use',
    summary: 'Create a workflow from a template’s frozen version',
    description: 'For a deprecated template the answer has a `warning` and its `replacement_id`.',
    tag,
    body: templateUseBody,
    responses: { 201: usedTemplate },
    async handle({ context, caller, params, body, once }) {
      return created(await actOnce(once, () => useTemplate(context, caller, params.id, body, once)))
    },
  }),
]
