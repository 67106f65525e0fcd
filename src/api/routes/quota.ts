import { z } from 'zod'
import { plans } from '../../db/schema/identity.ts'
import { limitsSchema, overridesSchema, quotaPatch as overrides } from '../../governance/quotas/limits.ts'
import { changeQuota, readQuota } from '../../governance/quotas/quota.ts'
import { ok, route } from '../route.ts'

const quota = z
  .strictObject({
    plan: z.enum(plans),
    limits: limitsSchema.meta({ description: 'what the plan gives' }),
    overrides: overridesSchema.meta({ description: 'what an owner has set instead' }),
    effective: limitsSchema.meta({ description: 'what holds' }),
    usage: z
      .strictObject({
        storage_mb: z.number(),
        pending_approvals: z.int(),
        rules: z.int(),
        memory_mb: z.number(),
      })
      .optional()
      .meta({ description: 'what is kept at this moment, of limits that count it; only when it is read' }),
  })
  .meta({ id: 'Quota' })

export const getQuota = route({
  key: 'GET /organizations/{id}/quota',
  summary: 'The plan, its limits, the overrides and what holds',
  tag: 'Governance',
  responses: { 200: quota },
  async handle({ context, caller }) {
    return ok(await readQuota(context, caller.organizationId))
  },
})

export const patchQuota = route({
  key: 'PATCH /organizations/{id}/quota',
  summary: 'Override limits; they hold at once',
  description:
    'Whole positive numbers, each at most 100 times what the plan gives; null takes an override away.',
  tag: 'Governance',
  body: overrides,
  responses: { 200: quota },
  async handle({ context, caller, body }) {
    return ok(await changeQuota(context, caller, body))
  },
})
