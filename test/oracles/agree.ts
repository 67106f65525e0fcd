import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { type Call, decide } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { Verdict } from '../../src/policy/types.ts'
import { aCase, type Case, operators } from './cases.ts'

/** The answer of another engine to the same rules and call. Rules are given by their index. */
export interface Answer {
  /** Matching rules, shadow rules included, in saved order. */
  readonly matched: readonly number[]
  /** The rule that decides. */
  readonly deciding: number | null
  readonly effect: Verdict
}

/** An oracle is prepared for the rules of one case, and then asked about each of its calls. */
export type Oracle = (one: Case) => (call: Call) => Answer

export interface Disagreement {
  readonly ours: Answer
  readonly theirs: Answer
  readonly rules: readonly StoredRule[]
  readonly call: Call
}

/** How often each verdict was reached, and how often each operator's rules matched or not, by origin of the call. */
export interface Mix {
  pairs: number
  readonly verdicts: Record<string, number>
  readonly operators: Record<string, { matched: number; not: number }>
  shadows: number
  several: number
}

/**
 * The seed of the generated pairs: fixed by default, random with `ORACLE_SEED=any`, the given number with
 * `ORACLE_SEED=123`.
 */
export function seedFrom(environment: string | undefined): number {
  if (environment === undefined) return 20_260_601
  return environment === 'any' ? Math.floor(Math.random() * 2 ** 31) : Number(environment)
}

/** A case with an oracle's answer to each of its calls. */
export interface Answered {
  readonly one: Case
  readonly answers: readonly Answer[]
}

/** Asks an oracle about this many sets of rules with their calls. */
export function ask(oracle: Oracle, seed: number, sets: number): Answered[] {
  return fc.sample(aCase, { seed, numRuns: sets }).map((one) => {
    const answer = oracle(one)
    return { one, answers: one.calls.map(answer) }
  })
}

/** The calls for which our engine answers differently from the oracle. `ours` can replace our engine. */
export function disagreements(answered: readonly Answered[], ours: Oracle = decideByIndex): Disagreement[] {
  return answered.flatMap(({ one, answers }) => {
    const mine = ours(one)
    return one.calls.flatMap((call, index) => {
      const [a, b] = [mine(call), answers[index] as Answer]
      return isDeepStrictEqual(a, b) ? [] : [{ ours: a, theirs: b, rules: one.rules, call }]
    })
  })
}

export function mixOf(answered: readonly Answered[]): Mix {
  const mix: Mix = { pairs: 0, verdicts: {}, operators: {}, shadows: 0, several: 0 }
  for (const operator of operators) {
    mix.operators[`allow ${operator}`] = { matched: 0, not: 0 }
    mix.operators[`restrict ${operator}`] = { matched: 0, not: 0 }
  }
  for (const { one, answers } of answered) for (const answer of answers) note(mix, one, answer)
  return mix
}

/** Our own engine. */
export function decideByIndex(one: Case): (call: Call) => Answer {
  const policy = compilePolicy({ ...one, labelRules: [] })
  const place = new Map(one.rules.map((rule, index) => [rule.id, index]))
  return (call) => {
    const decided = decide(policy, call)
    return {
      matched: decided.matchedRules.map((rule) => place.get(rule.id) as number),
      deciding: decided.ruleId === null ? null : (place.get(decided.ruleId) as number),
      effect: decided.verdict,
    }
  }
}

function note(mix: Mix, { rules }: Case, answer: Answer): void {
  mix.pairs += 1
  mix.verdicts[answer.effect] = (mix.verdicts[answer.effect] ?? 0) + 1
  if (answer.matched.length > 1) mix.several += 1
  for (const [index, rule] of rules.entries()) {
    const isMatch = answer.matched.includes(index)
    if (isMatch && rule.status === 'shadow') mix.shadows += 1
    if (rule.params?.length !== 1 || rule.status === 'inactive') continue
    const kind = rule.verdict === 'allow' ? 'allow' : 'restrict'
    const counts = mix.operators[`${kind} ${rule.params[0]?.operator}`]
    if (counts !== undefined) counts[isMatch ? 'matched' : 'not'] += 1
  }
}
