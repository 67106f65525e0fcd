import { sql } from 'kysely'
import { z } from 'zod'
import {
  definitionDocument,
  readers,
  runBy,
  workflowDefinition,
  type DefinitionDocument,
  type WorkflowDefinition,
} from '../../contract/definition.ts'
import { errorAt } from '../../governance/errors.ts'
import { actOnce } from '../../governance/idempotency.ts'
import {
  changeWorkflow,
  createWorkflow,
  deleteWorkflow,
  readWorkflow,
  type WorkflowInput,
} from '../../governance/workflows/workflows.ts'
import { listWorkflows } from '../../governance/workflows/list.ts'
import { requireFlawless } from '../definition-mistakes.ts'
import { created, done, ok, tagged } from '../route.ts'
import { inTable, type Inner } from '../subjects.ts'
import {
  anyJson,
  called,
  listOf,
  listQuery,
  problem,
  pageIn,
  managedBy,
  id,
  role,
  time,
  emptyBody,
  named,
} from '../schemas/common.ts'
import { exampleOf, pageWith, story } from '../schemas/example.ts'
import { inspectVersion, listVersions, rollBack } from '../../governance/workflows/versions.ts'
import { versionNumber } from '../../governance/page.ts'
import { runStatuses } from '../../contract/status.ts'
import { nameField, textField, workflowSlug } from '../../policy/text.ts'
import type { Json } from '../../policy/types.ts'
import { filter, flag, wholeNumber } from '../query.ts'
import {
  approveTemplate,
  archiveTemplate,
  deprecateTemplate,
} from '../../governance/workflows/registry-lifecycle.ts'
import { listTemplates, readTemplate } from '../../governance/workflows/registry-entry.ts'
import { useTemplate } from '../../governance/workflows/registry-lifecycle.ts'

const { steps, inputs } = workflowDefinition.shape
const step = steps.element
const input = inputs.unwrap().valueType
called('InputType', input.shape.type)
called('WorkflowInput', input)
const comparison = step.shape.when.unwrap().options[1]
called('ConditionOperator', comparison.shape.operator)
called('StepCondition', comparison)
called('RetryPolicy', step.shape.retry.unwrap())
called('WorkflowStep', step)
called('WorkflowDefinition', workflowDefinition)

const workflowShape = {
  id,
  organization_id: id,
  name: z.string(),
  slug: z.string().nullable().describe('names the workflow in paths, in place of its id'),
  description: z.string(),
  version: z.int(),
  protected: z.boolean().describe('only admins may change or delete the workflow'),
  created_by: id,
  created_at: time,
  updated_at: time,
  managed_by: managedBy,
}

const templateStates = ['active', 'deprecated', 'archived'] as const
const name = nameField(200)
const description = textField(2000, 0)
const message = textField(2000, 0)
const isProtected = z
  .boolean()
  .optional()
  .describe('only an owner sets or clears it; then only admins may change or delete the workflow')

/** They stand in the definition, and may be given beside it. */
const people = {
  readers: readers.optional().describe('replaces `definition.readers`'),
  run_by: runBy.optional().describe('replaces `definition.run_by`'),
}

export const workflowBody = named('WorkflowRequest', {
  organization_id: z.string().optional(),
  name: name.optional().describe('needed, unless `definition` has it'),
  slug: workflowSlug.nullable().optional(),
  description: description.optional(),
  definition: definitionDocument,
  ...people,
  protected: isProtected,
})
export const workflowChanges = z
  .strictObject({
    name: name.optional(),
    slug: workflowSlug.nullable().optional(),
    description: description.optional(),
    definition: definitionDocument.optional(),
    ...people,
    message: message.optional(),
    protected: isProtected,
  })
  .refine(({ definition, message: said }) => said === undefined || definition !== undefined, {
    path: ['message'],
    error: 'describes a new version: give its `definition` too',
  })
  .meta({ id: 'WorkflowChanges' })
const validateBody = named('ValidateRequest', {
  organization_id: z.string().optional(),
  definition: z.record(z.string(), anyJson).describe('as for saving; its mistakes are the answer'),
})
export const rollbackBody = named('RollbackRequest', { message: message.default('') })

/** People would confuse tags that differ only in letter case. */
const tags = z
  .array(nameField(50))
  .max(20, 'a template has at most 20 tags')
  .superRefine((list, context) => {
    const folded = list.map((each) => each.trim().toLowerCase())
    const seen = new Set<string>()
    folded.forEach((each, index) => {
      if (seen.size < seen.add(each).size) return
      const repeated = `the tag \`${list[index]}\` is given twice: name each tag once`
      context.addIssue({ code: 'custom', message: repeated, path: [index] })
    })
  })

