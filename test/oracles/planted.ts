import type { Call } from '../../src/policy/decide.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { Json, JsonObject } from '../../src/policy/types.ts'
import { decideByIndex } from './agree.ts'
import type { Case } from './cases.ts'
import { isList } from './found.ts'
import { kindOf, placeReading } from './places.ts'
import { idOf } from './texts.ts'

/** Deliberate mistakes in our engine. An oracle that agrees with such an engine would be useless. */
export const planted: Readonly<Record<string, (one: Case) => ReturnType<typeof decideByIndex>>> = {
  'only the first element of a list counts': onCalls((call) => ({
    ...call,
    params: eachValue(call.params, (value) => (isList(value) ? value.slice(0, 1) : value)),
  })),
  'a link is not the file it links to': onCalls((call) => ({
    ...call,
    params: eachValue(call.params, (value) =>
      typeof value === 'string' && idOf(value) !== value ? value.replace('google', 'goggle') : value,
    ),
  })),
  'another spelling is another place': onCalls((call) =>
    onPlaces(call, (text, whole) => whole !== null && whole !== text),
  ),
  'a text that no reader of places can read is another place': onCalls((call) =>
    onPlaces(call, (_, whole) => whole === null),
  ),
  'a link of another host in a rule names no place': onRules((rule) => ({
    ...rule,
    params: rule.params?.map((each) => ({ ...each, value: withoutHost(each.value) })),
  })),
  'only the first recipient of a text counts': onCalls((call) => ({
    ...call,
    params: eachValue(call.params, (value) =>
      typeof value === 'string' ? (value.split(/[,;\n]/, 1)[0] ?? '') : value,
    ),
  })),
  'text compares without case': onCalls((call) => ({
    ...call,
    params: eachValue(call.params, (value) => (value === 'X' ? 'x' : value)),
  })),
  'shadow rules are enforced': onRules((rule) =>
    rule.status === 'shadow' ? { ...rule, status: 'active' } : rule,
  ),
  'inactive rules are evaluated': onRules((rule) =>
    rule.status === 'inactive' ? { ...rule, status: 'shadow' } : rule,
  ),
  'none_of is forgotten': onRules((rule) => ({
    ...rule,
    labels: rule.labels && { ...rule.labels, none_of: undefined },
  })),
  'all_of is read as any_of': onRules((rule) => ({
    ...rule,
    labels:
      rule.labels?.all_of && !rule.labels.any_of
        ? { ...rule.labels, any_of: rule.labels.all_of, all_of: undefined }
        : rule.labels,
  })),
  'not_in is read as in': onOperator('not_in', 'in'),
  'startswith looks anywhere': onOperator('startswith', 'contains'),
  'only the first text of a list in `contains` counts': onRules((rule) => ({
    ...rule,
    params: rule.params?.map((each) =>
      each.operator === 'contains' && Array.isArray(each.value)
        ? { ...each, value: each.value.slice(0, 1) }
        : each,
    ),
  })),
  'a rule’s second condition is forgotten': onRules((rule) => ({
    ...rule,
    params: rule.params?.slice(0, 1),
  })),
  'applies_to is forgotten': onRules((rule) => ({ ...rule, applies_to: undefined })),
  'side effects are forgotten': onRules((rule) => ({ ...rule, side_effects: undefined })),
  'globs are names': onRules((rule) => ({
    ...rule,
    tools: rule.tools?.map((glob) => glob.replaceAll('?', 'x')),
  })),
  'sources are not told apart': onCalls((call) => ({ ...call, paramLabels: undefined })),
  'approvals are always on': (one) => decideByIndex({ ...one, approvalsEnabled: true }),
  'among equals the last one decides': (one) => (call) => {
    const answer = decideByIndex(one)(call)
    const last = answer.matched.findLast(
      (index) =>
        one.rules[index]?.status === 'active' &&
        one.rules[index]?.verdict === one.rules[answer.deciding ?? -1]?.verdict,
    )
    return { ...answer, deciding: last ?? null }
  },
}

const withoutHost = (value: Json): Json =>
  eachValue(value, (text) => (typeof text === 'string' && /^http:|git\.acme\.test/.test(text) ? 'zz' : text))

const elsewhere = {
  repository: 'zz/zz',
  channel: '#zz',
  issue: 'ZZ-99',
  card: 'zzzzzzzz',
  file: 'ZZ',
} as const

/** Replaces texts that name a place by another place. */
function onPlaces(call: Call, isMistaken: (text: string, whole: string | null) => boolean): Call {
  const params = Object.entries(call.params).map(([param, value]) => {
    const kind = kindOf(call, param)
    if (kind === null || typeof value !== 'string') return [param, value]
    return [param, isMistaken(value, placeReading(kind, value).whole) ? elsewhere[kind] : value]
  })
  return { ...call, params: Object.fromEntries(params) as JsonObject }
}

function onCalls(change: (call: Call) => Call) {
  return (one: Case) => {
    const decide = decideByIndex(one)
    return (call: Call) => decide(change(call))
  }
}

function onRules(change: (rule: StoredRule) => object) {
  return (one: Case) =>
    decideByIndex({
      ...one,
      rules: one.rules.map((rule) => JSON.parse(JSON.stringify(change(rule))) as StoredRule),
    })
}

function onOperator(from: string, to: string) {
  return onRules((rule) => ({
    ...rule,
    params: rule.params?.map((each) => (each.operator === from ? { ...each, operator: to } : each)),
  }))
}

function eachValue<T extends Json | JsonObject>(value: T, change: (value: Json) => Json): T {
  const changed = change(value)
  if (typeof changed !== 'object' || changed === null) return changed as T
  if (isList(changed)) return changed.map((each) => eachValue(each, change)) as unknown as T
  const entries = Object.entries(changed).map(([key, each]) => [key, eachValue(each, change)])
  return Object.fromEntries(entries) as T
}
