import { describe, expect, test } from '@jest/globals'
import { type PolicySource, compilePolicy } from '../../src/policy/decide.ts'
import type { Plan, PlanStep } from '../../src/policy/plan-types.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import type { ParamCondition } from '../../src/policy/condition.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { Verdict } from '../../src/policy/types.ts'
import { cpuMilliseconds } from './cpu-time.ts'

function rule(name: string, verdict: Verdict, more: Partial<StoredRule> = {}): StoredRule {
  return { id: `rule_${name}`, name, verdict, status: 'active', ...more }
}

const leak = rule('leak', 'deny', { side_effects: ['egress'], labels: { any_of: ['internal'] } })
const outside: ParamCondition = { param: 'to', operator: 'domain_not_in', value: ['acme.com'] }

const read: PlanStep = {
  id: 'read',
  tool: 'docs_read',
  sideEffect: 'read',
  outputLabels: ['internal'],
  params: {},
  dependsOn: [],
}
const send: PlanStep = {
  id: 'send',
  tool: 'mail_send',
  sideEffect: 'egress',
  outputLabels: [],
  params: { to: 'a@acme.com', text: '{{read}}' },
  dependsOn: ['read'],
}

function analyze(steps: PlanStep[], rules: StoredRule[], more: Partial<Plan> & Partial<PolicySource> = {}) {
  const { labelRules = [], approvalsEnabled = true, frozen, ...plan } = more
  const policy = compilePolicy({ rules, labelRules, approvalsEnabled, frozen })
  return analyzePlan(policy, { steps, inputs: {}, areInputsComplete: false, ...plan })
}

const sent = (step: Partial<PlanStep>, rules: StoredRule[], more: Partial<Plan> = {}) =>
  analyze([read, { ...send, ...step }], rules, more).steps[1]

test('if some conditions certainly hold and one may hold, the rule only may match, in any order', () => {
  const certain: ParamCondition = { param: 'to', operator: 'equals', value: 'a@acme.com' }
  const open: ParamCondition = { param: 'text', operator: 'equals', value: 'x' }
  for (const params of [
    [certain, open],
    [open, certain],
  ])
    expect(sent({}, [rule('both', 'deny', { params })])).toMatchObject({
      verdict: 'deny',
      certainty: 'possible',
      definiteVerdict: 'allow',
    })
})

describe('labels along the graph', () => {
  test('a step carries the labels of every step before it', () => {
    const middle: PlanStep = {
      ...read,
      id: 'middle',
      tool: 'llm_generate',
      outputLabels: [],
      dependsOn: ['read'],
    }
    const analysis = analyze([read, middle, { ...send, dependsOn: ['middle'] }], [leak])
    expect(analysis).toMatchObject({
      verdict: 'deny',
      definitelyDenied: true,
      deniedBy: {
        stepId: 'send',
        ruleName: 'leak',
        isBlocked: false,
        lacksApprovals: false,
        isTolerated: false,
      },
    })
    expect(analysis.steps[2]?.labels).toEqual({ definite: ['internal'], possible: ['internal'] })
  })

  test('parallel branches share no labels, and the plan’s order does not matter', () => {
    const beside = analyze([{ ...send, params: {}, dependsOn: [] }, read], [leak])
    expect(beside).toMatchObject({ verdict: 'allow', definitelyDenied: false, deniedBy: null })
    expect(analyze([send, read], [leak]).definitelyDenied).toBe(true)
  })

  test.each<[string, Partial<PlanStep>]>([
    [
      'a step behind an unknown `when`',
      { when: { value: '{{input.x}}', operator: 'exists', compare: true } },
    ],
    ['a step over an unknown list', { forEach: '{{input.list}}' }],
    ['a step that may fail', { onError: 'continue' }],
  ])('%s passes its labels on only possibly', (_, conditional) => {
    const analysis = analyze([{ ...read, ...conditional }, send], [leak])
    expect(analysis.steps[1]?.labels).toEqual({ definite: [], possible: ['internal'] })
    expect(analysis).toMatchObject({ verdict: 'deny', definitelyDenied: false })
  })

  test('label rules add definite labels when their conditions are known, otherwise possible ones', () => {
    const labelRules = [
      {
        id: 'lrule_1',
        name: 'secret doc',
        status: 'active' as const,
        params: [{ param: 'doc', operator: 'equals' as const, value: 'DOC1' }],
        add_labels: ['secret'],
      },
    ]
    const labelled = (doc: string) =>
      analyze([{ ...read, outputLabels: [], params: { doc } }, send], [], { labelRules }).steps[1]?.labels
    expect(labelled('DOC1')).toEqual({ definite: ['secret'], possible: ['secret'] })
    expect(labelled('DOC2')).toEqual({ definite: [], possible: [] })
    expect(labelled('{{input.doc}}')).toEqual({ definite: [], possible: ['secret'] })
    expect(labelled('DOC1{{input.doc}}')).toEqual({ definite: [], possible: ['secret'] })
    expect(labelled('X{{input.doc}}')).toEqual({ definite: [], possible: [] })
  })

  test('a value that brings labels makes every label possible', () => {
    const remembered = { ...read, outputLabels: [], bringsOwnLabels: true }
    expect(analyze([remembered, send], [leak])).toMatchObject({ verdict: 'deny', definitelyDenied: false })
    const unlabelled = rule('u', 'deny', { tools: ['mail_send'], labels: { none_of: ['internal'] } })
    expect(analyze([remembered, send], [unlabelled]).definitelyDenied).toBe(false)
  })

  test('from_label looks at the sources of a parameter', () => {
    const fromText = rule('f', 'deny', {
      params: [{ param: 'text', operator: 'from_label', value: ['internal'] }],
    })
    expect(sent({}, [fromText])).toMatchObject({ verdict: 'deny', certainty: 'definite' })
    expect(sent({ params: { text: 'x', to: '{{read}}' } }, [fromText])?.verdict).toBe('allow')
  })
})

