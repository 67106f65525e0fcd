import { z } from 'zod'
import { workflowDefinition } from '../../contract/definition.ts'
import { actOnce } from '../../governance/idempotency.ts'
import {
  changeWorkflow,
  createWorkflow,
  deleteWorkflow,
  listWorkflows,
  readWorkflow,
} from '../../governance/workflows/workflows.ts'
import { created, noContent, ok, route } from '../route.ts'
import { listOf, listQuery, problem } from '../schemas/common.ts'
import { workflowBody, workflowChanges, workflowShape } from '../schemas/workflows.ts'

const workflowSummary = z.strictObject(workflowShape).meta({ id: 'WorkflowSummary' })
const workflow = z
  .strictObject({
    ...workflowShape,
    definition: workflowDefinition,
    warnings: z.array(problem).optional().meta({
      description: 'only after saving a definition: steps whose tool does not work in the organization',
    }),
  })
  .meta({ id: 'Workflow' })

/**
 * Maximum number of values in a body with a definition. Each value is read again when the definition is checked,
 * hashed, planned and run.
 */
const bodyValues = 40_000

export const postWorkflow = route({
  key: 'POST /workflows',
  summary: 'Save a workflow and deploy its first version',
  tag: 'Workflows',
  bodyValues,
  body: workflowBody,
  responses: { 201: workflow },
  async handle({ context, caller, body, once }) {
    return created(await actOnce(once, () => createWorkflow(context, caller, body, once)))
  },
})

export const getWorkflows = route({
  key: 'GET /workflows',
  summary: 'Workflows, newest first',
  tag: 'Workflows',
  query: listQuery,
  responses: { 200: listOf(workflowSummary) },
  async handle({ context, caller, query }) {
    const { limit, cursor = null } = query
    return ok(await listWorkflows(context.db, caller.organizationId, { limit, cursor }))
  },
})

export const getWorkflow = route({
  key: 'GET /workflows/{id}',
  summary: 'A workflow with its current definition',
  tag: 'Workflows',
  responses: { 200: workflow },
  async handle({ context, params }) {
    return ok(await readWorkflow(context.db, params.id))
  },
})

export const putWorkflow = route({
  key: 'PUT /workflows/{id}',
  summary: 'Change a workflow; a definition deploys a new version',
  tag: 'Workflows',
  bodyValues,
  body: workflowChanges,
  responses: { 200: workflow },
  async handle({ context, caller, params, body }) {
    return ok(await changeWorkflow(context, caller, params.id, body))
  },
})

export const deleteWorkflowRoute = route({
  key: 'DELETE /workflows/{id}',
  summary: 'Delete a workflow; runs in flight go on',
  tag: 'Workflows',
  responses: { 204: null },
  async handle({ context, caller, params }) {
    await deleteWorkflow(context, caller, params.id)
    return noContent
  },
})
