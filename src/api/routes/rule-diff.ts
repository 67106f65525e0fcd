import { z } from 'zod'
import { diffRules, mostChanges } from '../../governance/rules/diff.ts'
import { ok, route } from '../route.ts'
import { id, verdict } from '../schemas/common.ts'
import { approvalNeeds, exampleCall, ruleDiffBody } from '../schemas/rules.ts'

const change = z.strictObject({
  change: z.string().meta({
    description:
      'the verdicts before and after, such as `allow->deny`; if they are equal, `approval` differs',
  }),
  example_call: exampleCall,
  approval: z
    .strictObject({ from: approvalNeeds, to: approvalNeeds })
    .meta({ description: 'what the approval of the call needs, before and after' }),
  rules: z
    .array(z.strictObject({ set: z.enum(['from', 'to']), id, name: z.string(), verdict }))
    .meta({ description: 'the rules that decide the call; a set without such a rule is missing' }),
})

const diff = z
  .strictObject({
    changes: z.array(change).max(mostChanges).meta({ description: 'the smallest examples come first' }),
    tried: z.int().meta({ description: 'the number of calls that were tried' }),
    limit_reached: z.enum(['changes', 'calls', 'time', 'comparisons']).nullable().meta({
      description:
        'the limit that ended the search; `comparisons`: calls or rules that need too many comparisons are left out',
    }),
  })
  .meta({ id: 'RuleDiff' })

export const postRuleDiff = route({
  key: 'POST /organizations/{id}/rules/diff',
  summary: 'Look for calls that two sets of rules decide differently',
  tag: 'Rules',
  description:
    'Tries calls that are made from the conditions of the rules. An empty list of changes does not prove that the sets are equal.',
  body: ruleDiffBody,
  responses: { 200: diff },
  async handle({ context, caller, identity, body, signal, leaveShare, callerNow }) {
    // `diffRules` takes a place of its own in the share, for long work.
    leaveShare()
    const request = { ...body, chargedTo: identity.charged.holderId, callerNow, signal }
    return ok(await diffRules(context, caller.organizationId, request))
  },
})
