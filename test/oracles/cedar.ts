import { preparsePolicySet, statefulIsAuthorized } from '@cedar-policy/cedar-wasm/nodejs'
import type { ParamCondition, RuleOperator } from '../../src/policy/condition.ts'
import type { Call } from '../../src/policy/decide.ts'
import type { StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import type { Answer, Oracle } from './agree.ts'
import { foundAt } from './found.ts'
import type { LabelOracle } from './label-suite.ts'
import { idOf, ruleDomains, suffixes, writtenAddress } from './texts.ts'

/**
 * Cedar: every rule becomes a policy. A rule that denies forbids the call. A rule that holds forbids it only when
 * unattended. Cedar combines them and says which policies determined its answer. Rules that allow, and shadow rules,
 * become permits of separate actions, so that Cedar also says whether they match.
 */
export const cedarOracle: Oracle = (one) => {
  const asked = Map.groupBy(
    one.rules.flatMap(({ params = [] }) => params),
    ({ param }) => param,
  )
  const contexts = new Map(one.calls.map((call) => [call, contextOf(call, asked)]))
  const most = placesIn([...contexts.values()])
  const policies = Object.fromEntries(
    one.rules.flatMap((rule, index) =>
      rule.status === 'inactive' ? [] : [[String(index), policyOf(rule, most)]],
    ),
  )
  const base = `permit(principal, action in [Action::"call", Action::"unattended"], resource);`
  const parsed = preparsePolicySet('case', { staticPolicies: { base, ...policies } })
  if (parsed.type === 'failure') throw new Error(JSON.stringify([parsed.errors, policies]))
  const hasPermits = Object.values(policies).some((policy) => policy.startsWith('permit'))
  return (call) => {
    const context = contexts.get(call) as CallContext
    const ask = (action: string) => authorize(action, context as unknown as Context)
    const unattended = ask('unattended')
    const noted = hasPermits ? ask('note') : unattended
    // A call that nobody forbids when unattended is not forbidden at all.
    const whole = unattended.isAllowed ? unattended : ask('call')
    const matched = [...new Set([...whole.rules, ...unattended.rules, ...noted.rules])].sort((a, b) => a - b)
    const verdict = !whole.isAllowed ? 'deny' : !unattended.isAllowed ? 'require_approval' : 'allow'
    const deciding = matched.find(
      (index) => one.rules[index]?.status === 'active' && one.rules[index]?.verdict === verdict,
    )
    const isRefused = verdict === 'require_approval' && !one.approvalsEnabled
    return { matched, deciding: deciding ?? null, effect: isRefused ? 'deny' : verdict } satisfies Answer
  }
}

/** A label rule permits the actions of adding its labels; Cedar denies every action that no policy permits. */
export const cedarLabelOracle: LabelOracle = (one) => {
  const asked = Map.groupBy(
    one.rules.flatMap(({ params = [] }) => params),
    ({ param }) => param,
  )
  const contexts = new Map(one.calls.map((call) => [call, contextOf(call, asked)]))
  const most = placesIn([...contexts.values()])
  const active = one.rules.filter(({ status }) => status === 'active')
  const policies = Object.fromEntries(active.map((rule, index) => [String(index), labelPolicyOf(rule, most)]))
  const parsed = preparsePolicySet('case', { staticPolicies: policies })
  if (parsed.type === 'failure') throw new Error(JSON.stringify([parsed.errors, policies]))
  const labels = [...new Set(active.flatMap((rule) => rule.add_labels))].sort()
  return (call) => {
    const context = contexts.get(call) as unknown as Context
    return labels.filter((label) => authorize(`add ${label}`, context).isAllowed)
  }
}

type Context = Parameters<typeof statefulIsAuthorized>[0]['context']

function authorize(action: string, context: Context): { isAllowed: boolean; rules: number[] } {
  const answer = statefulIsAuthorized({
    principal: { type: 'Caller', id: 'c' },
    action: { type: 'Action', id: action },
    resource: { type: 'Tool', id: 't' },
    context,
    preparsedPolicySetId: 'case',
    entities: [],
  })
  if (answer.type === 'failure') throw new Error(JSON.stringify(answer.errors))
  const { decision, diagnostics } = answer.response
  if (diagnostics.errors.length > 0) throw new Error(JSON.stringify(diagnostics.errors))
  return {
    isAllowed: decision === 'allow',
    rules: diagnostics.reason.filter((id) => id !== 'base').map(Number),
  }
}

// --- the call, as Cedar's context

type CallContext = ReturnType<typeof contextOf>

/** The conditions on each path. */
type Asked = ReadonlyMap<string, readonly ParamCondition[]>

function contextOf(call: Call, asked: Asked) {
  return {
    source: call.source,
    tool: call.tool,
    sideEffect: call.sideEffect,
    labels: [...call.labels],
    isTracked: call.paramLabels !== undefined,
    at: Object.fromEntries(
      [...asked].map(([path, conditions]) => [
        path,
        pathContext(call, path, new Set(conditions.map(({ operator }) => operator))),
      ]),
    ),
  }
}

/**
 * Cedar cannot iterate over the elements of a set, so leaves, hosts and sources get numbered fields, and only where
 * an operator needs them.
 */
function pathContext(
  call: Call,
  path: string,
  operators: ReadonlySet<RuleOperator>,
): Record<string, unknown> {
  const asks = (...names: RuleOperator[]) => names.some((name) => operators.has(name))
  const found = foundAt(call.params, path)
  const leaves = found.leaves.map(({ value, inList }) => ({
    key: keyOf(typeof value === 'string' ? idOf(value) : value),
    isElement: inList,
    ...(typeof value === 'string' ? { text: value, id: idOf(value) } : {}),
  }))
  const addresses = found.leaves.flatMap((leaf) =>
    leaf.addresses.map((address) => ({ text: address, isElement: leaf.inList })),
  )
  const hosts = new Set(found.leaves.flatMap((leaf) => leaf.hosts ?? []))
  const sources = [...(call.paramLabels ?? [])]
    .filter(([built]) => concern(path, built))
    .map(([, labels]) => [...labels])
  return {
    isMissing: found.isMissing,
    isThere: found.isThere,
    keys: leaves.map(({ key }) => key),
    addresses: addresses.map(({ text }) => text),
    ...(asks('contains', 'startswith')
      ? { ...numbered('leaf', leaves), ...numbered('address', addresses) }
      : {}),
    ...(asks('domain_in', 'domain_not_in') ? numbered('host', [...hosts].map(domainsAbove)) : {}),
    ...(asks('from_label') ? numbered('source', sources) : {}),
  }
}

type Place = 'leaf' | 'host' | 'source' | 'address'
/** For each path, the largest number of fields of each kind that a call fills. */
type Most = (path: string, name: Place) => number

function placesIn(contexts: readonly CallContext[]): Most {
  return (path, name) => {
    const filled = (context: CallContext) =>
      Object.keys(context.at[path] ?? {}).filter((key) => new RegExp(`^${name}\\d+$`).test(key)).length
    return Math.max(1, ...contexts.map(filled))
  }
}

function numbered(name: Place, values: readonly unknown[]): Record<string, unknown> {
  return Object.fromEntries(values.map((value, index) => [`${name}${index}`, value]))
}

/** Every domain that contains the host (`wide`), and those of the same registrant (`narrow`). */
function domainsAbove(host: string | null): { wide: string[]; narrow: string[] } {
  const labels = host?.split('.') ?? []
  const wide = labels.map((_, index) => labels.slice(index).join('.'))
  const suffix = suffixes[host ?? '']
  return { wide, narrow: wide.filter((domain) => suffix === undefined || domain.length > suffix.length) }
}

function concern(rule: string, built: string): boolean {
  const wanted = rule.split('.')
  let parts = built.split('.')
  if (!wanted.some((part) => /^\d$/.test(part))) parts = parts.filter((part) => !/^\d$/.test(part))
  const common = Math.min(wanted.length, parts.length)
  return wanted.slice(0, common).every((part, index) => part === '*' || part === parts[index])
}

const keyOf = (value: string | number | boolean) => `${typeof value}:${value}`

// --- a rule, as a policy

function policyOf(rule: StoredRule, most: Most): string {
  const conditions = [
    rule.side_effects && some(rule.side_effects.map((each) => `context.sideEffect == ${text(each)}`)),
    rule.applies_to && some(rule.applies_to.map((each) => `context.source == ${text(each)}`)),
    ...sharedConditions(rule, rule.verdict !== 'allow', most),
  ]
  return `${scopeOf(rule)}${when(conditions)};`
}

function labelPolicyOf(rule: StoredLabelRule, most: Most): string {
  const actions = rule.add_labels.map((label) => `Action::${text(`add ${label}`)}`).join(', ')
  return `permit(principal, action in [${actions}], resource)${when(sharedConditions(rule, true, most))};`
}

const some = (list: readonly unknown[]) => list.join(' || ')

function when(conditions: readonly (string | undefined)[]): string {
  const given = conditions.filter((condition) => condition !== undefined)
  return given.length === 0 ? '' : ` when { ${given.map((each) => `(${each})`).join(' && ')} }`
}

function sharedConditions(rule: StoredRule | StoredLabelRule, isStrict: boolean, most: Most) {
  const { labels = {} } = rule
  return [
    rule.tools && some(rule.tools.map(toolMatches)),
    labels.any_of && `context.labels.containsAny(${set(labels.any_of)})`,
    labels.all_of && `context.labels.containsAll(${set(labels.all_of)})`,
    labels.none_of && `!context.labels.containsAny(${set(labels.none_of)})`,
    ...(rule.params ?? []).map((each) => conditionOf(each, isStrict, most)),
  ]
}

function scopeOf({ status, verdict }: StoredRule): string {
  if (status === 'shadow' || verdict === 'allow')
    return 'permit(principal, action == Action::"note", resource)'
  if (verdict === 'deny')
    return 'forbid(principal, action in [Action::"call", Action::"unattended"], resource)'
  return 'forbid(principal, action == Action::"unattended", resource)'
}

function toolMatches(glob: string): string {
  // `?` is exactly one character, which Cedar's `like` cannot express, so the existing tools are listed.
  if (glob === 'file_rea?') return 'context.tool == "file_read"'
  return `context.tool like ${pattern(glob.split('*'))}`
}

function conditionOf({ param, operator, value }: ParamCondition, isStrict: boolean, most: Most): string {
  const at = `context.at[${text(param)}]`
  const list = Array.isArray(value) ? value : [value]
  const keys = set(list.map((each) => keyOf(typeof each === 'string' ? idOf(each) : each)))
  const none = `${at}.keys.isEmpty()`
  const range = (name: Place) => Array.from({ length: most(param, name) }, (_, index) => `${name}${index}`)
  switch (operator) {
    case 'equals':
    case 'in':
      return isStrict
        ? `${at}.keys.containsAny(${keys}) || ${at}.addresses.containsAny(${set(wholes(list))})`
        : `!${at}.isMissing && !${none} && ${keys}.containsAll(${at}.keys)`
    case 'not_in':
      return isStrict
        ? `${at}.isMissing || ${none} || !${keys}.containsAll(${at}.keys)`
        : `!${at}.isMissing && !${none} && !${at}.keys.containsAny(${keys})`
    case 'contains': {
      const ofText = each(at, range('leaf'), isStrict, (leaf) =>
        includes(leaf, list[0] as string | number | boolean),
      )
      return isStrict ? `${ofText} || ${ofAddresses(at, range('address'), list[0], true)}` : ofText
    }
    case 'startswith': {
      const ofText = each(at, range('leaf'), isStrict, (leaf) => begins(leaf, value))
      return isStrict ? `${ofText} || ${ofAddresses(at, range('address'), value, false)}` : ofText
    }
    case 'domain_in':
      return each(
        at,
        range('host'),
        isStrict,
        (host) => `${host}.${isStrict ? 'wide' : 'narrow'}.containsAny(${domains(list)})`,
      )
    case 'domain_not_in': {
      const outside = (host: string) =>
        `!${host}.${isStrict ? 'narrow' : 'wide'}.containsAny(${domains(list)})`
      const some = each(at, range('host'), isStrict, outside)
      return isStrict ? `${at}.isMissing || !(${at} has host0) || ${some}` : some
    }
    case 'exists': {
      const isComplete = `(${at}.isThere && !${at}.isMissing)`
      if (value) return isStrict ? `${at}.isThere` : isComplete
      return isStrict ? `!${isComplete}` : `!${at}.isThere`
    }
    default: {
      const wanted = set(list)
      const untracked = `!context.isTracked && ${at}.isThere && context.labels.containsAny(${wanted})`
      const carried = (source: string) => `${source}.containsAny(${wanted})`
      const tracked = range('source').map((place) => guarded(at, place, carried, isStrict))
      const all = isStrict ? tracked.join(' || ') : `${at} has source0 && ${tracked.map(wrap).join(' && ')}`
      return `(${untracked}) || (context.isTracked && (${all}))`
    }
  }
}

/**
 * For a rule that restricts, one matching element is enough. For a rule that allows, all must match, and there must
 * be at least one.
 */
function each(
  at: string,
  places: readonly string[],
  isStrict: boolean,
  holds: (place: string) => string,
): string {
  const answers = places.map((place) => guarded(at, place, holds, isStrict))
  if (isStrict) return answers.join(' || ')
  return `!${at}.isMissing && ${at} has ${places[0]} && ${answers.map(wrap).join(' && ')}`
}

function guarded(at: string, place: string, holds: (place: string) => string, isStrict: boolean): string {
  const condition = `(${holds(`${at}.${place}`)})`
  return isStrict ? `(${at} has ${place} && ${condition})` : `!(${at} has ${place}) || ${condition}`
}

const wrap = (condition: string) => `(${condition})`

function includes(leaf: string, value: string | number | boolean): string {
  const isEqual = `${leaf}.key == ${text(keyOf(typeof value === 'string' ? idOf(value) : value))}`
  if (typeof value !== 'string') return isEqual
  const inText = [value, idOf(value)].map((part) => `${leaf}.text like ${pattern(['', part, ''])}`)
  return `if ${leaf}.isElement then ${isEqual} else ${leaf} has text && (${inText.join(' || ')})`
}

function begins(leaf: string, value: string): string {
  return `${leaf} has text && (${leaf}.text like ${pattern([value, ''])} || ${leaf}.id like ${pattern([idOf(value), ''])})`
}

const wholes = (list: readonly unknown[]) =>
  list.flatMap((each) => (typeof each === 'string' ? (writtenAddress(each).whole ?? []) : []))

/**
 * Whether an address starts with the value, or contains it if `isAnywhere`. For an element of a list, the address
 * must equal it.
 */
function ofAddresses(at: string, places: readonly string[], value: unknown, isAnywhere: boolean): string {
  if (typeof value !== 'string' || (isAnywhere && !value.includes('@'))) return 'false'
  const like = (address: string) =>
    writtenAddress(value).parts.map(
      (part) => `${address}.text like ${pattern(isAnywhere ? ['', part, ''] : [part, ''])}`,
    )
  return each(at, places, true, (address) => {
    const inText = ['false', ...like(address)].join(' || ')
    if (!isAnywhere) return inText
    return `if ${address}.isElement then ${set(wholes([value]))}.contains(${address}.text) else (${inText})`
  })
}

const domains = (list: readonly unknown[]) => set(list.map((each) => ruleDomains.get(String(each)) as string))
const set = (values: readonly unknown[]) => `[${values.map((value) => text(String(value))).join(', ')}]`

/** A Cedar string. Only the escapes that the texts need. */
function text(value: string): string {
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`
}

/** A `like` pattern: these parts, with anything in between. */
function pattern(parts: readonly string[]): string {
  return `"${parts.map((part) => text(part).slice(1, -1).replaceAll('*', '\\*')).join('*')}"`
}
