import { ok, route } from '../route.ts'
import { verification } from '../schemas/audit.ts'

export const getVerify = route({
  key: 'GET /organizations/{id}/audit-events/verify',
  summary: 'Recompute the hash chain and report the first entry that does not match',
  description:
    'Also compares the chain with the checkpoint that is kept outside the database. The reason `checkpoint` means: the chain is shorter, has another entry at that place, or the kept file is lost or cannot be used. The reason `foreign` means: the service did not write the entry.',
  tag: 'Audit',
  responses: { 200: verification },
  waits: true,
  async handle({ context, caller }) {
    const { database, encryptionKeys } = context.config
    const { organizationId } = caller
    const expected = await context.checkpoints.expected(organizationId)
    const request = {
      databaseUrl: database.url,
      appRole: database.appRole,
      organizationId,
      encryptionKeys,
      expected,
    }
    const result = await context.verifier.verify(request, context.shares.isContended)
    context.auditAlarms.verified(organizationId, result.first_mismatch)
    return ok(result)
  },
})
