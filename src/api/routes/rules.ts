import { z } from 'zod'
import {
  labelRuleShape,
  ruleKinds,
  ruleShape,
  labelRuleInput,
  ruleInput,
  type RuleKindName,
} from '../../governance/rules/rule-kinds.ts'
import {
  createRule,
  deleteRule,
  patchRule,
  replaceRule,
  restoreRule,
  ruleRows,
} from '../../governance/rules/rules.ts'
import { ok, tagged } from '../route.ts'
import { called, id, listOf, time, listQuery, managedBy, named } from '../schemas/common.ts'
import { pageWith, story, type Example } from '../schemas/example.ts'
import { ruleTemplates } from '../../governance/rules/rule-templates.ts'
import { listOwned, pageOfList } from '../../governance/page.ts'
import { conditionForms, conditionInput } from '../../policy/rule.ts'
import { objects } from '../objects.ts'

for (const [name, form] of conditionForms) called(name, form)
called('RuleCondition', conditionInput)
called('LabelConditions', ruleShape.labels.unwrap())
called('RuleSource', ruleShape.applies_to.unwrap().element)
const ruleStatus = called('RuleStatus', ruleShape.status.unwrap())

/** null removes an optional field. */
const ruleChanges = named('RuleChanges', {
  name: ruleShape.name.optional(),
  description: ruleShape.description.nullable(),
  verdict: ruleShape.verdict.optional(),
  status: ruleShape.status.unwrap().optional(),
  side_effects: ruleShape.side_effects.nullable(),
  tools: ruleShape.tools.nullable(),
  labels: ruleShape.labels.nullable(),
  params: ruleShape.params.nullable(),
  applies_to: ruleShape.applies_to.nullable(),
  classed: ruleShape.classed.nullable(),
  match_all: ruleShape.match_all.nullable(),
  approver: ruleShape.approver.nullable(),
  approvals_needed: ruleShape.approvals_needed.nullable(),
  approvers: ruleShape.approvers.nullable(),
  expires_after_seconds: ruleShape.expires_after_seconds.nullable(),
  remind_after_seconds: ruleShape.remind_after_seconds.nullable(),
  escalate: ruleShape.escalate.nullable(),
  approver_may_edit: ruleShape.approver_may_edit.nullable(),
})

const labelRuleChanges = named('LabelRuleChanges', {
  name: labelRuleShape.name.optional(),
  status: labelRuleShape.status.unwrap().optional(),
  tools: labelRuleShape.tools.nullable(),
  params: labelRuleShape.params.nullable(),
  labels: labelRuleShape.labels.nullable(),
  add_labels: labelRuleShape.add_labels.optional(),
})

export const ruleBodies = {
  rule: { body: called('RuleRequest', ruleInput), changes: ruleChanges },
  label_rule: { body: called('LabelRuleRequest', labelRuleInput), changes: labelRuleChanges },
} as const

const { route } = tagged('Rules')

const added = {
  id,
  organization_id: id,
  created_by: id,
  created_at: time,
  updated_at: time,
  managed_by: managedBy,
}
const schemas = {
  rule: z.strictObject({ ...ruleShape, status: ruleStatus, ...added }).meta({ id: 'Rule' }),
  label_rule: z.strictObject({ ...labelRuleShape, status: ruleStatus, ...added }).meta({ id: 'LabelRule' }),
} as const

const ruleSample = {
  name: story.ruleName,
  verdict: 'require_approval',
  side_effects: ['egress'],
  labels: { any_of: ['internal'] },
}
const savedSample = {
  ...ruleSample,
  id: story.rule,
  organization_id: story.organization,
  status: 'active',
  created_by: story.requester,
  created_at: story.saved,
  updated_at: story.saved,
  managed_by: null,
}
const ruleExamples = {
  create: { body: ruleSample, answers: { 201: savedSample } },
  list: { answers: { 200: pageWith(savedSample) } },
}

const rulesOf = <const Name extends 'rules' | 'label-rules', Kind extends RuleKindName>(
  name: Name,
  kind: Kind,
  examples: { readonly create?: Example; readonly list?: Example } = {},
) => {
  const { word, noun } = ruleKinds[kind]
  const { body, changes } = ruleBodies[kind]
  const rules = objects({
    tag: 'Rules',
    all: `/organizations/{id}/${name}`,
    one: `/organizations/{id}/${name}/{rule}`,
    subject: 'organization',
    reads: { scope: 'rules:read', role: 'member' },
    writes: { scope: 'rules:write', role: 'admin' },
    shown: schemas[kind],
    from: ruleRows(kind),
    governed: 'all',
  })
  return [
    rules.create({
      summary: `Save a ${word}; it applies from the next decision on`,
      body,
      audit: [`${noun}.created`],
      example: examples.create,
      run: (context, caller, input, once) => createRule(context, kind, caller, input, once),
    }),
    rules.list({
      summary: `The organization’s ${word}s, newest first; with \`search\`, those with it in their name`,
      filters: ['search'],
      example: examples.list,
      run: (context, caller, page, { search }) => listOwned(context, ruleRows(kind), caller, page, search),
    }),
    rules.read({ summary: `One ${word}` }),
    rules.replace({
      summary: `Replace a ${word}`,
      body,
      audit: [`${noun}.updated`],
      run: (context, caller, id, input) => replaceRule(context, kind, caller, id, input),
    }),
    rules.change({
      summary: `Change fields of a ${word}; null removes an optional field`,
      body: changes,
      audit: [`${noun}.updated`],
      run: (context, caller, id, input) => patchRule(context, kind, caller, id, input),
    }),
    rules.remove({
      summary: `Delete a ${word}`,
      audit: [`${noun}.deleted`],
      run: (context, caller, id) => deleteRule(context, kind, caller, id),
    }),
    ...rules.versions({
      kind,
      word,
      name: `${kind === 'rule' ? 'Rule' : 'LabelRule'}Version`,
      body: ruleKinds[kind].input,
      audit: [`${noun}.updated`, `${noun}.created`],
      restore: (context, caller, { id, version }, once) =>
        restoreRule(context, kind, caller, { id, version }, once),
    }),
  ] as const
}

export const ruleRoutes = [
  ...rulesOf('rules', 'rule', ruleExamples),
  ...rulesOf('label-rules', 'label_rule'),
] as const

const template = named('RuleTemplate', {
  id: z.string(),
  title: z.string(),
  description: z.string(),
  starter: z.boolean().describe('whether `service_hook.py install --starter-rules` saves it'),
  kind: z.enum(['rule', 'label_rule']),
  body: z.union([ruleKinds.rule.input, ruleKinds.label_rule.input]),
})

export const getRuleTemplates = route({
  key: 'GET /rule-templates',
  needs: { scope: 'rules:read', role: 'member', subject: 'own' },
  summary: 'Rules to start from; none is active until an organization saves it',
  query: listQuery,
  responses: { 200: listOf(template) },
  handle({ query }) {
    const { limit, cursor = null } = query
    const page = pageOfList(ruleTemplates, { limit, cursor }, ({ id }) => id)
    const data = page.data.map((each) => ({ ...each, starter: each.starter === true }))
    return Promise.resolve(ok({ ...page, data }))
  },
})
