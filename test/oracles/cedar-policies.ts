import type { ParamCondition, RuleOperator } from '../../src/policy/operators/index.ts'
import type { StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import { keyOf, type Filled, type Place } from './cedar-context.ts'
import { type Kind, wantedPlace } from './places.ts'
import { idOf, ruleDomains, writtenAddress } from './texts.ts'

/* A rule, as a policy of Cedar. */

/** Without a rule every call is allowed. */
export const basePolicy = `permit(principal, action in [Action::"call", Action::"unattended"], resource);`

export function policyOf(rule: StoredRule, filled: Filled): string {
  const conditions = [
    rule.side_effects && some(rule.side_effects.map((each) => `context.sideEffect == ${text(each)}`)),
    rule.applies_to && some(rule.applies_to.map((each) => `context.source == ${text(each)}`)),
    ...sharedConditions(rule, rule.verdict !== 'allow', filled),
  ]
  return `${scopeOf(rule)}${when(conditions)};`
}

export function labelPolicyOf(rule: StoredLabelRule, filled: Filled): string {
  const actions = rule.add_labels.map((label) => `Action::${text(`add ${label}`)}`).join(', ')
  return `permit(principal, action in [${actions}], resource)${when(sharedConditions(rule, true, filled))};`
}

const some = (list: readonly unknown[]) => list.join(' || ')

function when(conditions: readonly (string | undefined)[]): string {
  const given = conditions.filter((condition) => condition !== undefined)
  return given.length === 0 ? '' : ` when { ${given.map((each) => `(${each})`).join(' && ')} }`
}

function sharedConditions(rule: StoredRule | StoredLabelRule, isStrict: boolean, filled: Filled) {
  const { labels = {} } = rule
  return [
    rule.tools && some(rule.tools.map(toolMatches)),
    labels.any_of && `context.labels.containsAny(${set(labels.any_of)})`,
    labels.all_of && `context.labels.containsAll(${set(labels.all_of)})`,
    labels.none_of && `!context.labels.containsAny(${set(labels.none_of)})`,
    ...(rule.params ?? []).map((each) => conditionOf(each, isStrict, filled)),
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

function conditionOf({ param, operator, value }: ParamCondition, isStrict: boolean, filled: Filled): string {
  const at = `context.at[${text(param)}]`
  const list = Array.isArray(value) ? value : [value]
  const { kind } = filled
  const range = (name: Place) =>
    Array.from({ length: filled.most(param, name) }, (_, index) => `${name}${index}`)
  switch (operator) {
    case 'equals':
    case 'in':
    case 'not_in':
      return membership(at, range('placed'), { operator, list, isStrict, kind })
    case 'contains': {
      const ofText = each(at, range('leaf'), isStrict, (leaf) =>
        list
          .map((wanted) => wrap(includes(leaf, wanted)))
          .concat(partOfPlace(leaf, { operator, list, isStrict, kind }))
          .join(' || '),
      )
      const addresses = range('address')
      const byAddress = list.map((wanted) => wrap(ofAddresses(at, addresses, wanted, true)))
      return isStrict ? [ofText, ...byAddress].join(' || ') : ofText
    }
    case 'startswith': {
      const ofText = each(
        at,
        range('leaf'),
        isStrict,
        (leaf) => `(${begins(leaf, value)}) || ${partOfPlace(leaf, { operator, list, isStrict, kind })}`,
      )
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
      const of = `context.from[${text(param)}]`
      const tracked = range('source').map((place) => guarded(of, place, carried, isStrict))
      const all = isStrict ? tracked.join(' || ') : `${of} has source0 && ${tracked.map(wrap).join(' && ')}`
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

interface Wanted {
  readonly operator: RuleOperator
  readonly list: readonly (string | number | boolean)[]
  readonly isStrict: boolean
  readonly kind: Kind | null
}

function membership(at: string, placed: readonly string[], wanted: Wanted): string {
  const { operator, list, isStrict } = wanted
  const keys = set(list.map((each) => keyOf(typeof each === 'string' ? idOf(each) : each)))
  const none = `${at}.keys.isEmpty()`
  const every = (holds: (leaf: string) => string) =>
    placed.map((place) => wrap(guarded(at, place, holds, false))).join(' && ')
  if (operator === 'not_in') {
    const isOutside = (leaf: string) =>
      `!${keys}.contains(${leaf}.key) && !(${atPlace(leaf, wanted, !isStrict)})`
    return isStrict
      ? `${at}.isMissing || ${none} || !${keys}.containsAll(${at}.plainKeys) || ${each(at, placed, true, isOutside)}`
      : `!${at}.isMissing && !${none} && !${at}.plainKeys.containsAny(${keys}) && ${every(isOutside)}`
  }
  const isListed = (leaf: string) => `${keys}.contains(${leaf}.key) || ${atPlace(leaf, wanted, isStrict)}`
  const addresses = `${at}.addresses.containsAny(${set(wholes(list))})`
  return isStrict
    ? `${at}.keys.containsAny(${keys}) || ${addresses} || ${each(at, placed, true, isListed)}`
    : `!${at}.isMissing && !${none} && ${keys}.containsAll(${at}.plainKeys) && ${every(isListed)}`
}

/**
 * Whether a leaf that names a place names one of the rule's places. A text that the tool refuses names one if
 * `ifRefused` is true and the rule has a text.
 */
function atPlace(leaf: string, { operator, list, kind, isStrict }: Wanted, ifRefused: boolean): string {
  const texts = list.filter((each) => typeof each === 'string')
  if (texts.length === 0 || kind === null) return 'false'
  const places = texts.flatMap((each) => {
    const { whole, exactly, restricting } = wantedPlace(kind, each)
    const isException = operator === 'not_in'
    return [(isException ? exactly : whole) ?? [], isStrict === isException ? [] : restricting.wholes].flat()
  })
  return `(if ${leaf} has place then ${set(places)}.contains(${leaf}.place) else ${ifRefused})`
}

/** Whether the place of a leaf contains one of the rule's texts, or starts with one. */
function partOfPlace(leaf: string, wanted: Wanted): string {
  const { operator, list, kind, isStrict } = wanted
  const texts = list.filter((each) => typeof each === 'string')
  if (texts.length === 0 || kind === null) return 'false'
  const isAnywhere = operator === 'contains'
  const likes = texts
    .map((each) => wantedPlace(kind, each))
    .flatMap(({ parts, restricting }) => [...parts, ...(isStrict ? restricting.parts : [])])
    .map((part) => pattern(isAnywhere ? ['', part, ''] : [part, '']))
    .flatMap((like) => [`${leaf}.place like ${like}`, `${leaf}.other like ${like}`])
  const inText = `(if ${leaf} has place then (${some(likes)}) else ${isStrict})`
  const inElement = isAnywhere ? atPlace(leaf, wanted, isStrict) : inText
  return `(${leaf} has kind && (if ${leaf}.isElement then ${inElement} else ${inText}))`
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
 * Whether an address starts with the value. With `isAnywhere`, the address of a list's element must equal the value,
 * and every other address must contain it.
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

/** A Cedar string, with only the escapes that the texts of the tests need. */
function text(value: string): string {
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`
}

/** A `like` pattern: these parts, with anything in between. */
function pattern(parts: readonly string[]): string {
  return `"${parts.map((part) => text(part).slice(1, -1).replaceAll('*', '\\*')).join('*')}"`
}
