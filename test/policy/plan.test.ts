import fc from 'fast-check'
import { describe, expect, test } from '@jest/globals'
import { getTool } from '../../src/tools/index.ts'
import { Budget } from '../../src/policy/budget.ts'
import type { ParamCondition } from '../../src/policy/operators/index.ts'
import { compilePolicy } from '../support/compile.ts'
import { explainMatches, openSources } from '../../src/policy/plan-because.ts'
import type { PlanStep, Plan } from '../../src/policy/plan-types.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import type { RuleBody, StoredLabelRule, StoredRule } from '../../src/policy/rule.ts'
import { TextBudget } from '../../src/policy/templates.ts'
import { compileLimits, type Restrictions } from '../../src/policy/tool-limits.ts'
import type { Json, Verdict, JsonObject } from '../../src/policy/types.ts'
import { cpuMilliseconds } from './cpu-time.ts'
import { rule, leak, outside, read, send, analyze, sent } from './plan-steps.ts'
import { builtinsAt } from './template-scope.ts'

test('if some conditions certainly hold and one may hold, the rule only may match, in any order', () => {
  const certain: ParamCondition = { param: 'to', operator: 'equals', value: 'a@acme.com' }
  const open: ParamCondition = { param: 'text', operator: 'equals', value: 'x' }
  const possible = { verdict: 'deny', certainty: 'possible', definiteVerdict: 'allow' }
  for (const params of [
    [certain, open],
    [open, certain],
  ])
    expect(sent({}, [rule('both', 'deny', { params })])).toMatchObject(possible)
})