export const templateBody = named('TemplateRequest', {
  template_name: name,
  description: description.default(''),
  tags: tags.default([]),
  version: z.int().min(1).max(1_000_000_000).optional(),
})
export const deprecationBody = named('DeprecateTemplateRequest', {
  reason: textField(2000),
  replacement_id: filter.nullable().default(null),
})
export const templateUseBody = named('UseTemplateRequest', {
  name: name.optional(),
  description: description.optional(),
})

const { route } = tagged('Workflows')

const workflowSummary = z.strictObject(workflowShape).meta({ id: 'WorkflowSummary' })
const listedWorkflow = named('ListedWorkflow', {
  ...workflowShape,
  created_by_email: z.string(),
  last_run: z
    .strictObject({ id, status: z.enum(runStatuses), created_at: time })
    .nullable()
    .describe('the newest one; null without one, and for a key without `runs:read`'),
  trigger_count: z.int(),
  warnings: z
    .array(z.string())
    .describe('why tools of its current version do not work for you now, one sentence each'),
})
const workflow = named('Workflow', {
  ...workflowShape,
  definition: workflowDefinition,
  warnings: z
    .array(problem)
    .optional()
    .describe('only after saving a definition: steps whose tool does not work in the organization'),
})

const workflowDetail = named('WorkflowDetail', {
  ...workflowShape,
  created_by_email: z.string(),
  template_state: z.enum(templateStates).nullable().describe('null: it is no template'),
  definition: workflowDefinition,
})

