import { z } from 'zod'
import { limitsSchema, overridesSchema, plans } from '../../contract/plan-limits.ts'
import { changeQuota, readQuota } from '../../governance/limits/quota.ts'
import { ok, route } from '../route.ts'
import { quotaPatch } from '../schemas/governance.ts'

const quota = z
  .strictObject({
    plan: z.enum(plans),
    limits: limitsSchema.meta({ description: 'limits of the plan' }),
    overrides: overridesSchema.meta({ description: 'limits that an owner has set instead' }),
    effective: limitsSchema.meta({ description: 'what holds' }),
    usage: z
      .strictObject({
        storage_mb: z.number(),
        pending_approvals: z.int(),
        rules: z.int(),
        memory_mb: z.number(),
      })
      .optional()
      .meta({ description: 'present usage of limits on stored things; only in the answer to GET' }),
  })
  .meta({ id: 'Quota' })

export const getQuota = route({
  key: 'GET /organizations/{id}/quota',
  summary: 'The plan, its limits, the overrides and the effective limits',
  tag: 'Governance',
  responses: { 200: quota },
  async handle({ context, caller }) {
    return ok(await readQuota(context.db, caller.organizationId))
  },
})

export const patchQuota = route({
  key: 'PATCH /organizations/{id}/quota',
  summary: 'Override limits; they apply at once',
  description: 'Positive whole numbers, each at most 100 times the plan’s limit; null removes an override.',
  tag: 'Governance',
  body: quotaPatch,
  responses: { 200: quota },
  async handle({ context, caller, body }) {
    return ok(await changeQuota(context, caller, body))
  },
})