describe('parameters', () => {
  const rules = [rule('outside', 'deny', { tools: ['mail_send'], params: [outside] })]

  test.each<[string, string, Verdict, 'definite' | 'possible']>([
    ['known and inside', 'a@acme.com', 'allow', 'definite'],
    ['known and outside', 'b@evil.net', 'deny', 'definite'],
    ['unknown', '{{input.to}}', 'deny', 'possible'],
    ['one of two known outside', 'b@evil.net, {{input.to}}', 'deny', 'possible'],
    ['a link whose host is known', 'https://evil.net/{{input.to}}', 'deny', 'definite'],
    ['a link whose host is inside', 'https://acme.com/{{input.to}}', 'deny', 'possible'],
    ['an output', '{{read.output.to}}', 'deny', 'possible'],
  ])('%s', (_, to, verdict, certainty) => {
    expect(sent({ params: { to } }, rules)).toMatchObject({ verdict, certainty })
  })

  test('given inputs are known; if all inputs are given, the missing ones count as absent', () => {
    const params = { to: '{{input.to}}' }
    expect(sent({ params }, rules, { inputs: { to: 'a@acme.com' } })).toMatchObject({ verdict: 'allow' })
    expect(sent({ params }, rules, { inputs: { to: 'b@evil.net' } })?.certainty).toBe('definite')
    expect(sent({ params }, rules, { areInputsComplete: true })).toMatchObject({
      verdict: 'deny',
      certainty: 'definite',
    })
  })

  test('a known prefix decides conditions on the beginning of the value', () => {
    const starts = (value: string) => [
      rule('s', 'deny', { params: [{ param: 'to', operator: 'startswith', value }] }),
    ]
    const params = { to: 'report {{input.x}}' }
    expect(sent({ params }, starts('rep'))?.certainty).toBe('definite')
    expect(sent({ params }, starts('rep'))?.verdict).toBe('deny')
    expect(sent({ params }, starts('report of'))).toMatchObject({ verdict: 'deny', certainty: 'possible' })
    expect(sent({ params }, starts('other/'))).toMatchObject({ verdict: 'allow', certainty: 'definite' })
    // `report x, other@acme.com` has a recipient that starts so.
    expect(sent({ params }, starts('other'))).toMatchObject({ verdict: 'deny', certainty: 'possible' })
    const exists = rule('e', 'deny', { params: [{ param: 'to', operator: 'exists', value: true }] })
    expect(sent({ params }, [exists])).toMatchObject({ verdict: 'deny', certainty: 'definite' })
  })

  test('built-in values are texts, known once they are given', () => {
    const dated = rule('d', 'deny', { params: [{ param: 'to', operator: 'equals', value: '2026-03-01' }] })
    const builtins = { today: '2026-03-01', yesterday: '2026-02-28', now: 'now' }
    expect(sent({ params: { to: '{{today}}' } }, [dated])?.certainty).toBe('possible')
    expect(sent({ params: { to: '{{today}}' } }, [dated], { builtins })?.certainty).toBe('definite')
  })
})

