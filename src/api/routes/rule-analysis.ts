import { z } from 'zod'
import { analyzeSavedRules, mostFindings } from '../../governance/rules/analysis.ts'
import { findingKinds } from '../../policy/rule-analysis.ts'
import { ok, route } from '../route.ts'
import { matchedRule } from '../schemas/common.ts'
import { exampleCall } from '../schemas/rules.ts'

const finding = z.strictObject({
  kind: z.enum(findingKinds),
  rules: z.array(matchedRule).meta({
    description:
      'the rule without effect; for `duplicate` and `contradicts`, the second rule is the other one',
  }),
  covered_by: matchedRule.nullable().meta({ description: 'the rule that decides in its place' }),
  example_call: exampleCall.nullable().meta({ description: 'a call that both rules match' }),
  message: z.string(),
})

const analysis = z
  .strictObject({
    findings: z.array(finding).max(mostFindings),
    limit_reached: z
      .enum(['findings', 'comparisons', 'time'])
      .nullable()
      .meta({ description: 'the limit that leaves out further findings; null if none is left out' }),
  })
  .meta({ id: 'RuleAnalysis' })

export const getRuleAnalysis = route({
  key: 'GET /organizations/{id}/rules/analysis',
  summary: 'Saved rules that have no effect, each with its reason',
  tag: 'Rules',
  description:
    'Looks at active and shadow rules. Each finding is proven. A rule without a finding may have no effect all the same.',
  responses: { 200: analysis },
  async handle({ context, caller, identity, signal, leaveShare, callerNow }) {
    // `analyzeSavedRules` takes a place of its own in the share, for long work.
    leaveShare()
    const request = { chargedTo: identity.charged.holderId, callerNow, signal }
    return ok(await analyzeSavedRules(context, caller.organizationId, request))
  },
})
