import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type Scope, TemplateError, resolve, valueAt } from '../../src/policy/templates.ts'
import type { Json, JsonObject } from '../../src/policy/types.ts'
import { outputs, scope } from './template-scope.ts'

const within: Scope = {
  ...scope,
  item: { id: 5 },
  index: 2,
  itemSources: ['read'],
}

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
    expect(
      resolve('{{input.open}}{{input.close}}', {
        ...scope,
        inputs: { open: '{{text', close: '}}' },
      }).value,
    ).toBe('{{text}}')
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
    ['{{each.output[INDEX]}}', 'not a reference'],
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
    expect(resolve(params, within).sources).toEqual(
      new Map([
        ['to', ['text']],
        ['body.parts.1', ['read', 'text']],
        ['item', ['read']],
      ]),
    )
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