describe('whether a step runs', () => {
  const never = { when: { value: 'x', operator: 'equals' as const, compare: 'y' } }
  const always = { when: { value: '{{input.go}}', operator: 'equals' as const, compare: true } }

  test('behind a known `when` the answer is definite', () => {
    expect(sent(never, [leak])).toMatchObject({ verdict: 'allow', certainty: 'definite', rules: [] })
    expect(sent(always, [leak], { inputs: { go: true } })).toMatchObject({
      verdict: 'deny',
      certainty: 'definite',
    })
    expect(sent(always, [leak], { inputs: { go: false } })?.verdict).toBe('allow')
  })

  test('behind an unknown one it is only possible, with the reason', () => {
    const step = sent(always, [leak])
    expect(step).toMatchObject({ verdict: 'deny', certainty: 'possible', definiteVerdict: 'allow' })
    expect(step?.rules[0]?.certainty).toBe('possible')
  })

  test('the output of a certainly skipped step is null', () => {
    const present = rule('p', 'deny', { params: [{ param: 'text', operator: 'exists', value: true }] })
    const analysis = analyze([{ ...read, ...never }, send], [present])
    expect(analysis.steps[1]).toMatchObject({ verdict: 'allow', certainty: 'definite' })
  })

  test('a known list is analysed item by item', () => {
    const rules = [rule('outside', 'deny', { params: [outside], tools: ['mail_send'] })]
    const each = (forEach: string[]) => sent({ forEach, params: { to: '{{item}}' } }, rules)
    expect(each(['a@acme.com', 'b@evil.net'])).toMatchObject({ verdict: 'deny', certainty: 'definite' })
    expect(each(['a@acme.com'])?.verdict).toBe('allow')
    expect(each([])).toMatchObject({ verdict: 'allow', certainty: 'definite' })
    expect(sent({ forEach: '{{read.output}}', params: { to: 'b@evil.net' } }, rules)?.certainty).toBe(
      'possible',
    )
    const long = Array.from({ length: 500 }, () => 'a@acme.com')
    expect(each([...long, 'b@evil.net'])).toMatchObject({ verdict: 'deny', certainty: 'possible' })
  })
})

describe('verdicts', () => {
  const hold = rule('hold', 'require_approval', { tools: ['mail_send'] })

  test('with approvals off a definite hold is a definite denial', () => {
    expect(analyze([read, send], [hold]).definitelyDenied).toBe(false)
    expect(analyze([read, send], [hold], { approvalsEnabled: false })).toMatchObject({
      definitelyDenied: true,
      deniedBy: { stepId: 'send', ruleName: 'hold', lacksApprovals: true },
    })
    const deny = rule('no', 'deny', { tools: ['mail_send'] })
    expect(analyze([read, send], [hold, deny], { approvalsEnabled: false }).deniedBy).toMatchObject({
      ruleName: 'no',
      lacksApprovals: false,
    })
    const off = { approvalsEnabled: false, frozen: 'why' }
    expect(analyze([send], [hold], off).deniedBy?.lacksApprovals).toBe(false)
  })

  test('a definite hold and a possible denial are both shown', () => {
    const maybe = rule('outside', 'deny', { params: [outside] })
    expect(sent({ params: { to: '{{input.to}}' } }, [hold, maybe])).toMatchObject({
      verdict: 'deny',
      certainty: 'possible',
      definiteVerdict: 'require_approval',
      rules: [
        { name: 'hold', certainty: 'definite' },
        { name: 'outside', certainty: 'possible' },
      ],
    })
  })

  test('shadow rules and rules for agents decide nothing', () => {
    const others = [
      rule('s', 'deny', { status: 'shadow', match_all: true }),
      rule('a', 'deny', { applies_to: ['agents'] }),
    ]
    expect(analyze([read, send], others)).toMatchObject({ verdict: 'allow' })
  })

  test('a frozen organization denies every step', () => {
    expect(analyze([read], [], { frozen: 'why' })).toMatchObject({
      definitelyDenied: true,
      deniedBy: { stepId: 'read', ruleName: 'organization frozen' },
    })
  })

  test('a denial that the step tolerates is marked as such', () => {
    expect(analyze([read, { ...send, onError: 'continue' }], [leak]).deniedBy?.isTolerated).toBe(true)
  })
})

