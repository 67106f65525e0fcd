import type { z } from 'zod'
import {
  ruleSchemas,
  type LabelRuleBody,
  type LabelRulePatch,
  type RuleBody,
  type RulePatch,
} from '../../policy/rule.ts'
import { facts } from '../../tools/facts.ts'

/** The schemas of rules that name the tools of the catalogue. */
export const { ruleShape, labelRuleShape, ruleInput, labelRuleInput } = ruleSchemas(facts)

interface RuleKind<Body> {
  readonly table: 'rules' | 'label_rules'
  readonly id: 'rule' | 'labelRule'
  /** The first word of the audit event types of this kind. */
  readonly noun: 'rule' | 'label_rule'
  readonly word: string
  /** The part of the API's paths that names this kind. Example: `label-rules` in `/organizations/{id}/label-rules`. */
  readonly path: string
  readonly input: z.ZodType<Body>
}

/** The differences between action rules and label rules; everything else is shared. */
export const ruleKinds = {
  rule: {
    table: 'rules',
    id: 'rule',
    noun: 'rule',
    word: 'rule',
    path: 'rules',
    input: ruleInput,
  } satisfies RuleKind<RuleBody>,
  label_rule: {
    table: 'label_rules',
    id: 'labelRule',
    noun: 'label_rule',
    word: 'label rule',
    path: 'label-rules',
    input: labelRuleInput,
  } satisfies RuleKind<LabelRuleBody>,
} as const
export type RuleKindName = keyof typeof ruleKinds
export type AnyBody = RuleBody | LabelRuleBody
export type AnyPatch = RulePatch | LabelRulePatch
