import type { z } from 'zod'
import {
  labelRuleInput,
  labelRulePatch,
  ruleInput,
  rulePatch,
  type LabelRuleBody,
  type LabelRulePatch,
  type RuleBody,
  type RulePatch,
} from '../policy/rule.ts'

interface RuleKind<Body, Patch> {
  readonly table: 'rules' | 'label_rules'
  readonly id: 'rule' | 'labelRule'
  /** First word of its audit event types. */
  readonly noun: 'rule' | 'label_rule'
  readonly word: string
  readonly nameConstraint: string
  readonly input: z.ZodType<Body>
  readonly patch: z.ZodType<Patch>
}

/** Action rules and label rules are kept alike; this is where they differ. */
export const ruleKinds = {
  rule: {
    table: 'rules',
    id: 'rule',
    noun: 'rule',
    word: 'rule',
    nameConstraint: 'rules_name',
    input: ruleInput,
    patch: rulePatch,
  } satisfies RuleKind<RuleBody, RulePatch>,
  label_rule: {
    table: 'label_rules',
    id: 'labelRule',
    noun: 'label_rule',
    word: 'label rule',
    nameConstraint: 'label_rules_name',
    input: labelRuleInput,
    patch: labelRulePatch,
  } satisfies RuleKind<LabelRuleBody, LabelRulePatch>,
} as const
export type RuleKindName = keyof typeof ruleKinds
export type AnyBody = RuleBody | LabelRuleBody
export type AnyPatch = RulePatch | LabelRulePatch
