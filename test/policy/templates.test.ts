import { datesOf } from '../../src/policy/builtins.ts'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Budget } from '../../src/policy/budget.ts'
import {
  TemplateError,
  resolve,
  valueAt,
  references,
  mostResolvedText,
  type Scope,
} from '../../src/policy/templates.ts'
import type { Json, JsonObject } from '../../src/policy/types.ts'
import type { WhenOperator } from '../../src/policy/operators/index.ts'
import { holds, isWanted, type When } from '../../src/policy/when.ts'
import { cpuMilliseconds } from './cpu-time.ts'
import { outputs, scope } from './template-scope.ts'

const within: Scope = { ...scope, item: { id: 5 }, index: 2, itemSources: ['read'] }

describe('resolving', () => {
  test('a run without files has an empty list of them, and no text', () => {
    const without = { ...scope, inputs: {} }
    expect(resolve('{{input.uploaded_files}}', without).value).toEqual([])
    expect(resolve('Read: {{input.uploaded_files}}', without).value).toBe('Read: ')
  })

  test('the error names a missing file and missing rows', () => {
    expect(() => resolve('{{input.uploaded_files[1].text}}', scope)).toThrow('the run has 1 file')
    expect(() => resolve('{{input.uploaded_files[0].rows}}', scope)).toThrow('the file has no rows')
    expect(() => resolve('{{input.uploaded_files[0].none}}', scope)).toThrow('there is no `none`')
  })

  test.each<[Json, Json]>([
    ['{{steps.read.output.rows[0].name}}', 'Ann'],
    ['{{read.output.rows[1].name}}', 'Bob'],
    ['{{ read.output.rows.0.n }}', 1],
    ['{{read.output["odd key"]}}', 2],
    ["{{read.output['a.b']}}", 3],
    ['{{read.output["}}"]}}', 4],
    ['{{read.output[\'{{x}}\']["}}"]}}.{{input.n}}', '5.7'],
    ['{{read.output.inner}}', null],
    ['{{text}}', 'hello'],
    ['{{steps.text}}', 'hello'],
    ['{{read-2.output}}', [1, 2]],
    ['{{input.n}}', 7],
    ['{{input.object.deep[0]}}', true],
    ['{{input.uploaded_files}}', [{ name: 'a.pdf', text: 'PDF' }]],
    ['{{input.uploaded_files[0].text}}', 'PDF'],
    ['Read: {{input.uploaded_files}}', 'Read: File: a.pdf\n\nPDF'],
    ['{{input.absent}}', null],
    ['{{input.absent.deeper}}', null],
    ['{{skipped.output.rows[0]}}', null],
    ['{{each.output[0].text}}', 'a'],
    ['{{each.output[1]}}', null],
    ['{{each.output[1].text}}', null],
    ['{{each.output[1].rows[0].x}}', null],
    ['s={{each.output[1].text}}.', 's=.'],
    ['{{item.id}} {{index}}', '5 2'],
    ['{{index}}', 2],
    ['{{rated.output[index]}}', { text: 'b' }],
    ['{{rated.output[index].text}} of {{item.id}}', 'b of 5'],
    ['{{input.pairs[index][0]}}', 'c'],
    ['{{skipped.output[index].x}}', null],
    ['{{input.absent[index]}}', null],
    [
      'on {{today}}, after {{yesterday}} ({{now}})',
      'on 2026-03-01, after 2026-02-28 (2026-03-01T00:00:00.000Z)',
    ],
    [
      'n={{input.n}} l={{input.list}} s={{skipped}} f={{input.uploaded_files[0].name}}.',
      'n=7 l=["a"] s= f=a.pdf.',
    ],
    ['{{"{{"}}', '{{'],
    ["{{ '}}' }}", '}}'],
    ['{{""}}', ''],
    ["{{''}}{{input.n}}", '7'],
    ['{{"{{"}}{{input.n}}{{"}}"}}', '{{7}}'],
    ['say {{"{{input.n}}"}} for {{input.n}}', 'say {{input.n}} for 7'],
    [`{{"it's"}} {{'"'}}`, `it's "`],
    [
      { a: ['{{input.n}}', { b: 'x{{text}}' }], '{{key}}': 1 },
      { a: [7, { b: 'xhello' }], '{{key}}': 1 },
    ],
    [
      { a: 1, b: null, c: true, d: 'plain' },
      { a: 1, b: null, c: true, d: 'plain' },
    ],
  ])('%j is %j', (template, expected) => {
    expect(resolve(template, within).value).toEqual(expected)
  })

  test('a list that is too short for the item is an error, and an item without an output is null', () => {
    expect(() => resolve('{{each.output[index].text}}', within)).toThrow('there is no `2` in the value')
    expect(resolve('{{rated.output[index].text}}', { ...within, index: 0 }).value).toBeNull()
  })

  test('the value at the place of the item has the sources of the whole list', () => {
    const { sources } = resolve({ body: '{{rated.output[index].text}}' }, within)
    expect([...sources]).toEqual([['body', ['rated']]])
  })

  test('the error of a missing part names the field with the reason, and does not quote it', () => {
    const output = { rows_problem: 'a secret' }
    const reading = { ...scope, step: () => output }
    expect(() => resolve('{{read.output.rows}}', reading)).toThrow(
      'there is no `rows` in the value: its `rows_problem` says why',
    )
  })

  test('a filled-in value is never read as a template again', () => {
    expect(resolve('{{evil}} {{evil}}', scope).value).toBe(`${outputs['evil']} ${outputs['evil']}`)
    const inputs = { open: '{{text', close: '}}' }
    expect(resolve('{{input.open}}{{input.close}}', { ...scope, inputs }).value).toBe('{{text}}')
  })

  test.each([
    ['{{read.output.rows[7].name}}', '`7`'],
    ['{{read.output.gone}}', '`gone`'],
    ['{{each.output[2].text}}', '`2`'],
    ['{{each.output[0].inner.x}}', '`x`'],
    ['{{each.output[0].gone}}', '`gone`'],
    ['{{read.output.inner.x}}', '`x`'],
    ['{{read.output.rows.length}}', '`length`'],
    ['{{text.output.length}}', '`length`'],
    ['{{read.output.constructor}}', '`constructor`'],
    ['{{read.output.__proto__}}', '`__proto__`'],
    ['{{input.object.toString}}', '`toString`'],
    ['{{nothing}}', '`nothing`'],
    ['{{item}}', 'for_each'],
    ['{{index}}', 'for_each'],
    ['{{each.output[index].text}}', 'for_each'],
    ['{{input.list[index]}}', 'for_each'],
    ['{{steps[index].output}}', 'not a reference'],
    ['{{input[index]}}', 'not a reference'],
    ['{{each.output["[index]"]}}', '`[index]`'],
    ['{{a b}}', 'not a reference'],
    ['{{"a"b}}', 'not a reference'],
    ['{{a["}}', 'not a reference'],
    ["{{a['x}}", 'not a reference'],
  ])('%s is an error that names it', (template, message) => {
    expect(() => resolve(template, scope)).toThrow(TemplateError)
    expect(() => resolve(template, scope)).toThrow(template)
    expect(() => resolve(template, scope)).toThrow(message)
  })

  test.each([
    'x {{input.absent}}',
    '{{input.absent}}{{input.n}}',
    "{{''}}{{input.absent.deeper}}",
    'x{{input.empty}}',
  ])('an input that was not given is an error inside text: %s', (text) => {
    const given = { ...scope, inputs: { ...scope.inputs, empty: null } }
    expect(() => resolve({ a: [text] }, given)).toThrow(TemplateError)
    expect(() => resolve({ a: [text] }, given)).toThrow(/without the input `(absent|empty)`/)
  })

  test('names of prototypes are not inputs', () => {
    expect(resolve(['{{input.constructor}}', '{{input.__proto__}}'], scope).value).toEqual([null, null])
  })

  test('a `__proto__` key stays an ordinary key', () => {
    const value = resolve(JSON.parse('{"__proto__": {"a": "{{text}}"}}') as Json, scope).value as JsonObject
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect(JSON.stringify(value)).toBe('{"__proto__":{"a":"hello"}}')
  })

  test('sources name the steps of which each part was built, items included', () => {
    const params = {
      to: '{{text}}',
      body: { parts: ['x', '{{read.output.rows}} {{text}}'] },
      item: '{{item.id}}',
      n: 1,
    }
    const sources = { to: ['text'], 'body.parts.1': ['read', 'text'], item: ['read'] }
    expect(resolve(params, within).sources).toEqual(new Map(Object.entries(sources)))
    expect(resolve('{{text}}', scope).sources).toEqual(new Map([['', ['text']]]))
  })

  test('text without references stays unchanged, and a text that is one reference keeps the type of its value', () => {
    fc.assert(
      fc.property(fc.string(), fc.jsonValue(), (text, value) => {
        fc.pre(!text.includes('{{'))
        expect(resolve(text, scope).value).toBe(text)
        const own: Scope = { ...scope, step: () => value as Json }
        expect(resolve('{{any}}', own).value).toBe(value)
      }),
    )
  })
})

