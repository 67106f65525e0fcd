import fc from 'fast-check'
import type { ParamCondition, RuleOperator } from '../../src/policy/operators/index.ts'
import type { Call } from '../../src/policy/decide.ts'
import type { StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import { labelRuleInput, ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import type { Json, JsonObject, SideEffect, Verdict } from '../../src/policy/types.ts'
import { type Kind, kinds, partTexts, placeOfKind, placeTexts } from './places.ts'
import { allTexts, joined, linkTexts, recipientTexts, ruleDomains } from './texts.ts'

/** Several calls for the same rules. The rules with one call are one pair. */
export interface Case {
  readonly rules: readonly StoredRule[]
  readonly approvalsEnabled: boolean
  readonly calls: readonly Call[]
}

/** `kind` is the kind of place that some rules and calls of the case name. */
type PlacedCase = Case & { readonly kind: Kind }

/** Several calls for the same label rules. */
export interface LabelCase {
  readonly rules: readonly StoredLabelRule[]
  readonly calls: readonly Call[]
}

export const tools = ['mail_send', 'file_read', 'slack_send_message', 'Bash', 'mcp__crm__send_note']
const globs = ['mail_send', 'mail_*', '*send*', 'file_rea?', 'Bash', 'mcp__*__send_*', 'slack_create_channel']
export const operators: readonly RuleOperator[] = [
  ...(['equals', 'in', 'not_in', 'contains', 'startswith'] as const),
  ...(['domain_in', 'domain_not_in', 'exists', 'from_label'] as const),
]

const from = <T>(values: readonly T[]) => fc.constantFrom(...values)
const label = from(['internal', 'confidential', 'untrusted', 'pii'])
const someLabels = fc.uniqueArray(label, { minLength: 1, maxLength: 2 })

/** Values that occur often in both rules and calls, so that rules match. */
const frequent = from(['a@acme.com', 'b@evil.net', 'FILE1', 'hello', 'x', 'X'])

const recipient = fc.oneof(
  { weight: 3, arbitrary: from(recipientTexts) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.array(from(recipientTexts), { minLength: 2, maxLength: 3 }),
        from([', ', ',', '; ', ';', '\n']),
      )
      .map(([parts, separator]) => joined(parts, separator)),
  },
)
const text = fc.oneof(
  { weight: 3, arbitrary: recipient },
  { weight: 2, arbitrary: from(allTexts) },
  { weight: 1, arbitrary: from(linkTexts) },
  { weight: 1, arbitrary: from(['x@evil.s3.amazonaws.com', 'https://evil.s3.amazonaws.com/']) },
  { weight: 5, arbitrary: from(['a@acme.com', 'a@acme.com', 'b@evil.net', 'FILE1', 'hello', 'x', '']) },
)
const scalar: fc.Arbitrary<Json> = fc.oneof(
  { weight: 6, arbitrary: text },
  { weight: 2, arbitrary: from<Json>([0, 1, 2.5, true, false, null]) },
)
const person = fc.record({ email: text, name: text, age: from([1, 2]) }, { requiredKeys: [] })
const value: fc.Arbitrary<Json> = fc.oneof(
  { weight: 8, arbitrary: scalar },
  { weight: 2, arbitrary: fc.array(scalar, { maxLength: 3 }) },
  { weight: 2, arbitrary: person },
  { weight: 2, arbitrary: fc.array(fc.oneof(person as fc.Arbitrary<Json>, scalar), { maxLength: 2 }) },
  {
    weight: 1,
    arbitrary: fc.record({ text: scalar, note: scalar }, { requiredKeys: [] }) as fc.Arbitrary<Json>,
  },
)
const params = fc.record(
  {
    to: fc.oneof({ weight: 1, arbitrary: frequent }, { weight: 1, arbitrary: value }),
    cc: value,
    body: value,
    list: value,
  },
  { requiredKeys: ['to'] },
) as fc.Arbitrary<JsonObject>

export const paths = [
  ...['to', 'to', 'to', 'to', 'to', 'cc', 'body', 'body.text', 'list', 'list.email', 'list.0'],
  ...['list.0.email', 'to.email', '*', '*.email', 'gone'],
]
const builtFrom = from(['to', 'to.email', 'body.text', 'list.0', 'list.1', 'list.1.email', 'cc'])

const compared = fc.oneof(
  { weight: 9, arbitrary: frequent },
  // The schema refuses a rule that compares with `me`.
  { weight: 4, arbitrary: text.filter((each) => each !== 'me') },
  { weight: 1, arbitrary: from([1, 2.5, true]) },
)
const comparedText = fc.oneof(
  from(['hello', 'he', 'https://', 'FILE1', 'a@', 'b@evil', 'acme', 'https://docs.google.com', 'x']),
  from(linkTexts),
)
const contained = fc.oneof({ weight: 5, arbitrary: comparedText }, { weight: 1, arbitrary: from([1, true]) })
const domainList = fc.uniqueArray(from([...ruleDomains.keys(), 'amazonaws.com', 'acme.com']), {
  minLength: 1,
  maxLength: 2,
})
const values: Readonly<Record<RuleOperator, fc.Arbitrary<unknown>>> = {
  equals: compared,
  in: fc.array(compared, { minLength: 1, maxLength: 6 }),
  not_in: fc.array(compared, { minLength: 1, maxLength: 4 }),
  contains: fc.oneof(
    { weight: 2, arbitrary: contained },
    { weight: 1, arbitrary: fc.array(contained, { minLength: 1, maxLength: 3 }) },
  ),
  startswith: comparedText,
  domain_in: domainList,
  domain_not_in: domainList,
  exists: fc.boolean(),
  from_label: someLabels,
}
const anyCondition = from(operators).chain((operator) =>
  fc.record({ param: from(paths), operator: fc.constant(operator), value: values[operator] }),
) as fc.Arbitrary<ParamCondition>

/** A condition on the parameter that names a place. */
function placeCondition(kind: Kind): fc.Arbitrary<ParamCondition> {
  const [, param] = placeOfKind[kind]
  const whole = from(placeTexts(kind))
  const text = from([...placeTexts(kind), ...partTexts(kind)])
  const some = fc.array(fc.oneof({ weight: 4, arbitrary: whole }, { weight: 1, arbitrary: compared }), {
    minLength: 1,
    maxLength: 3,
  })
  const byOperator: Partial<Record<RuleOperator, fc.Arbitrary<unknown>>> = {
    equals: fc.oneof({ weight: 6, arbitrary: whole }, { weight: 1, arbitrary: compared }),
    in: some,
    not_in: some,
    contains: fc.oneof(text, fc.array(text, { minLength: 1, maxLength: 2 })),
    startswith: text,
  }
  return from(operators).chain((operator) =>
    fc.record({
      param: from([param, param, param, `${param}.0`, '*']),
      operator: fc.constant(operator),
      value: byOperator[operator] ?? values[operator],
    }),
  ) as fc.Arbitrary<ParamCondition>
}

const sometimes = <T>(arbitrary: fc.Arbitrary<T>, weight: number) =>
  fc.oneof({ weight: 10 - weight, arbitrary: fc.constant(undefined) }, { weight, arbitrary })

const shared = (kind: Kind) => ({
  status: from(['active', 'active', 'active', 'active', 'shadow', 'inactive'] as const),
  tools: sometimes(fc.uniqueArray(from(globs), { minLength: 1, maxLength: 3 }), 1),
  labels: sometimes(
    fc
      .record({ any_of: someLabels, all_of: someLabels, none_of: someLabels }, { requiredKeys: [] })
      .filter((each) => Object.keys(each).length > 0),
    1,
  ),
  params: sometimes(
    fc.array(
      fc.oneof({ weight: 3, arbitrary: anyCondition }, { weight: 1, arbitrary: placeCondition(kind) }),
      { minLength: 1, maxLength: 2 },
    ),
    9,
  ),
})
/** Whether the schema accepts a rule. A rule that asks for a label and also excludes it is refused, for example. */
const isTaken = (body: object): boolean => ruleInput.safeParse({ name: 'r', ...body }).success
const isLabelRule = (body: object): boolean => labelRuleInput.safeParse({ name: 'r', ...body }).success
const rule = (kind: Kind) =>
  fc
    .record({
      ...shared(kind),
      verdict: from<Verdict>(['allow', 'require_approval', 'deny']),
      side_effects: sometimes(
        fc.uniqueArray(from<SideEffect>(['read', 'write', 'egress']), { minLength: 1 }),
        1,
      ),
      applies_to: sometimes(fc.uniqueArray(from(['workflows', 'agents'] as const), { minLength: 1 }), 1),
    })
    .map((body) => {
      const { side_effects, tools, labels, params } = body
      const isBare = [side_effects, tools, labels, params].every((each) => each === undefined)
      return JSON.parse(JSON.stringify({ ...body, match_all: isBare })) as object
    })
    .filter(isTaken)
const labelRule = (kind: Kind) =>
  fc
    .record({ ...shared(kind), add_labels: fc.uniqueArray(label, { minLength: 1, maxLength: 2 }) })
    .map((body) => JSON.parse(JSON.stringify(body)) as object)
    .filter(isLabelRule)

/** A value of a parameter that names a place. */
export const placed = (kind: Kind): fc.Arbitrary<Json> => {
  const text = fc.oneof(
    { weight: 6, arbitrary: from(placeTexts(kind)) },
    { weight: 1, arbitrary: from(['hello', 'x', 'X', '', 'FILE1', 'a@acme.com']) },
  )
  return fc.oneof(
    { weight: 8, arbitrary: text },
    { weight: 1, arbitrary: fc.array(text, { maxLength: 2 }) },
    { weight: 1, arbitrary: from<Json>([1, true, null]) },
  )
}

const call = (kind: Kind): fc.Arbitrary<Call> => {
  const [tool, param] = placeOfKind[kind]
  return fc
    .record({
      call: anyCall,
      place: placed(kind),
      where: from(['nowhere', 'anywhere', 'own', 'own'] as const),
    })
    .map(({ call, place, where }) => {
      if (where === 'nowhere') return call
      const params = { ...call.params, [param]: place }
      return where === 'own' ? { ...call, params, tool } : { ...call, params }
    })
}

const anyCall: fc.Arbitrary<Call> = fc.record({
  source: from(['workflows', 'workflows', 'agents'] as const),
  tool: from(tools),
  sideEffect: from<SideEffect>(['read', 'write', 'egress']),
  params,
  labels: fc.uniqueArray(label, { maxLength: 3 }),
  paramLabels: fc.oneof(
    fc.constant(undefined),
    fc
      .uniqueArray(fc.tuple(builtFrom, fc.uniqueArray(label, { maxLength: 2 })), {
        selector: ([path]) => path,
        maxLength: 3,
      })
      .map((entries) => new Map(entries)),
  ),
})

/** Rules in the form in which they are saved. Rules that the schema refuses are left out. */
export const aCase: fc.Arbitrary<PlacedCase> = from(kinds)
  .chain((kind) =>
    fc.record({
      kind: fc.constant(kind),
      bodies: fc.array(rule(kind), { minLength: 1, maxLength: 6 }),
      approvalsEnabled: fc.oneof(
        { weight: 4, arbitrary: fc.constant(true) },
        { weight: 1, arbitrary: fc.constant(false) },
      ),
      calls: fc.array(call(kind), { minLength: 10, maxLength: 10 }),
    }),
  )
  .map(({ bodies, ...rest }) => ({
    ...rest,
    rules: bodies.map((body, index) => ({
      ...ruleInput.parse({ name: `rule ${index}`, ...body }),
      id: `rule_${index}`,
    })),
  }))

/** Like `aCase`, for label rules. */
export const aLabelCase: fc.Arbitrary<LabelCase> = from(kinds)
  .chain((kind) =>
    fc.record({
      bodies: fc.array(labelRule(kind), { minLength: 1, maxLength: 5 }),
      calls: fc.array(call(kind), { minLength: 10, maxLength: 10 }),
    }),
  )
  .map(({ bodies, calls }) => ({
    calls,
    rules: bodies.map((body, index) => ({
      ...labelRuleInput.parse({ name: `rule ${index}`, ...body }),
      id: `lrule_${index}`,
    })),
  }))
