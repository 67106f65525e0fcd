import { describe, expect, test } from '@jest/globals'
import { cpuMilliseconds } from './cpu-time.ts'
import { rule, leak, outside, read, send, analyze, sent } from './plan-steps.ts'

/* The verdicts of an analysed plan, and the budget of its analysis. */

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
    const maybe = { ...read, when: { value: '{{input.a}}', operator: 'exists' as const } }
    expect(analyze([maybe], [], { frozen: 'why' })).toMatchObject({
      definitelyDenied: true,
      deniedBy: { stepId: 'read', ruleName: 'organization frozen' },
      steps: [{ verdict: 'deny', certainty: 'possible', definiteVerdict: 'allow' }],
    })
    const never = { ...read, forEach: [] }
    expect(analyze([never], [], { frozen: 'why' })).toMatchObject({
      definitelyDenied: true,
      verdict: 'allow',
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