test.each<[string[], Json | undefined]>([
  [[], { list: [{ a: null }] }],
  [['list', '0', 'a'], null],
  [['list', '0', 'a', 'b'], undefined],
  [['list', '1', 'a', 'b'], undefined],
  [['list', 'length'], undefined],
  [['constructor', 'name'], undefined],
])('the value at %j is %j, and a missing one is no error', (path, expected) =>
  expect(valueAt({ list: [{ a: null }] }, path)).toEqual(expected),
)

describe('references', () => {
  test('are found in lists and objects, with their kind', () => {
    const value = {
      a: ['{{input.x.y}} {{steps.s.output[0]}}', { b: '{{item}} {{index}} {{today}} {{yesterday}} {{now}}' }],
      c: '{{input.uploaded_files}}',
      '{{not.this}}': 1,
    }
    expect(
      references(value)
        .map((each) => each.kind)
        .join(' '),
    ).toBe('input step item index today yesterday now input')
  })

  test.each([
    ...['{{}}', '{{ }}', '{{a b}}', '{{input}}', '{{steps}}', '{{step.result}}', '{{steps.a.status.x}}'],
    ...['{{run.name}}', '{{workflow.id}}', '{{run.requester}}'],
    ...['{{a.output.}}', '{{today.x}}', '{{{{a}}', '{{unclosed', '{{"unclosed}}'],
    ...['{{"a" "b"}}', `{{"a'}}`],
  ])('%s is not a built-in value', (text) => {
    expect(references(text)).toMatchObject([{ kind: 'unknown', text }])
  })
})

