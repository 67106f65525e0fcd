import { describe, expect, test } from '@jest/globals'
import { getTool } from '../../src/catalog/index.ts'
import { addedLabels, compilePolicy, decide, type Call } from '../../src/policy/decide.ts'
import type { PlanStep } from '../../src/policy/plan-types.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import type { StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import { type Tri, maybe, yes } from '../../src/policy/tri.ts'
import { compileLimits } from '../../src/policy/tool-limits.ts'
import { cpuMilliseconds } from './cpu-time.ts'

const names = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}-${index}`)

const rules = (count: number, body: Partial<StoredRule>): StoredRule[] =>
  names('rule', count).map((id) => ({
    id,
    name: id,
    verdict: 'require_approval',
    status: 'active',
    ...body,
  }))

const labelRules = (count: number, body: Partial<StoredLabelRule> = {}): StoredLabelRule[] =>
  names('label', count).map((id) => ({ id, name: id, status: 'active', add_labels: names(id, 100), ...body }))

const overItems = (count: number, more: Partial<PlanStep> = {}): PlanStep[] =>
  names('step', count).map((id) => ({
    id,
    tool: 'memory_get',
    sideEffect: 'read',
    outputLabels: [],
    params: { key: '{{item}}' },
    forEach: '{{input.list}}',
    dependsOn: [],
    ...more,
  }))

const policyOf = (saved: StoredRule[], labelling: StoredLabelRule[] = []) =>
  compilePolicy({ rules: saved, labelRules: labelling, approvalsEnabled: true })

const analyze = (policy: ReturnType<typeof policyOf>, steps: PlanStep[]) =>
  analyzePlan(policy, { steps, inputs: { list: names('item', 100) }, areInputsComplete: true })

const fewest = (work: () => void) => Math.min(...[1, 2, 3].map(() => cpuMilliseconds(work)))

const onLabels = { labels: { none_of: names('a', 100), any_of: names('b', 100) } }
const noItem = { param: 'key', operator: 'equals', value: 'another' } as const

describe('the cost of analysing a plan', () => {
  test('rules on labels are evaluated once for a step, not for each item', () => {
    const policy = policyOf(rules(300, onLabels))
    let verdict = ''
    // Comparing 300 rules with each of 30,000 calls once took 11 seconds.
    expect(fewest(() => (verdict = analyze(policy, overItems(300)).verdict))).toBeLessThan(1_500)
    expect(verdict).toBe('allow')
  })

  test('rules on parameters are evaluated until the budget is used up; after that they only may match', () => {
    const policy = policyOf(rules(300, { params: [noItem] }))
    const { steps } = analyze(policy, overItems(300))
    expect(fewest(() => analyze(policy, overItems(300)))).toBeLessThan(3_000)
    expect(steps[0]).toMatchObject({ verdict: 'allow', rules: [] })
    expect(steps[299]).toMatchObject({ verdict: 'deny', definiteVerdict: 'allow', certainty: 'possible' })
    expect(steps[299]?.rules).toHaveLength(300)
  })

  test('label rules use the budget too, and once it is used up any label is possible', () => {
    const policy = policyOf(
      rules(1, { tools: ['mail_send'], labels: { any_of: ['secret'] } }),
      labelRules(300, { params: [noItem] }),
    )
    const steps = overItems(300)
    const last = steps.at(-1) as PlanStep
    const send: PlanStep = { ...last, id: 'send', tool: 'mail_send', dependsOn: [last.id] }
    let sent: ReturnType<typeof analyze>['steps'][number] | undefined
    expect(fewest(() => (sent = analyze(policy, [...steps, send]).steps.at(-1)))).toBeLessThan(3_000)
    expect(sent).toMatchObject({ verdict: 'deny', certainty: 'possible' })
  })

  test('labels that many rules add are not copied along a long chain of steps', () => {
    const policy = policyOf([], labelRules(500))
    const chain = names('step', 300).map((id, index) => ({
      ...(overItems(1)[0] as PlanStep),
      id,
      dependsOn: index === 0 ? [] : [`step-${index - 1}`],
    }))
    expect(fewest(() => analyze(policy, chain))).toBeLessThan(3_000)
  })

  test.each([
    ['searches', 'github_search_code', 'query', 'repo:acme/app '.repeat(18)],
    ['searches of unclosed quotes', 'github_search_code', 'query', '"\\'.repeat(2_000)],
    ['paths', 'github_get_file', 'path', '%2525/'.repeat(680)],
    ['links', 'github_get_file', 'repo', `https://github.com/acme/app/${'%2525/'.repeat(160)}`],
  ])('limits read %s until the budget is used up', (_, tool, param, text) => {
    const limits = compileLimits(getTool(tool)?.constraints ?? {}, { allowed_repos: ['acme/app'] })
    const steps = overItems(100, { tool, params: { [param]: '{{item}}' } })
    // The texts differ, so none was read before. Such a plan once kept the API busy for minutes.
    const list = names(text, 100)
    const work = () =>
      analyzePlan(
        policyOf([]),
        { steps, inputs: { list }, areInputsComplete: true },
        ({ params }, budget) => {
          const excess = limits(params, budget)
          return excess === null ? null : { reason: '', explanation: '', isCertain: excess.isCertain }
        },
      )
    expect(fewest(work)).toBeLessThan(4_000)
  })

  test.each<[string, PlanStep['when'], Tri]>([
    ['a long list', { value: '{{input.list}}', operator: 'in', compare: ['x'] }, maybe],
    ['an item in a long list', { value: '{{item}}', operator: 'in', compare: '{{input.list}}' }, yes],
  ])('`when` compares %s within the budget', (_, when, runs) => {
    const inputs = { list: names('item', 20_000) }
    const of = (steps: PlanStep[]) =>
      analyzePlan(policyOf([]), { steps, inputs, areInputsComplete: true }).steps
    const steps = overItems(300, { when })
    let found: ReturnType<typeof of> = []
    // The list was once read again for each of the 30,000 calls, which took more than 10 seconds.
    expect(fewest(() => (found = of(steps)))).toBeLessThan(4_000)
    expect(found[0]?.runs).toBe(runs)
  })

  test('once the budget is used up, a `when` may hold', () => {
    const list = names('item', 20_000)
    const when: PlanStep['when'] = { value: ['{{item}}', '{{input.list}}'], operator: 'in', compare: ['x'] }
    const work = () =>
      analyzePlan(policyOf([]), {
        steps: overItems(300, { when }),
        inputs: { list },
        areInputsComplete: true,
      })
    expect(fewest(work)).toBeLessThan(4_000)
    const { steps } = work()
    expect(steps.map(({ runs }) => runs)).toEqual(Array<Tri>(300).fill(maybe))
  })

  test('100 steps under 1,000 rules are analysed completely', () => {
    const policy = policyOf(rules(1_000, { params: [noItem], labels: { any_of: ['internal'] } }))
    const steps = overItems(100, { forEach: undefined, params: { key: 'k' }, outputLabels: ['internal'] })
    const after = steps.map((step, index) => ({
      ...step,
      dependsOn: index === 0 ? [] : [`step-${index - 1}`],
    }))
    expect(analyze(policy, after).steps.at(-1)).toMatchObject({ verdict: 'allow', certainty: 'definite' })
  })
})

describe('the cost of one call', () => {
  const call: Call = {
    source: 'agents',
    tool: 'Bash',
    sideEffect: 'write',
    params: {},
    labels: names('c', 300),
  }

  test('labels are compared within the budget: a call with more of them is denied', () => {
    const few = policyOf(rules(600, onLabels))
    const many = policyOf(rules(2_000, onLabels))
    expect(decide(few, call).verdict).toBe('allow')
    expect(decide(many, call)).toMatchObject({ verdict: 'deny', reason: 'call too large to evaluate' })
    // A call without labels needs no comparison.
    expect(decide(many, { ...call, labels: [] }).verdict).toBe('allow')
  })

  test('label rules that can no longer be evaluated add their labels', () => {
    const policy = policyOf([], labelRules(2_000, { ...onLabels, add_labels: ['added'] }))
    expect(addedLabels(policy, call)).toEqual(['added'])
    expect(addedLabels(policy, { ...call, labels: [] })).toEqual([])
  })
})
