import type { z } from 'zod'
import {
  ruleSchemas,
  type LabelRuleBody,
  type LabelRulePatch,
  type RuleBody,
  type RulePatch,
} from '../../policy/rule.ts'
import { facts } from '../../tools/index.ts'

/** With the names of the catalogue's tools. */
export const { ruleShape, labelRuleShape, ruleInput, labelRuleInput } = ruleSchemas(facts)

interface RuleKind<Body> {
  readonly table: 'rules' | 'label_rules'
  readonly id: 'rule' | 'labelRule'
  /** The first word of its audit events. */
  readonly noun: 'rule' | 'label_rule'
  readonly word: string
  /** In the API's paths, as `label-rules` in `/organizations/{id}/label-rules`. */
  readonly path: string
  readonly input: z.ZodType<Body>
}

/** Everything else is shared. */
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
