import { z } from 'zod'
import { listAudit } from '../../governance/audit/list.ts'
import { readGovernance } from '../../governance/audit/policy-cache.ts'
import { changeGovernance } from '../../governance/rules/settings.ts'
import { completeSettings } from '../../policy/settings.ts'
import { filter, instant, wholeNumber } from '../query.ts'
import { ok, route } from '../route.ts'
import { auditEntry } from '../schemas/audit.ts'
import { governancePatch } from '../schemas/governance.ts'

const settings = completeSettings.meta({ id: 'GovernanceSettings' })

export const getGovernance = route({
  key: 'GET /organizations/{id}/governance',
  summary: 'The organization’s settings',
  tag: 'Governance',
  responses: { 200: settings },
  async handle({ context, caller }) {
    return ok(await readGovernance(context.db, caller.organizationId))
  },
})

export const patchGovernance = route({
  key: 'PATCH /organizations/{id}/governance',
  summary: 'Change settings; they apply from the next decision on',
  tag: 'Governance',
  body: governancePatch,
  responses: { 200: settings },
  async handle({ context, caller, body }) {
    return ok(await changeGovernance(context, caller, body))
  },
})

export const getAudit = route({
  key: 'GET /organizations/{id}/governance/audit',
  summary: 'The audit log, newest first',
  tag: 'Audit',
  query: z.object({
    page: wholeNumber(1, 1_000_000).default(1),
    per_page: wholeNumber(1, 200).default(50),
    event_type: filter.optional(),
    user_id: filter.optional(),
    since: instant.optional(),
    until: instant.optional(),
  }),
  responses: {
    200: z.strictObject({ events: z.array(auditEntry), page: z.int(), per_page: z.int(), total: z.int() }),
  },
  async handle({ context, caller, query }) {
    const { page, per_page: perPage, since, until } = query
    const filters = { eventType: query.event_type, userId: query.user_id, since, until }
    return ok(await listAudit(context.db, caller.organizationId, filters, page, perPage))
  },
})
