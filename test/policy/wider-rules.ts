import fc from 'fast-check'
import type { ParamCondition } from '../../src/policy/operators/index.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { Verdict } from '../../src/policy/types.ts'
import { ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import { aCase } from '../oracles/cases.ts'

/* Pairs of rules. One rule is made from the other rule by changes that let it match more calls. */

const moreValues = ['a@acme.com', 'b@evil.net', 'FILE1', 'hello', 'x', 'acme/x', '#ops', 1]
const moreDomains = ['acme.com', 'evil.net', 'amazonaws.com']

function widerCondition(condition: ParamCondition, pick: number): ParamCondition {
  const { operator, value } = condition
  if (operator === 'equals') return { ...condition, operator: 'in', value: [value, moreValues[pick % 8]] } as ParamCondition // prettier-ignore
  if (operator === 'in' || operator === 'contains')
    return { ...condition, value: [...[value].flat(), moreValues[pick % 8]] } as ParamCondition
  if (operator === 'domain_in') return { ...condition, value: [...value, moreDomains[pick % 3] as string] }
  if ((operator === 'not_in' || operator === 'domain_not_in') && value.length > 1)
    return { ...condition, value: value.slice(1) } as ParamCondition
  return condition
}

export interface Changes {
  readonly dropped: readonly string[]
  readonly verdict: Verdict | null
  readonly everywhere: boolean
  readonly picks: readonly number[]
}

export function wider(rule: StoredRule, { dropped, verdict, everywhere, picks }: Changes): StoredRule | null {
  const params = rule.params
    ?.filter((_, index) => !dropped.includes(`${index}`))
    .map((condition, index) => widerCondition(condition, picks[index] ?? 0))
    .map((condition) => (everywhere ? { ...condition, param: '*' } : condition))
  const body = {
    ...rule,
    id: undefined,
    name: `${rule.name} wider`,
    status: 'active',
    verdict: verdict ?? rule.verdict,
    params: params?.length === 0 ? undefined : params,
    ...Object.fromEntries(dropped.map((field) => [field, undefined])),
  }
  const { side_effects, tools, labels } = body
  const isBare = [side_effects, tools, labels, body.params].every((each) => each === undefined)
  const { id: _, ...rest } = JSON.parse(JSON.stringify({ ...body, match_all: isBare })) as { id?: string }
  const read = ruleInput.safeParse(rest)
  return read.success ? { ...read.data, id: `${rule.id}_wider` } : null
}

export const changes: fc.Arbitrary<Changes> = fc.record({
  dropped: fc.subarray(['side_effects', 'tools', 'labels', 'applies_to', '0', '1']),
  verdict: fc.option(fc.constantFrom<Verdict>('allow', 'require_approval', 'deny')),
  everywhere: fc.oneof(
    { weight: 4, arbitrary: fc.constant(false) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
  picks: fc.array(fc.nat(23), { minLength: 2, maxLength: 2 }),
})

/** Generates rules and calls. Some rules match more calls than another rule. */
export const withWiderRules = fc
  .tuple(aCase, fc.array(changes, { minLength: 6, maxLength: 6 }), fc.boolean())
  .map(([{ rules, calls }, ways, areFirst]) => {
    const more = rules.flatMap((rule, index) => {
      const made = wider(rule, ways[index] as Changes)
      return made === null ? [] : [made]
    })
    return { rules: areFirst ? [...more, ...rules] : [...rules, ...more], calls }
  })
