import { z } from 'zod'
import { workflowDefinition } from '../../contract/definition.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { approveTemplate, archiveTemplate, deprecateTemplate } from '../../governance/registry/lifecycle.ts'
import { listTemplates } from '../../governance/registry/list.ts'
import { useTemplate } from '../../governance/registry/use.ts'
import { textField } from '../../policy/text.ts'
import { filter, flag } from '../query.ts'
import { created, ok, route, type Route } from '../route.ts'
import { id, listOf, listQuery, time } from '../schemas/common.ts'
import { workflowShape } from '../schemas/workflows.ts'

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
    warning: z.string().optional().meta({ description: 'of a deprecated template' }),
    replacement_id: id.nullable().optional(),
  })
  .meta({ id: 'UsedTemplate' })

const name = textField(200)
const description = textField(2000, 0)
/** Two that differ in upper case alone would only ever be confused. */
const tags = z
  .array(textField(50))
  .max(20, 'a template has at most 20 tags')
  .superRefine((list, context) => {
    const folded = list.map((each) => each.trim().toLowerCase())
    const seen = new Set<string>()
    folded.forEach((each, index) => {
      if (seen.size < seen.add(each).size) return
      const message = `the tag \`${list[index]}\` is there already: name each tag once`
      context.addIssue({ code: 'custom', message, path: [index] })
    })
  })

export const registryRoutes: readonly Route[] = [
  route({
    key: 'GET /workflow-registry',
    summary: 'Templates, the one approved last first; archived ones only with `include_archived=true`',
    tag,
    query: listQuery.extend({ include_archived: flag.default(false) }),
    responses: { 200: listOf(template) },
    async handle({ context, caller, query }) {
      const { limit, cursor = null, include_archived: archived } = query
      return ok(await listTemplates(context, caller.organizationId, archived, { limit, cursor }))
    },
  }),
  route({
    key: 'POST /workflow-registry/{id}/approve-template',
    summary: 'Make a version of a workflow a template',
    description:
      'What is approved is one frozen version: `version`, or without it the current one. Later versions do not change it.',
    tag,
    body: z.strictObject({
      template_name: name,
      description: description.default(''),
      tags: tags.default([]),
      version: z.int().min(1).max(1_000_000_000).optional(),
    }),
    responses: { 200: template },
    async handle({ context, caller, params, body, once }) {
      const { template_name: templateName, ...rest } = body
      const input = { templateName, ...rest }
      return ok(await actOnce(once, () => approveTemplate(context, caller, params.id, input, once)))
    },
  }),
  route({
    key: 'POST /workflow-registry/{id}/deprecate',
    summary: 'Warn everyone who uses a template from now on, and name what to take instead',
    tag,
    body: z.strictObject({ reason: textField(2000), replacement_id: filter.nullable().default(null) }),
    responses: { 200: template },
    async handle({ context, caller, params, body, once }) {
      const input = { reason: body.reason, replacementId: body.replacement_id }
      return ok(await actOnce(once, () => deprecateTemplate(context, caller, params.id, input, once)))
    },
  }),
  route({
    key: 'POST /workflow-registry/{id}/archive',
    summary: 'End a deprecated template; there is no way back',
    tag,
    body: z.strictObject({}),
    responses: { 200: template },
    async handle({ context, caller, params, once }) {
      return ok(await actOnce(once, () => archiveTemplate(context, caller, params.id, once)))
    },
  }),
  route({
    key: 'POST /workflow-registry/{id}/use',
    summary: 'Make a new workflow out of a template’s frozen version',
    description: 'Of a deprecated template the answer has a `warning` and its `replacement_id`.',
    tag,
    body: z.strictObject({ name: name.optional(), description: description.optional() }),
    responses: { 201: usedTemplate },
    async handle({ context, caller, params, body, once }) {
      return created(await actOnce(once, () => useTemplate(context, caller, params.id, body, once)))
    },
  }),
]