describe('the budget of a whole plan', () => {
  const many = (to: string, count: number) =>
    Array.from({ length: count }, (_, index) => ({ ...send, id: `s${index}`, params: { to }, dependsOn: [] }))
  const far = rule('far', 'deny', { params: [outside] })
  const first = rule('first', 'require_approval', { tools: ['mail_*'] })

  test('once it is used up, rules that compare values are only possible, and the others stay definite', () => {
    const steps = many('{{input.to}}', 200)
    let analysis!: ReturnType<typeof analyze>
    const milliseconds = cpuMilliseconds(() => {
      analysis = analyze(steps, [far, first], { inputs: { to: 'a,'.repeat(400_000) } })
    })
    // Reading the list for every step takes half a minute.
    expect(milliseconds).toBeLessThan(10_000)
    expect(analysis).toMatchObject({ verdict: 'deny', definitelyDenied: false, deniedBy: null })
    for (const step of analysis.steps) {
      expect(step).toMatchObject({ verdict: 'deny', definiteVerdict: 'require_approval' })
      expect(step.rules.map((each) => [each.name, each.certainty])).toEqual([
        ['far', 'possible'],
        ['first', 'definite'],
      ])
    }
  })

  test('is shared by all steps: each step alone is decided, all together are not', () => {
    const to = Array.from({ length: 20_000 }, (_, index) => `x${index}`)
    const named = rule('named', 'deny', { params: [{ param: 'to', operator: 'equals', value: 'x19999' }] })
    const steps = (count: number) =>
      many('', count).map((step) => ({ ...step, params: { to: '{{input.to}}' } }))
    const inputs = { to }
    expect(analyze(steps(1), [named], { inputs }).definitelyDenied).toBe(true)
    const all = analyze(steps(100), [named], { inputs }).steps
    expect(all[0]?.definiteVerdict).toBe('deny')
    expect(all[99]).toMatchObject({ verdict: 'deny', definiteVerdict: 'allow', certainty: 'possible' })
  })

  test('a text is read once for all steps', () => {
    const to = `${Array.from({ length: 1000 }, (_, index) => `a@h${index}.acme.com`).join(',')},b@evil.net`
    const last = analyze(many('{{input.to}}', 150), [far], { inputs: { to } }).steps[149]
    expect(last).toMatchObject({ definiteVerdict: 'deny', certainty: 'definite' })
  })

  test('`when` uses the budget too', () => {
    const when = { value: '{{input.to}}', operator: 'domain_in' as const, compare: 'acme.com' }
    const steps = many('a@evil.net', 200).map((step) => ({ ...step, when }))
    let analysis!: ReturnType<typeof analyze>
    const milliseconds = cpuMilliseconds(() => {
      analysis = analyze(steps, [far], { inputs: { to: 'a,'.repeat(400_000) } })
    })
    expect(milliseconds).toBeLessThan(10_000)
    expect(analysis).toMatchObject({ verdict: 'deny', definitelyDenied: false })
  })

  test('text beyond the size limit of templates is unknown after its start, for all steps together', () => {
    const t = 'x'.repeat(1024 * 1024)
    const ends = rule('ends', 'deny', { params: [{ param: 'text', operator: 'contains', value: 'END' }] })
    const starts = rule('starts', 'require_approval', {
      params: [{ param: 'text', operator: 'startswith', value: 'START' }],
    })
    const long = (times: number) => ({ text: `START${'{{input.t}}'.repeat(times)}END` })
    const of = (params: Record<string, string>[]) =>
      analyze(
        params.map((each, index) => ({ ...send, id: `s${index}`, params: each, dependsOn: [] })),
        [ends, starts],
        { inputs: { t } },
      ).steps.map((step) => step.definiteVerdict)
    expect(of([long(20)])).toEqual(['deny'])
    expect(of([long(660)])).toEqual(['require_approval'])
    expect(of([long(20), long(20)])).toEqual(['deny', 'require_approval'])
  })
})
