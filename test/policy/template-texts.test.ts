import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  type Scope,
  TemplateError,
  builtins,
  mostResolvedText,
  references,
  resolve,
} from '../../src/policy/templates.ts'
import type { Json } from '../../src/policy/types.ts'
import { scope } from './template-scope.ts'

/* References, quoted texts, built-in values and the size limit of templates. */

describe('references', () => {
  test('are found in lists and objects, with their kind', () => {
    const value = {
      a: ['{{input.x.y}} {{steps.s.output[0]}}', { b: '{{item}} {{index}} {{today}} {{yesterday}} {{now}}' }],
      c: '{{input.uploaded_files}}',
      '{{not.this}}': 1,
    }
    expect(references(value).map((each) => each.kind)).toEqual([
      'input',
      'step',
      'item',
      'index',
      'today',
      'yesterday',
      'now',
      'input',
    ])
  })

  test.each([
    '{{}}',
    '{{ }}',
    '{{a b}}',
    '{{input}}',
    '{{steps}}',
    '{{step.result}}',
    '{{steps.a.status}}',
    '{{a.output[x]}}',
    '{{a.output.}}',
    '{{today.x}}',
    '{{{{a}}',
    '{{unclosed',
    '{{"unclosed}}',
    '{{"a" "b"}}',
    `{{"a'}}`,
    '{{"a".b}}',
  ])('%s is not a built-in value', (text) => {
    expect(references(text)).toEqual([{ kind: 'unknown', text }])
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
    expect(builtins(new Date(instant), zone)).toEqual({
      today,
      yesterday,
      now,
    })
    expect(new Date(now).toISOString()).toBe(instant)
  })

  test('an unknown time zone is an error', () => {
    expect(() => builtins(new Date(0), 'Mars/Olympus')).toThrow(RangeError)
  })
})

describe('the size limit of filled-in templates', () => {
  const t = 'x'.repeat(1024 * 1024)
  const big: Scope = { ...scope, inputs: { t, list: [t], keys: { [t]: 1 } } }
  const tooLong = new TemplateError('resolves to more than 32 MiB')

  test('32 MiB', () => {
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
