import { ok, route } from '../route.ts'
import { verification } from '../schemas/audit.ts'

export const getVerify = route({
  key: 'GET /organizations/{id}/audit-events/verify',
  summary: 'Recompute the hash chain and report the first entry that does not match',
  tag: 'Audit',
  responses: { 200: verification },
  waits: true,
  async handle({ context, caller }) {
    const { database } = context.config
    const { organizationId } = caller
    const request = { databaseUrl: database.url, appRole: database.appRole, organizationId }
    return ok(await context.verifier.verify(request, context.shares.isContended))
  },
})