describe('labels along the graph', () => {
  test('a step carries the labels of every step before it', () => {
    const middle = { ...read, id: 'middle', tool: 'llm_generate', outputLabels: [], dependsOn: ['read'] }
    const analysis = analyze([read, middle, { ...send, dependsOn: ['middle'] }], [leak])
    const plain = { isBlocked: false, lacksApprovals: false, isTolerated: false }
    const deniedBy = { stepId: 'send', ruleName: 'leak', ...plain }
    expect(analysis).toMatchObject({ verdict: 'deny', definitelyDenied: true, deniedBy })
    expect(analysis.steps[2]?.labels).toEqual({ definite: ['internal'], possible: ['internal'] })
  })

  test('parallel branches share no labels, and the plan’s order does not matter', () => {
    const beside = analyze([{ ...send, params: {}, dependsOn: [] }, read], [leak])
    expect(beside).toMatchObject({ verdict: 'allow', definitelyDenied: false, deniedBy: null })
    expect(analyze([send, read], [leak]).definitelyDenied).toBe(true)
  })

  test.each<[string, Partial<PlanStep>]>([
    ['a step behind an unknown `when`', { when: { value: '{{input.x}}', operator: 'exists' } }],
    ['a step over an unknown list', { forEach: '{{input.list}}' }],
    ['a step that may fail', { onError: 'continue' }],
  ])('%s passes its labels on only possibly', (_, conditional) => {
    const analysis = analyze([{ ...read, ...conditional }, send], [leak])
    expect(analysis.steps[1]?.labels).toEqual({ definite: [], possible: ['internal'] })
    expect(analysis).toMatchObject({ verdict: 'deny', definitelyDenied: false })
  })

  test('label rules add definite labels when their conditions are known, otherwise possible ones', () => {
    const params: ParamCondition[] = [{ param: 'doc', operator: 'equals', value: 'DOC1' }]
    const secret = { id: 'lrule_1', name: 'secret doc', params, add_labels: ['secret'] }
    const labelRules = [{ ...secret, status: 'active' as const }]
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
    const builtins = builtinsAt('2026-03-01')
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

describe('computed values', () => {
  const values: PlanStep = {
    id: 'values',
    tool: null,
    sideEffect: null,
    isComputed: true,
    outputLabels: [],
    params: { domain: '{{ "evil" + ".net" }}', rest: '{{input.x}}' },
    dependsOn: [],
  }
  const after = (step: Partial<PlanStep>, to = 'a@{{values.output.domain}}') =>
    analyze(
      [
        { ...values, ...step },
        { ...send, params: { to }, dependsOn: ['values'] },
      ],
      [rule('out', 'deny', { params: [outside] })],
    ).steps[1]

  test('are known in later steps', () => {
    expect(after({})).toMatchObject({ verdict: 'deny', certainty: 'definite' })
    expect(after({ params: { domain: 'acme.com' } })).toMatchObject({
      verdict: 'allow',
      certainty: 'definite',
    })
  })

  test.each<[string, Partial<PlanStep>, string | undefined]>([
    ['a part that depends on an unknown input', {}, '{{values.output.rest}}'],
    ['a path that leads to nothing', {}, '{{values.output.gone}}'],
    ['a step that may be skipped', { when: '{{ input.x }}' }, undefined],
    ['a step that may fail, and the run goes on', { onError: 'continue' }, undefined],
    ['a step with items', { forEach: ['a'] }, '{{values.output[0].domain}}'],
    ['an expression with an error', { params: { domain: '{{ number("x") }}' } }, undefined],
  ])('are unknown for %s', (_, step, to) => {
    expect(after(step, to)).toMatchObject({ verdict: 'deny', certainty: 'possible' })
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
    const step = sent({ params: { to: '{{input.to}}' } }, [hold, maybe])
    expect(step).toMatchObject({
      verdict: 'deny',
      certainty: 'possible',
      definiteVerdict: 'require_approval',
    })
    expect(step?.rules.map(({ name, certainty }) => [name, certainty])).toEqual([
      ['hold', 'definite'],
      ['outside', 'possible'],
    ])
  })

  test('shadow rules and rules for agents decide nothing', () => {
    const others = [
      rule('s', 'deny', { status: 'shadow', match_all: true }),
      rule('a', 'deny', { applies_to: ['agents'] }),
    ]
    expect(analyze([read, send], others)).toMatchObject({ verdict: 'allow' })
  })

  test('a frozen organization denies every step', () => {
    const frozen = (step: PlanStep) => analyze([step], [], { frozen: 'why' })
    const denied = { definitelyDenied: true, deniedBy: { stepId: 'read', ruleName: 'organization frozen' } }
    expect(frozen(read)).toMatchObject(denied)
    const steps = [{ verdict: 'deny', certainty: 'possible', definiteVerdict: 'allow' }]
    const when = { value: '{{input.a}}', operator: 'exists' } as const
    expect(frozen({ ...read, when })).toMatchObject({ ...denied, steps })
    expect(frozen({ ...read, forEach: [] })).toMatchObject({ definitelyDenied: true, verdict: 'allow' })
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
  /** Analyses the steps with a long list as `input.to`. */
  const quickly = (...[steps, rules]: Parameters<typeof analyze>) => {
    let analysis!: ReturnType<typeof analyze>
    const work = () => (analysis = analyze(steps, rules, { inputs: { to: 'a,'.repeat(400_000) } }))
    expect(cpuMilliseconds(work)).toBeLessThan(10_000)
    return analysis
  }

  test('once it is used up, rules that compare values are only possible, and the others stay definite', () => {
    const steps = many('{{input.to}}', 200)
    // Reading the list for every step takes half a minute.
    const analysis = quickly(steps, [far, first])
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
    expect(quickly(steps, [far])).toMatchObject({ verdict: 'deny', definitelyDenied: false })
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

const on = (param: string, operator: string, value: unknown) =>
  [rule('no', 'deny', { params: [{ param, operator, value } as ParamCondition] })] as const

const secret = on('text', 'contains', 'SECRET')
const others = on('to', 'not_in', ['a@acme.com', 'b@acme.com'])
const away = on('to', 'domain_not_in', ['acme.com'])

type Piece = [string, readonly StoredRule[], { to?: Json; text?: Json }]
const verdictOf = (rules: readonly StoredRule[], params: { to?: Json; text?: Json }) => {
  const step = sent({ params, people: ['to'] }, [...rules])
  return [step?.verdict, step?.certainty]
}

describe('a rule that denies every filling denies for certain', () => {
  test.each<Piece>([
    ['a word before', secret, { text: 'SECRET {{read}}' }],
    ['a word after', secret, { text: '{{read}} SECRET' }],
    ['a word between', secret, { text: '{{read}} SECRET {{input.a}}' }],
    ['a word of known parts', secret, { text: '{{read}}{{"SEC"}}RET' }],
    ['one word of several', on('text', 'contains', ['x', 'SECRET']), { text: '{{read}} SECRET' }],
    ['a word in an object', secret, { text: { a: '{{read}} SECRET' } }],
    ['an address', on('to', 'contains', '@evil.net'), { to: '{{input.a}}@evil.net' }],
    ['an end that no listed text has', others, { to: '{{input.a}}@evil.net' }],
    ['a recipient before', away, { to: 'b@evil.net, {{input.a}}' }],
    ['a recipient after', away, { to: '{{input.a}}, b@evil.net' }],
    ['a recipient between', away, { to: '{{input.a}}; b@evil.net; {{input.b}}' }],
    ['a host', away, { to: '{{input.a}}@evil.net' }],
    ['an address behind a name', away, { to: '{{input.a}} <b@evil.net>' }],
    ['a recipient of a list', away, { to: ['a@acme.com', '{{input.a}}, b@evil.net'] }],
    ['a recipient behind `me`', away, { to: '{{input.a}}, me, b@evil.net' }],
    ['presence', on('text', 'exists', true), { text: '{{read}}.' }],
  ])('%s', (_, rules, params) => {
    expect(verdictOf(rules, params)).toEqual(['deny', 'definite'])
  })
})

describe('a rule that allows some filling denies only possibly', () => {
  test.each<Piece>([
    ['another case', secret, { text: '{{read}} secret' }],
    ['a word that an unknown part completes', secret, { text: '{{read}} SECRE{{input.a}}' }],
    ['a word in a list, where `contains` means equality', secret, { text: ['{{read}} SECRET'] }],
    ['an end that a listed text has', others, { to: '{{input.a}}@acme.com' }],
    ['a recipient inside', away, { to: '{{input.a}}@acme.com' }],
    ['a host that goes on', away, { to: 'b@evil.net{{input.a}}' }],
    ['a host that goes on after a dot', away, { to: 'b@evil.net.{{input.a}}' }],
    ['an end of a host', away, { to: '{{input.a}}evil.net' }],
    ['a text that can become `me`', on('to', 'contains', 'e'), { to: 'm{{input.a}}e' }],
  ])('%s', (_, rules, params) => {
    expect(verdictOf(rules, params)).toEqual(['deny', 'possible'])
  })
})

test('a rule that allows stays possible while a part of the text is unknown', () => {
  const rules = [rule('yes', 'allow', { params: [{ param: 'text', operator: 'contains', value: 'OK' }] })]
  expect(sent({ params: { text: '{{read}} OK' } }, rules)?.rules).toMatchObject([{ certainty: 'possible' }])
})

test('`equals` is not possible if the known text differs', () => {
  const rules = [...on('text', 'equals', 'hello!')]
  expect(sent({ params: { text: '{{read}}world' } }, rules)).toMatchObject({ verdict: 'allow', rules: [] })
  expect(sent({ params: { text: 'he{{read}}l{{read}}lo!' } }, rules)).toMatchObject({ verdict: 'deny' })
  expect(sent({ params: { text: 'hel{{read}}llo!' } }, rules)).toMatchObject({ verdict: 'allow' })
})

describe('limits of tool policies', () => {
  const blocked = (tool: string, limits: Restrictions, params: { [param: string]: string }) => {
    const check = compileLimits(getTool(tool)?.constraints ?? {}, limits)
    const policy = compilePolicy({ rules: [], labelRules: [], approvalsEnabled: true })
    const steps = [{ ...send, tool, params, dependsOn: [] }]
    const { steps: analysed } = analyzePlan(
      policy,
      { steps, inputs: {}, areInputsComplete: false },
      (call, budget) => {
        const excess = check(call.params, budget)
        return excess === null ? null : { reason: 'limit', explanation: '', isCertain: excess.isCertain }
      },
    )
    return analysed[0]?.blocked?.certainty ?? null
  }

  test.each<[string, number, string | null]>([
    ['{{input.a}}', 200, 'definite'],
    ['{{input.a}}', 100, 'possible'],
    ['{{input.a}}{{input.b}}x', 100, 'definite'],
  ])('a message of `%s` and %d known characters: %j', (text, length, certainty) => {
    const params = { channel: '#ops', text: text + 'x'.repeat(length) }
    expect(blocked('slack_send_message', { max_message_length: 100 }, params)).toBe(certainty)
  })

  test.each([
    ['{{input.a}}, b@evil.net', 'definite'],
    ['b@evil.net, {{input.a}}', 'definite'],
    ['{{input.a}}, b@acme.com', 'possible'],
  ])('the recipients `%s`: %s', (to, certainty) => {
    expect(blocked('mail_send', { allowed_domains: ['acme.com'] }, { to })).toBe(certainty)
  })
})

test('any text around unknown parts is enough for `contains`, the length and recipients that stand in it', () => {
  const literal = fc.stringMatching(/^[a-z "'(),;<>@.\\]{0,12}$/)
  const [a, b] = [fc.constantFrom('', '{{input.a}}'), fc.constantFrom('{{input.b}}', '')]
  const shape = fc.tuple(literal, a, literal, b, literal)
  fc.assert(
    fc.property(shape, fc.nat(2), (parts, place) => {
      const around = [...parts]
      around[2 * place] = `${parts[2 * place] ?? ''}, SECRET@evil.net, `
      const text = around.join('')
      const found = (rules: readonly StoredRule[], params: { [param: string]: string }) =>
        sent({ params, people: ['to'] }, [...rules], { requesterEmail: 'c@acme.com' })?.certainty
      expect([text, found(secret, { text })]).toEqual([text, 'definite'])
      expect([text, found(away, { to: text })]).toEqual([text, 'definite'])
    }),
    { numRuns: 3_000 },
  )
})

describe('what a plan says about its rules', () => {
  const read: PlanStep = {
    id: 'read',
    tool: 'docs_read',
    sideEffect: 'read',
    outputLabels: ['internal'],
    params: { doc: '{{input.doc}}' },
    dependsOn: [],
  }
  const send = (params: JsonObject, more: Partial<PlanStep> = {}): PlanStep => ({
    id: 'send',
    tool: 'mail_send',
    sideEffect: 'egress',
    outputLabels: [],
    params,
    dependsOn: ['read'],
    ...more,
  })

  interface Given extends Partial<Plan> {
    readonly before?: Partial<PlanStep>
    readonly labelRules?: readonly StoredLabelRule[]
    readonly budget?: Budget
    readonly textBudget?: TextBudget
  }

  function because(
    rule: Partial<RuleBody>,
    step: PlanStep,
    { before, labelRules = [], budget = new Budget(), textBudget = new TextBudget(), ...plan }: Given = {},
  ) {
    const saved = { id: 'rule_1', name: 'r', verdict: 'deny' as const, status: 'active' as const, ...rule }
    const policy = compilePolicy({ rules: [saved], labelRules, approvalsEnabled: true })
    const steps = [{ ...read, ...before }, step]
    const analysis = analyzePlan(policy, { steps, inputs: {}, areInputsComplete: false, ...plan })
    const last = analysis.steps[1]
    if (last === undefined) throw new Error('there is no step')
    return explainMatches(last, last.rules, { budget, textBudget })[0]
  }

  const on = (param: string, operator: string, value: unknown): Partial<RuleBody> => ({
    tools: ['mail_*'],
    params: [{ param, operator, value } as ParamCondition],
  })
  const tail = (text: string | undefined) => text?.replace('the tool matches `mail_*` and ', '')

  describe('a condition on a parameter', () => {
    test.each<[string, JsonObject, Partial<RuleBody>, string]>([
    ['that holds', { to: 'b@evil.net' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com`'],
    ['that an input decides', { to: '{{input.to}}' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com` if `input.to` is'],
    ['that a part of an input decides', { to: '{{ input.people[0].mail }}' }, on('to', 'equals', 'a'), '`to` is `a` if `input.people[0].mail` is'],
    ['that an output decides', { text: '{{steps.read.output.text}}' }, on('text', 'contains', 'x'), '`text` contains `x` if `steps.read.output.text` does'],
    ['on a beginning', { text: '{{read.output}}' }, on('text', 'startswith', 'x'), '`text` starts with `x` if `read.output` does'],
    ['that must not be in a list', { to: '{{input.to}}' }, on('to', 'not_in', ['a', 'b']), '`to` is not `a` or `b` if `input.to` is not'],
    ['on presence', { cc: '{{input.cc}}' }, on('cc', 'exists', true), '`cc` is there if `input.cc` is'],
    ['on absence', { cc: '{{input.cc}}' }, on('cc', 'exists', false), '`cc` is missing if `input.cc` is'],
    ['inside a text', { to: 'a@acme.com, {{input.to}}' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com` if `input.to` makes it so'],
    ['with several unknown values', { to: ['{{input.a}}', '{{input.b}}'] }, on('to', 'equals', 'a'), '`to` is `a` if `input.a` or `input.b` makes it so'],
    ['that stands before other text', { to: '{{input.user}}@acme.com' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com` if `input.user` makes it so'],
    ['in two parts of a text', { to: '{{input.user}}@{{ input.domain }}' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com` if `input.user` or `input.domain` makes it so'],
    ['in many parts of a text', { text: '{{input.a}} {{input.b}} {{input.a}}{{read.output}} {{today}} {{now}}' }, on('text', 'contains', 'x'), '`text` contains `x` if `input.a`, `input.b`, `read.output` or 2 more makes it so'],
    ['of a text that holds already', { text: '{{read.output}} SECRET' }, on('text', 'contains', 'SECRET'), '`text` contains `SECRET`'],
    ['inside an unknown value', { to: '{{input.to}}' }, on('to.email', 'equals', 'a'), '`to.email` is `a` if `input.to` makes it so'],
    ['on the word `me`', { to: 'me' }, on('to', 'equals', 'a@acme.com'), '`to` is `a@acme.com` if `me` is'],
    ['on the word `me` beside other text', { to: 'me, {{input.to}}' }, on('to', 'equals', 'a@acme.com'), '`to` is `a@acme.com` if `me` or `input.to` makes it so'],
    ['on an item inside a text', { to: '{{item}}, {{input.cc}}' }, on('to', 'contains', 'a'), '`to` contains `a` if `input.a` or `input.cc` makes it so'],
    ['on a date', { text: '{{today}}' }, on('text', 'equals', '2026-01-01'), '`text` is `2026-01-01` if `today` is'],
    ['on an item', { to: '{{item}}' }, on('to', 'equals', 'a'), '`to` is `a` if `item` is, if the step runs at all: its items are those of `input.list`'],
  ])('%s', (name, params, rule, words) => {
    const items = { 'on an item': '{{input.list}}', 'on an item inside a text': ['b, {{input.a}}'] }
    const forEach = Object.hasOwn(items, name) ? items[name as keyof typeof items] : undefined
    expect(tail(because(rule, send(params, { forEach, people: ['to'] })))).toBe(words)
  }) // prettier-ignore

    test('two conditions, of which one holds', () => {
      const rule = { ...on('to', 'equals', 'a'), params: [on('to', 'equals', 'a'), on('cc', 'exists', true)].flatMap((each) => each.params ?? []) } // prettier-ignore
      expect(tail(because(rule, send({ to: '{{input.to}}', cc: 'b' })))).toBe(
        'the tool matches `mail_*`, `cc` is there and `to` is `a` if `input.to` is',
      )
    })

    test('on where the data comes from', () => {
      const from = on('text', 'from_label', ['internal'])
      const text = { to: 'x', text: '{{read.output}}' }
      expect(tail(because(from, send(text)))).toBe('`text` comes from data labelled internal')
      expect(tail(because(from, send(text), { before: { onError: 'continue' } }))).toBe(
        '`text` comes from data labelled internal if the output of `read` carries it',
      )
    })
  })

  describe('a condition on labels', () => {
    const labelled = { labels: { any_of: ['internal'] } }
    const step = send({ text: '{{read.output}}' })
    const secret: StoredLabelRule = {
      id: 'l',
      name: 'l',
      status: 'active',
      params: [{ param: 'doc', operator: 'equals', value: 'D' }],
      add_labels: ['secret'],
    }

    test.each<[string, Partial<RuleBody>, PlanStep, Given, string]>([
    ['that certainly reach the step', labelled, step, {}, 'the data is labelled internal'],
    ['of a step that may fail', labelled, step, { before: { onError: 'continue' } }, 'the data is labelled internal if the output of `read` is'],
    ['of a label rule that may match', { labels: { all_of: ['secret'] } }, step, { labelRules: [secret] }, 'the data is labelled secret if the output of `read` is'],
    ['that must not be there', { labels: { none_of: ['secret'] } }, step, { labelRules: [secret], inputs: { doc: 'D' }, before: { onError: 'continue' } }, 'the data is not labelled secret unless the output of `read` is'],
    ['of a remembered value', { labels: { any_of: ['pii'] } }, step, { before: { bringsOwnLabels: true }, inputs: { doc: 'D' } }, 'the data is labelled pii if the output of `read` is'],
    ['of an unknown input', { labels: { any_of: ['pii'] } }, send({ to: '{{input.to}}' }, { dependsOn: [] }), {}, 'the data is labelled pii if `input.to` is'],
  ])('%s', (_, rule, each, given, words) => {
    expect(because(rule, each, given)).toBe(words)
  }) // prettier-ignore
  })

  describe('whether the step runs', () => {
    const any = { match_all: true as const }
    test.each<[string, Partial<PlanStep>, string]>([
    ['an unknown `when`', { when: { value: '{{input.go}}', operator: 'equals', compare: true } }, ': its `when` depends on `input.go`'],
    ['an unknown list', { forEach: '{{read.output.rows}}' }, ': its items are those of `read.output.rows`'],
    ['both', { forEach: '{{input.list}}', when: { value: '{{item.on}}', operator: 'exists' } }, ': its items are those of `input.list` and its `when` depends on `item.on`'],
  ])('%s is named', (_, more, words) => {
    expect(because(any, send({}, more))).toBe(`it covers every call, if the step runs at all${words}`)
  }) // prettier-ignore
  })

  test('once its budget is used up, the clause says what the rule asks', () => {
    const rule = on('to', 'domain_not_in', ['acme.com'])
    expect(because(rule, send({ to: '{{input.to}}' }), { budget: new Budget(0) })).toBe(
      'the tool matches `mail_*` and `to` is outside `acme.com`, if a value matches that is only known during the run',
    )
  })

  test('steps and inputs that can bring labels which nothing declares are named', () => {
    const policy = compilePolicy({ rules: [], labelRules: [], approvalsEnabled: true })
    const open = (step: PlanStep, before: Partial<PlanStep> = {}, inputs: JsonObject = {}) =>
      analyzePlan(policy, {
        steps: [{ ...read, ...before }, step],
        inputs,
        areInputsComplete: false,
      }).steps.map(openSources)
    const step = send({ to: '{{input.to}}', text: '{{read.output}}' })
    expect(open(step)).toEqual([['input.doc'], ['read', 'input.to']])
    expect(open(step, { params: {} }, { to: 'a' })).toEqual([[], []])
    expect(open(step, { params: {}, bringsOwnLabels: true }, { to: 'a' })).toEqual([[], ['read']])
  })

  test('the texts that several explanations fill in count together', () => {
    const value = '{{input.known}} {{input.open}}'
    const step = send({ to: 'a' }, { when: { value, operator: 'equals', compare: 'x' } })
    const textBudget = new TextBudget(100)
    const explain = () =>
      because(on('to', 'equals', 'a'), step, { inputs: { known: 'k'.repeat(60) }, textBudget })
    expect(explain()).toContain('its `when` depends on `input.open`')
    expect(textBudget.isUsedUp).toBe(false)
    // Once the budget is used up, a known text counts as unknown.
    expect(explain()).toContain('its `when` depends on `input.known`')
    expect(textBudget.isUsedUp).toBe(true)
  })
})
