import { isDeepStrictEqual } from 'node:util'
import { beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { addedLabels, type Call } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import type { StoredLabelRule } from '../../src/policy/rule.ts'
import type { Label } from '../../src/policy/types.ts'
import { byDepth } from '../support/depth.ts'
import { seedFrom } from './agree.ts'
import { aLabelCase, type LabelCase } from './cases.ts'

/** The sorted labels that an oracle expects the label rules to add to the result of a call. */
export type LabelOracle = (one: LabelCase) => (call: Call) => readonly Label[]

const sets = byDepth(1000, 2000)
const seed = seedFrom(process.env['ORACLE_SEED'])

interface Answered {
  readonly one: LabelCase
  readonly answers: readonly (readonly Label[])[]
}

const ours: LabelOracle = (one) => {
  const policy = compilePolicy({ rules: [], labelRules: one.rules, approvalsEnabled: false })
  return (call) => addedLabels(policy, call)
}

function disagreements(answered: readonly Answered[], oracle: LabelOracle = ours) {
  return answered.flatMap(({ one, answers }) => {
    const mine = oracle(one)
    return one.calls.flatMap((call, index) => {
      const [a, b] = [mine(call), answers[index]]
      return isDeepStrictEqual(a, b) ? [] : [{ ours: a, theirs: b, rules: one.rules, call }]
    })
  })
}

/** The tests for every oracle of label rules. */
export function labelSuite(load: () => Promise<LabelOracle>): void {
  let answered: Answered[]
  beforeAll(async () => {
    const oracle = await load()
    answered = fc.sample(aLabelCase, { seed, numRuns: sets }).map((one) => {
      const answer = oracle(one)
      return { one, answers: one.calls.map(answer) }
    })
  })

  test(`agrees on the labels that label rules add in ${sets * 10} pairs (seed ${seed})`, () => {
    const found = disagreements(answered)
    expect(found.slice(0, 3)).toEqual([])
    const counts = answered.flatMap(({ answers }) => answers.map((labels) => labels.length))
    expect(counts).toHaveLength(sets * 10)
    // No label, one label and several labels must each occur often.
    for (const some of [(n: number) => n === 0, (n: number) => n === 1, (n: number) => n > 1])
      expect(counts.filter(some).length).toBeGreaterThan(sets)
  })

  test.each(Object.entries(planted))('notices when %s', (_, change) => {
    const mistaken: LabelOracle = (one) => ours({ ...one, rules: one.rules.map(change) })
    expect(disagreements(answered.slice(0, 1000), mistaken).length).toBeGreaterThan(0)
  })

  test('notices when only the first recipient of a text counts', () => {
    const mistaken: LabelOracle = (one) => {
      const answer = ours(one)
      return (call) => answer({ ...call, params: { ...call.params, to: firstOf(call.params['to']) } })
    }
    expect(disagreements(answered, mistaken).length).toBeGreaterThan(0)
  })
}

const firstOf = (to: unknown) => (typeof to === 'string' ? (to.split(/[,;\n]/, 1)[0] ?? '') : null)

const planted: Readonly<Record<string, (rule: StoredLabelRule) => StoredLabelRule>> = {
  'shadow label rules add': (rule) => (rule.status === 'shadow' ? { ...rule, status: 'active' } : rule),
  'inactive ones do': (rule) => (rule.status === 'inactive' ? { ...rule, status: 'active' } : rule),
  'tools are forgotten': (rule) => ({ ...rule, tools: undefined }),
  'labels are forgotten': (rule) => ({ ...rule, labels: undefined }),
  'a second condition is forgotten': (rule) => ({ ...rule, params: rule.params?.slice(0, 1) }),
  'only the first label is added': (rule) => ({ ...rule, add_labels: rule.add_labels.slice(0, 1) }),
}