test('any text can be written, quoted where it has braces', () => {
  const mark = fc.constantFrom('{', '{{', '}}', '}', 'a', ' ', "'", 'input.n')
  fc.assert(
    fc.property(
      fc.array(mark).map((marks) => marks.join('')),
      (text) => {
        const written = text.replaceAll(/\{+/g, '{{"$&"}}')
        expect(references(written)).toEqual([])
        expect(resolve(written, scope).value).toBe(text)
        expect(resolve(`${written}{{''}}{{input.n}}`, scope).value).toBe(`${text}7`)
      },
    ),
  )
})

describe('built-in values', () => {
  test.each([
    ['2026-03-01T00:30:00.000Z', 'UTC', '2026-03-01', '2026-02-28', '2026-03-01T00:30:00.000Z'],
    [
      '2026-03-01T00:30:00.000Z',
      'America/New_York',
      '2026-02-28',
      '2026-02-27',
      '2026-02-28T19:30:00.000-05:00',
    ],
    ['2026-12-31T20:00:00.123Z', 'Asia/Kolkata', '2027-01-01', '2026-12-31', '2027-01-01T01:30:00.123+05:30'],
    // This is the day after the clocks went forward: the day before had 23 hours.
    [
      '2026-03-29T22:30:00.000Z',
      'Europe/Berlin',
      '2026-03-30',
      '2026-03-29',
      '2026-03-30T00:30:00.000+02:00',
    ],
  ])('%s in %s', (instant, zone, today, yesterday, now) => {
    expect(datesOf(new Date(instant), zone)).toEqual({ today, yesterday, now })
    expect(new Date(now).toISOString()).toBe(instant)
  })

  test('an unknown time zone is an error', () => {
    expect(() => datesOf(new Date(0), 'Mars/Olympus')).toThrow(RangeError)
  })
})

describe('the size limit of filled-in templates', () => {
  const t = 'x'.repeat(1024 * 1024)
  const big: Scope = { ...scope, inputs: { t, list: [t], keys: { [t]: 1 } } }
  const tooLong = new TemplateError('resolves to more than 32 MiB')

  test('is 32 MiB', () => {
    expect(mostResolvedText).toBe(32 * 1024 * 1024)
  })

  test.each<[string, Json, Json]>([
    ['inside one text', '{{input.t}}'.repeat(32), `{{input.t}}`.repeat(33)],
    ['over all texts', Array(16).fill('{{input.t}}{{input.t}}'), Array(17).fill('{{input.t}}{{input.t}}')],
    ['as whole references', Array(32).fill('{{input.t}}'), Array(33).fill('{{input.t}}')],
    ['in lists', { a: Array(31).fill('{{input.list}}') }, { a: Array(32).fill('{{input.list}}') }],
    ['in keys', { a: Array(31).fill('{{input.keys}}') }, { a: Array(32).fill('{{input.keys}}') }],
    ['as JSON', 'x{{input.list}}'.repeat(31), 'x{{input.list}}'.repeat(32)],
  ])('%s', (_, fits, exceeds) => {
    expect(() => resolve(fits, big)).not.toThrow()
    expect(() => resolve(exceeds, big)).toThrow(tooLong)
  })

  test('a small definition cannot fill the memory', () => {
    expect(() => resolve({ value: Array(11).fill('{{input.t}}'.repeat(60)) }, big)).toThrow(tooLong)
  })

  test('a text that is one reference may have any size', () => {
    const inputs = { many: Array<string>(40).fill(t) }
    expect(resolve('{{input.many}}', { ...scope, inputs }).value).toBe(inputs.many)
  })
})

test.each<[Json, WhenOperator, Json | undefined, boolean]>([
  ['x', 'equals', 'x', true],
  ['x', 'not_equals', 'x', false],
  [null, 'equals', null, true],
  [null, 'equals', 'x', false],
  [null, 'not_equals', 'x', true],
  [['bug', 'p1'], 'equals', 'bug', true],
  [['bug', 'p1'], 'equals', ['bug', 'p1'], true],
  [{ a: 1, b: [2] }, 'equals', { b: [2], a: 1 }, true],
  [{ a: 1 }, 'equals', { a: 1, b: null }, false],
  [[], 'equals', [], true],
  [1, 'equals', '1', false],
  ['x', 'in', ['x', 'y'], true],
  [null, 'in', ['x'], false],
  ['x', 'not_in', ['x', 'y'], false],
  [['x', 'z'], 'not_in', ['x'], false],
  [null, 'not_in', ['x'], true],
  ['hello', 'contains', 'ell', true],
  [['hello'], 'contains', 'ell', false],
  ['hello', 'startswith', 'he', true],
  ['a@acme.com', 'domain_in', ['acme.com'], true],
  ['a@acme.com, b@evil.net', 'domain_not_in', ['acme.com'], false],
  ['b@evil.net', 'domain_not_in', ['acme.com'], true],
  [{ x: 1 }, 'exists', true, true],
  [null, 'exists', true, false],
  [null, 'exists', false, true],
  ['x', 'exists', undefined, true],
])('%j %s %j: %s', (value, operator, compare, expected) => {
  expect(holds(operator, value, compare)).toBe(expected)
})

test.each<[Json, boolean]>([
  ['{{read.output.gone}}', false],
  ['{{read.output.inner.deeper}}', false],
  ['{{read.output.rows[9].name}}', false],
  ['{{read.output.rows[1].n}}', false],
  ['{{input.object.deep[1]}}', false],
  ['{{input.uploaded_files[1].text}}', false],
  ['{{input.uploaded_files[0].rows}}', false],
  ['{{item.email}}', false],
  ['{{item.id}}', true],
  ['{{read.output.rows[0].n}}', true],
])('`exists` asks whether %s leads to a value: %s', (value, expected) => {
  expect(isWanted({ value, operator: 'exists' }, within)).toBe(expected)
  expect(isWanted({ value, operator: 'exists', compare: false }, within)).toBe(!expected)
})

test.each<[When, boolean]>([
  [{ value: '{{read.output.gone}}', operator: 'equals', compare: 'x' }, false],
  [{ value: '{{read.output.gone}}', operator: 'in', compare: ['x'] }, false],
  [{ value: '{{read.output.gone}}', operator: 'not_in', compare: ['x'] }, false],
  [{ value: '{{read.output.gone}}', operator: 'not_equals', compare: 'x' }, true],
  [{ value: 'x', operator: 'not_equals', compare: '{{read.output.gone}}' }, true],
  [{ value: 1, operator: 'exists', compare: '{{read.output.gone}}' }, false],
  ['{{ read.output.gone == null }}', false],
  ['{{ read.output.gone != null }}', true],
  ['{{ read.output.gone > 1 || read.output.rows[0].n == 1 }}', true],
  ['{{ size(read.output.gone) > 1 }}', false],
  ['{{read.output.gone}}', false],
])('a path that leads to nothing never fails a `when`: %j is %s', (when, expected) => {
  expect(isWanted(when, scope)).toBe(expected)
})

test('a comparison of unsuitable types is an error, not false', () => {
  expect(() => holds('domain_in', 'a@acme.com', ['com'])).toThrow('public suffix')
})

const longLink = `https://docs.google.com/document/${'a/'.repeat(2_000)}`

test.each<[string, Json, Json]>([
  ['a text', 'x', longLink],
  ['objects', { a: 'x' }, { a: longLink }],
])('a list is compared with %s, which is read once', (_, element, compare) => {
  const list = Array<Json>(10_000).fill(element)
  // Reading the link again for each element once took 2 seconds.
  expect(cpuMilliseconds(() => expect(holds('equals', list, compare)).toBe(false))).toBeLessThan(500)
  expect(holds('equals', [...list, compare], compare)).toBe(true)
})

test('links to one file are equal, also inside lists of objects', () => {
  const link = 'https://docs.google.com/document/d/1AbcDefGhi/edit'
  expect(holds('equals', [{ a: ['x'] }, { a: ['1AbcDefGhi'] }], { a: [link] })).toBe(true)
  expect(holds('equals', [{ a: [link] }], { a: ['1AbcDefGhi'] })).toBe(true)
  expect(holds('equals', [{ a: [link] }], { a: ['other'] })).toBe(false)
})

test('a long list in `compare` spends budget once, and not for each item', () => {
  const compare = Array.from({ length: 4_000 }, (_, index) => `v${index}`)
  const budget = new Budget(1_500)
  for (let item = 0; item < 100; item += 1) expect(holds('in', `v${item}`, compare, budget)).toBe(true)
  expect(() => holds('in', 'v1', [...compare], budget)).toThrow('too large')
  // The operators do not share what was read.
  expect(holds('in', 'a@acme.com', ['acme.com'], new Budget())).toBe(false)
  const both = new Budget()
  const domains = ['acme.com']
  expect(holds('in', 'a@acme.com', domains, both)).toBe(false)
  expect(holds('domain_in', 'a@acme.com', domains, both)).toBe(true)
})

test('domains in `compare` spend more', () => {
  const domains = Array.from({ length: 300 }, (_, index) => `d${index}.com`)
  expect(() => holds('domain_in', 'a@acme.com', domains, new Budget(500))).toThrow('too large')
})
