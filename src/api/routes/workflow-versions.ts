import { z } from 'zod'
import { workflowDefinition } from '../../contract/definition.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { inspectVersion, listVersions, rollBack } from '../../governance/workflows/versions.ts'
import { ok, route } from '../route.ts'
import { id, role, time } from '../schemas/common.ts'
import { rollbackBody } from '../schemas/workflows.ts'

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
const version = z
  .strictObject({ ...summaryShape, workflow_id: id, digest: z.string(), definition: workflowDefinition })
  .meta({ id: 'WorkflowVersion' })

export const getVersions = route({
  key: 'GET /workflows/{id}/versions',
  summary: 'A workflow’s frozen versions, newest first',
  tag: 'Workflows',
  responses: { 200: z.strictObject({ versions: z.array(z.strictObject(summaryShape)) }) },
  async handle({ context, params }) {
    return ok({ versions: await listVersions(context.db, params.id) })
  },
})

export const getVersion = route({
  key: 'GET /workflows/{id}/versions/{version}',
  summary: 'The full definition of one version',
  tag: 'Workflows',
  responses: { 200: version },
  async handle({ context, params }) {
    return ok(await inspectVersion(context.db, params.id, params.version))
  },
})

export const postRollback = route({
  key: 'POST /workflows/{id}/versions/{version}/rollback',
  summary: 'Deploy an earlier version’s definition as a new version',
  tag: 'Workflows',
  body: rollbackBody,
  responses: { 200: z.strictObject({ new_version: z.int(), rolled_back_from: z.int(), deployed_at: time }) },
  async handle({ context, caller, params: { id: workflowId, version: target }, body, once }) {
    return ok(
      await actOnce(once, () =>
        rollBack(context, caller, workflowId, { version: target, message: body.message }, once),
      ),
    )
  },
})
