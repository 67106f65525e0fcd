import { z } from 'zod'
import { tryRules } from '../../governance/rules/rule-trial.ts'
import type { JsonObject } from '../../policy/types.ts'
import { ok, route } from '../route.ts'
import { id, labels, matchedRule, side, verdict } from '../schemas/common.ts'
import { approvalNeeds, ruleTrialBody } from '../schemas/rules.ts'

const trial = z
  .strictObject({
    decision: verdict,
    reason: z.string(),
    explanation: z.string(),
    rule_id: id.nullable(),
    rule_name: z.string().nullable(),
    matched_rules: z.array(matchedRule),
    side_effect: side,
    labels,
    approval: approvalNeeds,
  })
  .meta({ id: 'RuleTrial' })

export const postRuleTrial = route({
  key: 'POST /organizations/{id}/rules/test',
  summary: 'Ask what the rules would decide; nothing is called and nothing recorded',
  tag: 'Rules',
  description: 'With `rules` these drafts alone are asked, else the saved ones.',
  body: ruleTrialBody,
  responses: { 200: trial },
  async handle({ context, caller, body }) {
    const { params, ...rest } = body.call
    const asked = { ...rest, params: params as JsonObject }
    return ok(await tryRules(context, caller, asked, body.rules ?? null))
  },
})