const sample = {
  name: story.workflowName,
  slug: 'third-quarter',
  definition: {
    inputs: { to: { type: 'string', required: true } },
    steps: [
      { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
      {
        id: 'send',
        tool: 'mail_send',
        params: { to: '{{input.to}}', subject: 'Third quarter', text: '{{steps.read.output.text}}' },
      },
    ],
  },
}
const savedSample = exampleOf(workflowSummary, {
  id: story.workflow,
  organization_id: story.organization,
  name: story.workflowName,
  slug: 'third-quarter',
  description: '',
  version: 1,
  created_by: story.requester,
  created_at: story.saved,
  updated_at: story.saved,
  protected: false,
  managed_by: null,
})

const listedSample = exampleOf(listedWorkflow, {
  ...savedSample,
  created_by_email: 'ana@larkspur.example',
  last_run: null,
  trigger_count: 0,
  warnings: [],
})

interface Named {
  readonly name?: string | undefined
  readonly slug?: string | null | undefined
  readonly description?: string | undefined
}

/** The names of the document stand for those that the body lacks. Throws `validation_error` if both say different things. */
function withOwnNames<B extends Named & { readonly definition?: DefinitionDocument | undefined }>(
  body: B,
): Omit<B, 'definition'> & Named & { readonly definition?: WorkflowDefinition } {
  const { definition: document, ...rest } = body
  if (document === undefined) return rest
  const { $schema: _, name: ownName, slug: ownSlug, description: own, ...definition } = document
  const given: Named = { name: ownName, slug: ownSlug, description: own }
  for (const field of ['name', 'slug', 'description'] as const)
    if (body[field] !== undefined && given[field] !== undefined && body[field] !== given[field])
      throw errorAt(
        'validation_error',
        `definition.${field}`,
        `says something else than \`${field}\`: say it once`,
      )
  const names = {
    ...given,
    ...Object.fromEntries(Object.entries(rest).filter(([, each]) => each !== undefined)),
  }
  return { ...rest, ...names, definition }
}

export function newWorkflow(body: z.output<typeof workflowBody>): WorkflowInput {
  const { name: given, description: words = '', definition, ...rest } = withOwnNames(body)
  if (given === undefined) throw errorAt('validation_error', 'name', 'is missing: name the workflow')
  return { ...rest, name: given, description: words, definition: definition as WorkflowDefinition }
}

/** Each value is read again when the definition is checked, hashed, planned and run. */
export const bodyValues = 40_000

const summaryShape = {
  version: z.int(),
  deployed_at: time,
  deployed_by: id,
  message: z.string(),
  rolled_back_from: z.int().nullable(),
  rolled_back_to: z.int().nullable(),
  authors: z
    .array(z.strictObject({ user_id: id, role }))
    .describe('whose text the version contains, each with the role at the time'),
}
const listedVersion = { ...summaryShape, deployed_by_email: z.string() }
const version = z
  .strictObject({ ...summaryShape, workflow_id: id, digest: z.string(), definition: workflowDefinition })
  .meta({ id: 'WorkflowVersion' })

const oneVersion: Inner = {
  word: 'version',
  param: 'version',
  exists: ({ params }) => sql`exists (select from workflow_versions
    where workflow_id = ${params['id']} and version = ${versionNumber(params['version'] ?? '')})`,
}

export const workflowRoutes = [
  route({
    key: 'POST /workflows',
    needs: { scope: 'workflows:write', role: 'member', subject: 'own' },
    audit: ['workflow.deployed'],
    summary: 'Save a workflow and deploy its first version',
    bodyValues,
    takesYaml: true,
    body: workflowBody,
    example: { body: sample, answers: { 201: { ...savedSample, definition: sample.definition } } },
    responses: { 201: workflow },
    handle: async ({ context, caller, body, once }) =>
      created(await actOnce(once, () => createWorkflow(context, caller, newWorkflow(body), once))),
  }),
  route({
    key: 'POST /workflows/validate',
    needs: { scope: 'workflows:write', role: 'member', subject: 'own' },
    asks: true,
    summary: 'Check a definition without saving it',
    description:
      '422 names all mistakes at once, of the shape and of the meaning; for YAML with line and column. Whether its tools work in the organization, a preview says.',
    bodyValues,
    takesYaml: true,
    body: validateBody,
    responses: { 200: z.strictObject({ valid: z.literal(true) }) },
    handle: ({ body }) => {
      requireFlawless(body.definition as Json)
      return Promise.resolve(ok({ valid: true } as const))
    },
  }),
  route({
    key: 'GET /workflows',
    needs: { scope: 'workflows:read', role: 'viewer', subject: 'own' },
    summary: 'Workflows, newest first, all or those that a name finds',
    query: listQuery.extend({
      name: name.optional(),
      search: filter.optional().describe('part of the name or slug, in upper or lower case'),
    }),
    example: { answers: { 200: pageWith(listedSample) } },
    responses: { 200: listOf(listedWorkflow) },
    handle: async ({ context, caller, query }) =>
      ok(await listWorkflows(context, caller, query, pageIn(query))),
  }),
  route({
    key: 'GET /workflows/{id}',
    needs: { scope: 'workflows:read', role: 'viewer', subject: 'workflow' },
    summary: 'A workflow with its current definition',
    responses: { 200: workflowDetail },
    handle: async ({ context, params }) => ok(await readWorkflow(context.db, params.id)),
  }),
  route({
    key: 'PUT /workflows/{id}',
    needs: { scope: 'workflows:write', role: 'member', subject: 'workflow' },
    audit: ['workflow.deployed', 'workflow.updated'],
    summary: 'Change a workflow; a definition deploys a new version',
    bodyValues,
    takesYaml: true,
    body: workflowChanges,
    responses: { 200: workflow },
    handle: async ({ context, caller, params, body }) =>
      ok(await changeWorkflow(context, caller, params.id, withOwnNames(body))),
  }),
  route({
    key: 'DELETE /workflows/{id}',
    needs: { scope: 'workflows:write', role: 'member', subject: 'workflow' },
    audit: ['workflow.deleted'],
    summary: 'Delete a workflow; runs in flight go on',
    responses: { 204: null },
    handle: ({ context, caller, params }) => done(deleteWorkflow(context, caller, params.id)),
  }),
  route({
    key: 'GET /workflows/{id}/versions',
    needs: { scope: 'workflows:read', role: 'viewer', subject: 'workflow' },
    summary: 'A workflow’s frozen versions, newest first',
    query: z.object({
      limit: wholeNumber(1, 200).default(200),
      before: wholeNumber(1, 999_999_999).optional().describe('only versions with a lower number'),
    }),
    responses: { 200: z.strictObject({ versions: z.array(z.strictObject(listedVersion)) }) },
    handle: async ({ context, params, query }) =>
      ok({ versions: await listVersions(context.db, params.id, query) }),
  }),
  route({
    key: 'GET /workflows/{id}/versions/{version}',
    // Only authors below admin: `inspectVersion` checks this.
    needs: { scope: 'workflows:read', role: 'member', subject: 'workflow' },
    inner: [oneVersion],
    summary: 'The full definition of one version, for the workflow’s authors and for admins',
    responses: { 200: version },
    handle: async ({ context, caller, params }) =>
      ok(await inspectVersion(context.db, caller, params.id, params.version)),
  }),
  route({
    key: 'POST /workflows/{id}/versions/{version}/rollback',
    needs: { scope: 'workflows:write', role: 'member', subject: 'workflow' },
    inner: [oneVersion],
    audit: ['workflow.deployed'],
    summary: 'Deploy an earlier version’s definition as a new version, as one of the authors or an admin',
    body: rollbackBody,
    responses: {
      200: z.strictObject({ new_version: z.int(), rolled_back_from: z.int(), deployed_at: time }),
    },
    async handle({ context, caller, params: { id: workflowId, version: target }, body, once }) {
      return ok(
        await actOnce(once, () =>
          rollBack(context, caller, workflowId, { version: target, message: body.message }, once),
        ),
      )
    },
  }),
]

const { route: registryRoute } = tagged('Workflow registry')

const oneTemplate = inTable('id', 'template', 'registry_entries', 'workflow_id')

const templateShape = {
  id: id.describe('the workflow’s'),
  organization_id: id,
  state: z.enum(templateStates),
  template_name: z.string(),
  description: z.string(),
  tags: z.array(z.string()),
  version: z.int().describe('the frozen version that was approved'),
  approved_by: id,
  approved_at: time,
  deprecated_by: id.nullable(),
  deprecated_at: time.nullable(),
  reason: z.string().nullable().describe('why it was deprecated'),
  replacement_id: id.nullable(),
  archived_by: id.nullable(),
  archived_at: time.nullable(),
}
const template = named('Template', templateShape)
const templateDetail = named('TemplateDetail', {
  ...templateShape,
  workflow_name: z.string(),
  current_version: z.int().describe('of the workflow'),
  approved_by_email: z.string(),
  deprecated_by_email: z.string().nullable(),
  archived_by_email: z.string().nullable(),
  definition: workflowDefinition.nullable().describe('of the frozen version; null once it is archived'),
})

const usedTemplate = named('UsedTemplate', {
  ...workflowShape,
  definition: workflowDefinition,
  template_id: id,
  template_version: z.int(),
  warning: z.string().optional().describe('only for a deprecated template'),
  replacement_id: id.nullable().optional(),
})

export const registryRoutes = [
  registryRoute({
    key: 'GET /workflow-registry',
    needs: { scope: 'workflows:read', role: 'viewer', subject: 'own' },
    summary: 'Templates, latest approval first; archived ones only with `include_archived=true`',
    query: listQuery.extend({ include_archived: flag.default(false) }),
    responses: { 200: listOf(template) },
    async handle({ context, caller, query }) {
      const { limit, cursor = null, include_archived: archived } = query
      return ok(await listTemplates(context.db, caller.organizationId, archived, { limit, cursor }))
    },
  }),
  registryRoute({
    key: 'GET /workflow-registry/{id}',
    needs: { scope: 'workflows:read', role: 'viewer', subject: 'workflow' },
    inner: [oneTemplate],
    summary: 'A template with the definition that a use copies',
    responses: { 200: templateDetail },
    handle: async ({ context, params }) => ok(await readTemplate(context.db, params.id)),
  }),
  registryRoute({
    key: 'POST /workflow-registry/{id}/approve-template',
    needs: { scope: 'registry:write', role: 'owner', subject: 'workflow' },
    audit: ['template.approved'],
    summary: 'Approve a version of a workflow as a template',
    description:
      'Approves one frozen version: `version`, or the current one. Later versions do not change the template.',
    body: templateBody,
    responses: { 200: template },
    async handle({ context, caller, params, body, once }) {
      const { template_name: templateName, ...rest } = body
      const input = { templateName, ...rest }
      return ok(await actOnce(once, () => approveTemplate(context, caller, params.id, input, once)))
    },
  }),
  registryRoute({
    key: 'POST /workflow-registry/{id}/deprecate',
    needs: { scope: 'registry:write', role: 'owner', subject: 'workflow' },
    audit: ['template.deprecated'],
    summary: 'Deprecate a template: everybody who uses it is warned and told the replacement',
    body: deprecationBody,
    responses: { 200: template },
    async handle({ context, caller, params, body, once }) {
      const input = { reason: body.reason, replacementId: body.replacement_id }
      return ok(await actOnce(once, () => deprecateTemplate(context, caller, params.id, input, once)))
    },
  }),
  registryRoute({
    key: 'POST /workflow-registry/{id}/archive',
    needs: { scope: 'registry:write', role: 'owner', subject: 'workflow' },
    audit: ['template.archived'],
    summary: 'Archive a deprecated template; this cannot be undone',
    body: emptyBody,
    responses: { 200: template },
    handle: async ({ context, caller, params, once }) =>
      ok(await actOnce(once, () => archiveTemplate(context, caller, params.id, once))),
  }),
  registryRoute({
    key: 'POST /workflow-registry/{id}/use',
    // It only creates a workflow, so it needs the scope of members. Only owners have `registry:write`.
    needs: { scope: 'workflows:write', role: 'member', subject: 'workflow' },
    inner: [oneTemplate],
    audit: ['workflow.deployed', 'template.used'],
    summary: 'Create a workflow from a template’s frozen version',
    description: 'For a deprecated template the answer has a `warning` and its `replacement_id`.',
    body: templateUseBody,
    responses: { 201: usedTemplate },
    handle: async ({ context, caller, params, body, once }) =>
      created(await actOnce(once, () => useTemplate(context, caller, params.id, body, once))),
  }),
]
