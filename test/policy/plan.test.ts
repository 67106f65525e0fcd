import { describe, expect, test } from '@jest/globals'
import type { PlanStep } from '../../src/policy/plan-types.ts'
import type { ParamCondition } from '../../src/policy/condition.ts'
import type { Json, Verdict } from '../../src/policy/types.ts'
import { rule, leak, outside, read, send, analyze, sent } from './plan-steps.ts'

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
    ['one of two known outside', 'b@evil.net, {{input.to}}', 'deny', 'definite'],
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
    // In `report x, other@acme.com`, one recipient starts with `other`.
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

  test('`exists` on a path that leads to nothing in a known value is known', () => {
    const on = (compare: boolean) => ({
      when: { value: '{{input.go.deep}}', operator: 'exists' as const, compare },
    })
    const known = { inputs: { go: { other: 1 } } }
    expect(sent(on(true), [leak], known)).toMatchObject({ verdict: 'allow', certainty: 'definite' })
    expect(sent(on(false), [leak], known)).toMatchObject({ verdict: 'deny', certainty: 'definite' })
    const each = (item: Json) => sent({ ...on(true), when: { ...on(true).when, value: '{{item.x}}' }, forEach: [item] }, [leak]) // prettier-ignore
    expect(each({ y: 1 })).toMatchObject({ verdict: 'allow', certainty: 'definite' })
    expect(each({ x: 1 })).toMatchObject({ verdict: 'deny', certainty: 'definite' })
    expect(each({ x: '{{read.output}}' })).toMatchObject({ verdict: 'deny', certainty: 'possible' })
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
