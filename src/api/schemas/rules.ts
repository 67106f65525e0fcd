import { z } from 'zod'
import { labelRuleInput, labelRuleShape, ruleInput, ruleShape } from '../../governance/rules/rule-kinds.ts'
import { labelSlug } from '../../policy/text.ts'
import { instant } from '../query.ts'
import { anyJson, approver, role, side } from './common.ts'

/** The body of a PATCH of a rule. It may contain any of the rule's fields. The value null removes an optional field. */
const ruleChanges = z.strictObject({
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
  expires_after_seconds: ruleShape.expires_after_seconds.nullable(),
})

const labelRuleChanges = z.strictObject({
  name: labelRuleShape.name.optional(),
  status: labelRuleShape.status.unwrap().optional(),
  tools: labelRuleShape.tools.nullable(),
  params: labelRuleShape.params.nullable(),
  labels: labelRuleShape.labels.nullable(),
  add_labels: labelRuleShape.add_labels.optional(),
})

/** For each kind of rule: `body` saves a rule, and `changes` changes a rule. */
export const ruleBodies = {
  rule: { body: ruleInput, changes: ruleChanges },
  label_rule: { body: labelRuleInput, changes: labelRuleChanges },
} as const

const host = z.string().min(1).max(261)

const call = z.strictObject({
  source: z
    .enum(['workflows', 'agents'])
    .optional()
    .meta({ description: 'default: `agents` for a tool that only agents have, else `workflows`' }),
  tool: z.string().min(1).max(200),
  side_effect: side
    .optional()
    .meta({ description: 'default: the side effect that the tool declares, else `write`' }),
  params: z.record(z.string(), anyJson).default({}),
  destination: host
    .optional()
    .meta({ description: 'the host to which a call of a workflow goes; default: it stays here' }),
  labels: z.array(labelSlug).max(1000).default([]).meta({ description: 'labels of the call’s inputs' }),
  role: role.optional().meta({
    description:
      'the caller’s role, at most your own: it and its tool policies are asked before the rules; without it, the rules alone',
  }),
})

/** A call that a rule matches, in the form in which `rules/test` takes it. */
export const exampleCall = z
  .strictObject({
    source: z.enum(['workflows', 'agents']),
    tool: z.string(),
    side_effect: side,
    params: z.record(z.string(), anyJson),
    destination: z.string().optional(),
    labels: z.array(z.string()),
  })
  .meta({ id: 'ExampleCall', description: 'a call in the form in which `rules/test` takes it' })

/** Null if the call needs no approval. */
export const approvalNeeds = z
  .strictObject({ approver, approvals_needed: z.int(), expires_after_seconds: z.int().nullable() })
  .nullable()
  .meta({ description: 'what the approval of a held call needs' })

const drafts = z.array(ruleInput).max(1000)

export const ruleTrialBody = z.strictObject({ call, rules: drafts.optional() })

export const ruleDiffBody = z.strictObject({
  from: z
    .union([z.literal('active'), drafts])
    .meta({ description: '`active` stands for the saved rules that are active' }),
  to: drafts,
})

export const ruleBacktestBody = z
  .strictObject({
    rules: drafts.meta({ description: 'they decide in place of the saved rules' }),
    since: instant.optional().meta({ description: 'only calls that were decided at this time or later' }),
    until: instant.optional().meta({ description: 'only calls that were decided before this time' }),
  })
  .refine(({ since, until }) => since === undefined || until === undefined || since < until, {
    path: ['until'],
    message: 'must be after `since`',
  })
