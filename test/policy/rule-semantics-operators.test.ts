import { describe, expect, it } from '@jest/globals'
import type { Json, JsonObject } from '../../src/policy/types.ts'
import { ask, both, holds, issues, p } from './rule-semantics.ts'

/* When each operator matches. */

describe('operators', () => {
  it('`exists` tests presence, also together with another condition on the same parameter', () => {
    const rule = {
      verdict: 'deny',
      params: [
        { param: 'cc', operator: 'exists', value: true },
        { param: 'cc', operator: 'domain_not_in', value: ['acme.com'] },
      ],
    }
    const verdict = (params: JsonObject) => ask([rule], { params }).verdict
    for (const cc of ['b@evil.net', ['a@acme.com', 'b@evil.net'], 'me']) expect(verdict({ cc })).toBe('deny')
    for (const cc of ['a@acme.com', null, '', []]) expect(verdict({ cc })).toBe('allow')
    expect(verdict({})).toBe('allow')
    expect(both('exists', true, p(0))).toEqual([true, true])
    expect(both('exists', false, p([]))).toEqual([true, true])
  })

  it('`from_label` matches if one of the sources of the parameter carries one of the labels', () => {
    const paramLabels = new Map([
      ['p', ['internal', 'pii']],
      ['q', ['secret']],
    ])
    const from = (labels: string[]) => holds('deny', 'from_label', labels, p('x'), { paramLabels })
    expect([from(['pii']), from(['pii', 'secret']), from(['secret'])]).toEqual([true, true, false])
  })

  it('text is compared case-sensitively', () => {
    for (const operator of ['equals', 'contains', 'startswith']) {
      expect(both(operator, 'Abc', p('Abc'))).toEqual([true, true])
      expect(both(operator, 'Abc', p('abc'))).toEqual([false, false])
    }
    expect(both('in', ['Abc'], p('ABC'))).toEqual([false, false])
    expect(both('not_in', ['Abc'], p('ABC'))).toEqual([true, true])
  })

  it('`contains` on a list compares whole elements', () => {
    expect(both('contains', 'ab', p('xabx'))).toEqual([true, true])
    expect(both('contains', 'ab', p(['xabx']))).toEqual([false, false])
    expect(both('contains', 'ab', p(['ab', 'x']))).toEqual([true, false])
  })

  it('`equals` compares numbers by value, and never a text with a number', () => {
    expect(both('equals', 1, p(1.0))).toEqual([true, true])
    expect(both('equals', 0, p(-0))).toEqual([true, true])
    for (const [value, given] of [
      [1, '1'],
      ['1', 1],
      [1, true],
      [true, 1],
      ['true', true],
      [0, null],
      [0, ''],
    ] as const)
      expect(both('equals', value, p(given))).toEqual([false, false])
  })

  it('`domain_in: ["acme.com"]` matches addresses, hosts and links of acme.com and its subdomains', () => {
    for (const text of ['a@acme.com', 'mail.acme.com', 'https://docs.acme.com/x']) {
      expect(both('domain_in', ['acme.com'], p(text))).toEqual([true, true])
      expect(both('domain_not_in', ['acme.com'], p(text))).toEqual([false, false])
    }
  })

  it('but not `acme.com.evil.net` or `evilacme.com`', () => {
    for (const text of [
      'acme.com.evil.net',
      'evilacme.com',
      'a@evilacme.com',
      'https://acme.com.evil.net/',
    ]) {
      expect(both('domain_in', ['acme.com'], p(text))).toEqual([false, false])
      expect(both('domain_not_in', ['acme.com'], p(text))).toEqual([true, true])
    }
  })

  it('IDN, userinfo, ports, trailing dots and upper case hide nothing', () => {
    for (const text of [
      'a@BÜCHER.de',
      'https://x:y@bücher.de:8443/',
      'xn--bcher-kva.de.',
      'a@xn--BCHER-kva.DE',
    ])
      expect(both('domain_in', ['Bücher.de'], p(text))).toEqual([true, true])
    for (const text of [
      'https://acme.com@evil.net/',
      'https://acme.com:443@evil.net./',
      'a@EVIL.net',
      'https://EVIL.NET.:443/',
    ])
      expect(both('domain_in', ['evil.net'], p(text))).toEqual([true, true])
  })

  it('a bare public suffix as a rule’s domain is refused', () => {
    for (const domain of [
      'com',
      'co.uk',
      'github.io',
      'COM.',
      '.com',
      's3.amazonaws.com',
      '中国',
      'xn--fiqs8s',
    ])
      for (const operator of ['domain_in', 'domain_not_in'])
        expect(
          issues({
            name: 'x',
            verdict: 'deny',
            params: [{ param: 'p', operator, value: ['acme.com', domain] }],
          }),
        ).toEqual([
          { path: 'params.0.value.1', message: expect.stringMatching(/public suffix|not a domain/) },
        ])
  })

  it('a value that cannot be read as a domain is outside every domain', () => {
    for (const value of ['me', 'localhost', 'hello world', 7, true, 'a@[10.0.0.1]', 'javascript:x', 'a@'])
      for (const domain of ['acme.com', 'evil.net']) {
        expect(both('domain_in', [domain], p(value))).toEqual([false, false])
        expect(both('domain_not_in', [domain], p(value))).toEqual([true, true])
      }
  })

  it('Google links and bare file ids are equal', () => {
    const link = 'https://drive.google.com/open?id=FILE1'
    for (const [a, b] of [
      [link, 'FILE1'],
      ['FILE1', link],
      [link, 'docs.google.com/document/u/1/d/FILE1'],
    ] as const) {
      expect(both('equals', a, p(b))).toEqual([true, true])
      expect(both('in', ['x', a], p(b))).toEqual([true, true])
      expect(both('not_in', [a], p(b))).toEqual([false, false])
      expect(both('contains', a, p([b]))).toEqual([true, true])
      expect(both('startswith', a, p(b))).toEqual([true, true])
    }
    expect(both('equals', link, p('https://drive.google.com.evil.net/open?id=FILE1'))).toEqual([false, false])
  })
})

