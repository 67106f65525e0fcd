import { z } from 'zod'
import { ruleTemplates } from '../../governance/rule-templates.ts'
import { ruleKinds } from '../../governance/rule-kinds.ts'
import { ok, route } from '../route.ts'
import { organizationQuery } from '../query.ts'

const template = z
  .strictObject({
    id: z.string(),
    title: z.string(),
    description: z.string(),
    kind: z.enum(['rule', 'label_rule']),
    body: z.union([ruleKinds.rule.input, ruleKinds.label_rule.input]),
  })
  .meta({ id: 'RuleTemplate' })

export const getRuleTemplates = route({
  key: 'GET /rule-templates',
  summary: 'Rules to start from; nothing of them is active until an organization saves it',
  tag: 'Rules',
  query: organizationQuery,
  responses: { 200: z.strictObject({ data: z.array(template), next_cursor: z.null() }) },
  async handle() {
    return ok({ data: ruleTemplates, next_cursor: null })
  },
})
