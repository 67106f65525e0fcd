import { z } from 'zod'
import { workflowDefinition } from '../../contract/definition.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { inspectVersion, listVersions, rollBack } from '../../governance/workflow-versions.ts'
import { textField } from '../../policy/text.ts'
import { ok, route } from '../route.ts'
import { id, time } from '../schemas/common.ts'

const summaryShape = {
  version: z.int(),
  deployed_at: time,
  deployed_by: id,
  message: z.string(),
  rolled_back_from: z.int().nullable(),
  rolled_back_to: z.int().nullable(),
}
const version = z
  .strictObject({ ...summaryShape, workflow_id: id, digest: z.string(), definition: workflowDefinition })
  .meta({ id: 'WorkflowVersion' })

export const getVersions = route({
  key: 'GET /workflows/{id}/versions',
  summary: 'A workflow’s frozen versions, newest first',
  tag: 'Workflows',
  responses: { 200: z.strictObject({ versions: z.array(z.strictObject(summaryShape)) }) },
  async handle({ context, params }) {
    return ok({ versions: await listVersions(context, params.id) })
  },
})

export const getVersion = route({
  key: 'GET /workflows/{id}/versions/{version}',
  summary: 'The full definition of one version',
  tag: 'Workflows',
  responses: { 200: version },
  async handle({ context, params }) {
    return ok(await inspectVersion(context, params.id, params.version))
  },
})

export const postRollback = route({
  key: 'POST /workflows/{id}/versions/{version}/rollback',
  summary: 'Deploy an earlier version’s definition anew',
  tag: 'Workflows',
  body: z.strictObject({ message: textField(2000, 0).default('') }),
  responses: { 200: z.strictObject({ new_version: z.int(), rolled_back_from: z.int(), deployed_at: time }) },
  async handle({ context, caller, params: { id: workflowId, version: target }, body, once }) {
    return ok(await actOnce(once, () => rollBack(context, caller, workflowId, target, body.message, once)))
  },
})
