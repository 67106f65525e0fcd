import { verifyChain } from '../../governance/verify.ts'
import { ok, route } from '../route.ts'
import { verification } from '../schemas/audit.ts'

export const getVerify = route({
  key: 'GET /organizations/{id}/audit-events/verify',
  summary: 'Recompute the hash chain and report the first entry that does not hold',
  tag: 'Audit',
  responses: { 200: verification },
  async handle({ context, caller }) {
    const { database } = context.config
    const { organizationId } = caller
    return ok(await verifyChain({ databaseUrl: database.url, appRole: database.appRole, organizationId }))
  },
})
