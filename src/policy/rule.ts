import { z } from 'zod'
import { isMe } from './me.ts'
import { byOperand, type ParamCondition, wholesOf } from './operators/index.ts'
import { listOf } from './operators/operator.ts'
import { contradictions, type Fields } from './rule-contradictions.ts'
import { mostSeats } from './seats.ts'
import { groupName, isBracketed, labelSlug, nameField, placeholderMessage, textField } from './text.ts'
import type { ToolFacts } from './tool-facts.ts'
import { filledInWhole } from './operators/operands.ts'

const path = textField(200)
  .refine((text) => text.split('.').every((segment) => segment !== ''), {
    message: 'a parameter is a dotted path such as `to` or `message.body`, or `*` for any',
  })
  // Request bodies with a field `__proto__` are refused.
  .refine((text) => !text.split('.').includes('__proto__'), {
    message: 'no call has a field called `__proto__`: name another parameter',
  })
  .superRefine((text, context) => filledInWhole(text, context))

/** By their names in openapi.json. */
export const conditionForms = new Map(
  [...byOperand].map(([{ form, schema }, operators]) => [
    `${form}Condition`,
    z.strictObject({ param: path, operator: z.enum(operators), value: schema }),
  ]),
)

export const conditionInput = z.discriminatedUnion('operator', [
  ...conditionForms.values(),
] as never) as unknown as z.ZodType<ParamCondition>
const labelList = z.array(labelSlug).min(1, 'name at least one label or leave it out').max(100)
const labelConditions = z
  .strictObject({ any_of: labelList.optional(), all_of: labelList.optional(), none_of: labelList.optional() })
  .refine((labels) => Object.values(labels).some((list) => list !== undefined), {
    message: 'give `any_of`, `all_of` or `none_of`, or leave `labels` out',
  })
  .superRefine(({ any_of = [], all_of = [], none_of = [] }, context) => {
    const excluded = new Set(none_of)
    const required = all_of.find((label) => excluded.has(label))
    const only = any_of.every((label) => excluded.has(label)) ? any_of[0] : undefined
    const label = required ?? only
    if (label === undefined) return
    const list = required === undefined ? 'any_of' : 'all_of'
    const message = `excludes \`${label}\`, which \`${list}\` asks for, so the rule would never match: take it out of one of them`
    context.addIssue({ code: 'custom', path: ['none_of'], message })
  })

const toolGlobs = ({ names }: ToolFacts) => {
  const glob = textField(200).superRefine((glob, context) => {
    if (isBracketed(glob)) context.addIssue({ code: 'custom', message: placeholderMessage(glob) })
    else if (/\s/.test(glob)) {
      context.addIssue({ code: 'custom', message: 'a tool name or glob has no white space, e.g. `mail_*`' })
    } else {
      const message = names.issue(glob)
      if (message !== null) context.addIssue({ code: 'custom', message })
    }
  })
  return z.array(glob).min(1, 'name at least one tool or leave it out').max(100)
}

const params = z.array(conditionInput).min(1, 'give at least one condition or leave it out').max(100)
const status = z.enum(['active', 'shadow', 'inactive'])

function refuseUseless(facts: ToolFacts, rule: Fields, context: z.RefinementCtx): void {
  refuseMe(facts, rule, context)
  refuseUnknownParams(facts, rule, context)
  for (const { path, message } of contradictions(facts, rule))
    context.addIssue({ code: 'custom', path: [...path], message })
}

/** The requester's address replaces `me` before rules see it (docs/decisions/0015). */
function refuseMe(
  facts: ToolFacts,
  { tools, params = [], applies_to }: Fields,
  context: z.RefinementCtx,
): void {
  if (applies_to?.includes('workflows') === false) return
  const covered = facts.covered(tools)
  for (const [index, { param, operator, value }] of params.entries()) {
    const asks = wholesOf(operator) !== null && listOf<unknown>(value).some(isMe)
    const met = covered.find(({ people }) => people.includes(param.split('.')[0] ?? ''))
    if (!asks || met === undefined) continue
    context.addIssue({
      code: 'custom',
      path: ['params', index, 'value'],
      message: `in \`${param}\` of \`${met.name}\` rules see the address that \`me\` stands for, never the word: write that address, or its domain with \`domain_in\`; if you mean other tools, name them in \`tools\``,
    })
  }
}

