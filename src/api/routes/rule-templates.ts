import { z } from 'zod'
import { ruleTemplates } from '../../governance/rules/rule-templates.ts'
import { ruleKinds } from '../../governance/rules/rule-kinds.ts'
import { pageOfList } from '../../governance/page.ts'
import { ok, route } from '../route.ts'
import { listOf, listQuery } from '../schemas/common.ts'

const template = z
  .strictObject({
    id: z.string(),
    title: z.string(),
    description: z.string(),
    starter: z.boolean().describe('whether `service_hook.py install --starter-rules` saves it'),
    kind: z.enum(['rule', 'label_rule']),
    body: z.union([ruleKinds.rule.input, ruleKinds.label_rule.input]),
  })
  .meta({ id: 'RuleTemplate' })

export const getRuleTemplates = route({
  key: 'GET /rule-templates',
  summary: 'Rules to start from; none is active until an organization saves it',
  tag: 'Rules',
  query: listQuery,
  responses: { 200: listOf(template) },
  handle({ query }) {
    const { limit, cursor = null } = query
    const page = pageOfList(ruleTemplates, { limit, cursor }, ({ id }) => id)
    const data = page.data.map((each) => ({ ...each, starter: each.starter === true }))
    return Promise.resolve(ok({ ...page, data }))
  },
})
