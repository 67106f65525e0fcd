import { z } from 'zod'
import { tryRules } from '../../governance/rule-trial.ts'
import { ruleInput } from '../../policy/rule.ts'
import { labelSlug } from '../../policy/text.ts'
import type { JsonObject } from '../../policy/types.ts'
import { ok, route } from '../route.ts'
import { anyJson, id, labels, role, side, verdict } from '../schemas/common.ts'

const call = z.strictObject({
  source: z
    .enum(['workflows', 'agents'])
    .optional()
    .meta({ description: 'left out: `agents` for a tool that only agents have, else `workflows`' }),
  tool: z.string().min(1).max(200),
  side_effect: side
    .optional()
    .meta({ description: 'left out: what the tool declares, and `write` where nobody has declared it' }),
  params: z.record(z.string(), anyJson).default({}),
  labels: z.array(labelSlug).max(1000).default([]).meta({ description: 'labels of the call’s inputs' }),
  role: role.optional().meta({ description: 'of who calls; rules do not look at it' }),
})

const trial = z
  .strictObject({
    decision: verdict,
    reason: z.string(),
    explanation: z.string(),
    rule_id: id.nullable(),
    rule_name: z.string().nullable(),
    matched_rules: z.array(z.strictObject({ id, name: z.string(), verdict, shadow: z.boolean() })),
    side_effect: side,
    labels,
    approval: z
      .strictObject({
        approver: z.enum(['admin', 'owner']),
        approvals_needed: z.int(),
        expires_after_seconds: z.int().nullable(),
      })
      .nullable()
      .meta({ description: 'what the approval of a held call takes' }),
  })
  .meta({ id: 'RuleTrial' })

export const postRuleTrial = route({
  key: 'POST /organizations/{id}/rules/test',
  summary: 'Ask what the rules would say of a call; nothing is called and nothing recorded',
  tag: 'Rules',
  description: 'With `rules` these drafts alone are asked, else the saved ones.',
  body: z.strictObject({ call, rules: z.array(ruleInput).max(1000).optional() }),
  responses: { 200: trial },
  async handle({ context, caller, body }) {
    const { params, ...rest } = body.call
    const asked = { ...rest, params: params as JsonObject }
    return ok(await tryRules(context, caller.organizationId, asked, body.rules ?? null))
  },
})