/** Such a rule would protect nothing, and nobody would notice. */
function refuseUnknownParams(
  facts: ToolFacts,
  { tools, params = [], applies_to, approver_may_edit: names = [] }: Fields,
  context: z.RefinementCtx,
): void {
  if (applies_to?.includes('workflows') === false && names.length > 0)
    context.addIssue({
      code: 'custom',
      path: ['approver_may_edit'],
      message: 'is only for calls of workflows: a call of an agent is never edited, so leave it out',
    })
  if (tools === undefined || applies_to?.includes('workflows') === false) return
  for (const [index, name] of names.entries()) {
    const message = facts.paramIssue(tools, name)
    if (message !== null) context.addIssue({ code: 'custom', path: ['approver_may_edit', index], message })
  }
  for (const [index, { param }] of params.entries()) {
    const message = facts.paramIssue(tools, param)
    if (message !== null) context.addIssue({ code: 'custom', path: ['params', index, 'param'], message })
  }
}

const onlyForHolds =
  'is only for rules whose verdict is `require_approval`: leave it out (null in a PATCH), or change the verdict'
const approvalFields = [
  'approver',
  'approvals_needed',
  'approvers',
  'expires_after_seconds',
  'remind_after_seconds',
  'escalate',
  'approver_may_edit',
] as const

const approverRole = z.enum(['admin', 'owner'])
const votes = z.int().min(1).max(20)
/** A role, or a group by its name. */
const approver = z.union([approverRole, z.strictObject({ group: groupName })], {
  error: 'must be `admin`, `owner` or a group, such as `{"group": "finance"}`',
})
/** So many people of a role or a group. */
export const seatInput = z.union(
  [z.strictObject({ role: approverRole, count: votes }), z.strictObject({ group: groupName, count: votes })],
  { error: 'must be such as `{"group": "finance", "count": 1}` or `{"role": "admin", "count": 1}`' },
)
const approvers = z
  .array(seatInput)
  .min(1, 'name at least one group or role or leave it out')
  .max(mostSeats)
  .superRefine((seats, context) => {
    const names = seats.map((seat) => ('role' in seat ? '' : seat.group))
    const again = names.findIndex((name, index) => names.indexOf(name) < index)
    if (again < 0) return
    const name = names[again]
    const message =
      name === ''
        ? 'is a second role: name one role, an owner also counts as an admin'
        : `names \`${name}\` again: give it once, with the number of its members in \`count\``
    context.addIssue({ code: 'custom', path: [again], message })
  })

/** 0: the approval never expires. */
export const expires = z
  .int()
  .min(0)
  .max(10 * 365 * 24 * 60 * 60)
/** From a minute to 30 days. */
export const waited = z
  .int()
  .min(60)
  .max(30 * 24 * 60 * 60)
export const escalate = z
  .array(z.strictObject({ after_seconds: waited, to: approver }))
  .min(1, 'name at least one role or group or leave it out')
  .max(3)
  .superRefine((later, context) => {
    for (const [index, { after_seconds: after, to }] of later.entries()) {
      const before = later.slice(0, index)
      if (before.some(({ after_seconds }) => after_seconds >= after)) {
        const message = 'must be larger than the one before: the list is in the order of time'
        context.addIssue({ code: 'custom', path: [index, 'after_seconds'], message })
      }
      if (before.some((each) => JSON.stringify(each.to) === JSON.stringify(to))) {
        const message = 'is asked by an earlier one already: leave one of them out'
        context.addIssue({ code: 'custom', path: [index, 'to'], message })
      }
    }
  })

const editable = z
  .array(
    path.refine((name) => !name.includes('.') && name !== '*', {
      message: 'is a whole parameter, such as `text`: name it without a path',
    }),
  )
  .min(1, 'name at least one parameter or leave it out')
  .max(20)