describe('the quantifier law', () => {
  const several: Json[] = [
    ['a@acme.com', 'b@evil.net'],
    { x: 'a@acme.com', y: 'b@evil.net' },
    'a@acme.com, b@evil.net',
    'a@acme.com; B <b@evil.net>',
    [{ email: 'a@acme.com' }, ['b@evil.net']],
  ]

  it('restrictive rules match if any value matches, `allow` only if all do', () => {
    for (const value of several) {
      expect(both('domain_in', ['acme.com'], p(value))).toEqual([true, false])
      expect(both('domain_not_in', ['acme.com'], p(value))).toEqual([true, false])
      expect(both('domain_in', ['acme.com', 'evil.net'], p(value))).toEqual([true, true])
    }
    expect(both('equals', 'x', p(['x', 'y']))).toEqual([true, false])
    expect(both('not_in', ['x'], p(['x', 'y']))).toEqual([true, false])
    expect(both('startswith', 'x', p({ a: 'x1', b: 'y' }))).toEqual([true, false])
  })

  it('positive operators do not match an absent parameter', () => {
    const positive: [string, Json][] = [
      ['equals', 'x'],
      ['in', ['x']],
      ['contains', 'x'],
      ['startswith', 'x'],
      ['domain_in', ['acme.com']],
      ['exists', true],
    ]
    for (const [operator, value] of positive)
      for (const params of [{}, p(null), p([])]) expect(both(operator, value, params)).toEqual([false, false])
    expect(both('from_label', ['pii'], {})).toEqual([false, false])
  })

  it('`not_in` and `domain_not_in` match an absent parameter for restrictive verdicts, never for `allow`', () => {
    for (const [operator, value] of [
      ['not_in', ['x']],
      ['domain_not_in', ['acme.com']],
    ] as const)
      for (const params of [{}, p(null), p([]), { p: [[], null] }])
        expect(both(operator, value, params)).toEqual([true, false])
  })
})