export function ruleSchemas(facts: ToolFacts) {
  const tools = toolGlobs(facts)

  const ruleShape = {
    name: nameField(200),
    description: textField(2000, 0).optional(),
    verdict: z.enum(['allow', 'require_approval', 'deny']),
    status: status.default('active'),
    side_effects: z
      .array(z.enum(['read', 'write', 'egress']))
      .min(1, 'name at least one side effect or leave it out')
      .max(3)
      .optional(),
    tools: tools.optional(),
    labels: labelConditions.optional(),
    params: params.optional(),
    applies_to: z
      .array(z.enum(['workflows', 'agents']))
      .min(1, 'name `workflows`, `agents` or both, or leave it out')
      .max(2)
      .optional(),
    /** Only for tools of agents that need a class and that `external_tools` gives no side effect. */
    classed: z
      .boolean()
      .refine(
        (given): given is false => !given,
        'must be false, or left out: a rule can only ask for tools that nobody has classed',
      )
      .optional(),
    match_all: z.boolean().optional(),
    approver: approver.optional(),
    approvals_needed: votes.optional(),
    /** In place of `approver` and `approvals_needed`: all of them, by different people. */
    approvers: approvers.optional(),
    expires_after_seconds: expires.optional(),
    /** Then those who can decide and have not voted get their message again. */
    remind_after_seconds: waited.optional(),
    /** Who is asked too, and may decide, from then on. */
    escalate: escalate.optional(),
    /** Whole parameters that an approver may edit. Somebody else confirms what they typed. */
    approver_may_edit: editable.optional(),
  }

  const labelRuleShape = {
    name: nameField(200),
    status: status.default('active'),
    tools: tools.optional(),
    params: params.optional(),
    labels: labelConditions.optional(),
    add_labels: z.array(labelSlug).min(1, 'name at least one label to add').max(100),
  }

  /** As saved. Unknown fields are errors; each issue names its field. */
  const ruleInput = z.strictObject(ruleShape).superRefine((rule, context) => {
    refuseUseless(facts, rule, context)
    for (const field of approvalFields) {
      if (rule.verdict === 'require_approval' || rule[field] === undefined) continue
      context.addIssue({ code: 'custom', path: [field], message: onlyForHolds })
    }
    for (const field of ['approver', 'approvals_needed'] as const) {
      if (rule.approvers === undefined || rule[field] === undefined) continue
      const message = 'says the same as `approvers`: leave one of them out (null in a PATCH)'
      context.addIssue({ code: 'custom', path: [field], message })
    }
    for (const { path, message } of lateIssues(rule)) context.addIssue({ code: 'custom', path, message })
    const { side_effects, tools, labels, params, classed } = rule
    const conditions = Object.entries({ side_effects, tools, labels, params, classed })
    const [condition] = conditions.find(([, given]) => given !== undefined) ?? []
    const matchesAll = rule.match_all === true
    if (matchesAll === (condition === undefined)) return
    const message = matchesAll
      ? `is set, but the rule also has \`${condition}\`: leave \`match_all\` out (null in a PATCH), or take the conditions away`
      : 'a rule without any condition matches every call: give a condition, or `match_all` if you want that'
    context.addIssue({ code: 'custom', path: ['match_all'], message })
  })

  const labelRuleInput = z
    .strictObject(labelRuleShape)
    .superRefine((rule, context) => refuseUseless(facts, rule, context))

  return { ruleShape, labelRuleShape, ruleInput, labelRuleInput }
}

/** What would come after the expiry, or would ask nobody new. */
export function lateIssues(rule: {
  readonly approver?: z.infer<typeof approver> | { readonly person: string } | undefined
  readonly approvers?: z.infer<typeof approvers> | undefined
  readonly expires_after_seconds?: number | undefined
  readonly remind_after_seconds?: number | undefined
  readonly escalate?: z.infer<typeof escalate> | undefined
}): { path: (string | number)[]; message: string }[] {
  const { expires_after_seconds: end = 0, remind_after_seconds: reminder, escalate: later = [] } = rule
  const times = [
    ...(reminder === undefined ? [] : [{ path: ['remind_after_seconds'], after: reminder }]),
    ...later.map(({ after_seconds: after }, index) => ({
      path: ['escalate', index, 'after_seconds'],
      after,
    })),
  ]
  const message = `must be less than \`expires_after_seconds\` (${end}): after it, nobody can decide`
  const first = JSON.stringify(rule.approver ?? 'admin')
  return [
    ...times.filter(({ after }) => end > 0 && after >= end).map(({ path }) => ({ path, message })),
    ...later.flatMap(({ to }, index) =>
      rule.approvers === undefined && JSON.stringify(to) === first
        ? [{ path: ['escalate', index, 'to'], message: 'is asked from the beginning: name somebody else' }]
        : [],
    ),
  ]
}

type Schemas = ReturnType<typeof ruleSchemas>
export type RuleBody = z.infer<Schemas['ruleInput']>
export type LabelRuleBody = z.infer<Schemas['labelRuleInput']>
/** Fields to change. null removes an optional one. */
type Changes<Body> = { readonly [Field in keyof Body]?: Body[Field] | null | undefined }
export type RulePatch = Changes<RuleBody>
export type LabelRulePatch = Changes<LabelRuleBody>

/** In the order of saving: of equally restrictive rules, the first gives the reason. */
export type StoredRule = RuleBody & { readonly id: string }
export type StoredLabelRule = LabelRuleBody & { readonly id: string }

/** The caller must validate the whole body, since a patch can remove the last condition. */
export function applyPatch(body: RuleBody | LabelRuleBody, patch: RulePatch | LabelRulePatch): unknown {
  const merged: Record<string, unknown> = { ...body }
  for (const [field, value] of Object.entries(patch)) {
    if (value === null) delete merged[field]
    else if (value !== undefined) merged[field] = value
  }
  delete merged['id']
  return merged
}
