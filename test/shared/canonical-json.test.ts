import { describe, expect, test } from '@jest/globals'
import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { canonicalJson, hashOf, sha256 } from '../../src/shared/canonical-json.ts'

describe('canonicalJson', () => {
  test.each([
    // RFC 8785, 3.2.2 to 3.2.4
    [
      {
        numbers: [333333333.33333329, 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
        literals: [null, true, false],
      },
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27]}',
    ],
    [
      { string: '\u20ac$\u000F\u000aA\'\u0042\u0022\u005c\\"\/' },
      '{"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    ],
    [
      {
        '\u20ac': 'Euro',
        '\r': 'CR',
        '\ufb33': 'Dalet',
        '1': 'One',
        '\ud83d\ude00': 'Smile',
        '\u0080': 'C',
        ö: 'O',
      },
      '{"\\r":"CR","1":"One","\u0080":"C","ö":"O","€":"Euro","😀":"Smile","\ufb33":"Dalet"}',
    ],
    [-0, '0'],
    [[], '[]'],
  ])('%j', (value, text) => {
    expect(canonicalJson(value)).toBe(text)
  })

  test.each([
    [undefined],
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [{ a: Number.NaN }],
    ['\ud800'],
    [{ '\\ud800\udc00\udc00': 1 }],
  ])('refuses %p, which JSON cannot hold', (value) => {
    expect(() => canonicalJson(value)).toThrow()
  })

  test('law: the result is JSON of the same value and does not depend on the order of keys', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(value)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
        expect(canonicalJson(JSON.parse(text))).toBe(text)
        expect(canonicalJson(reversed(value))).toBe(text)
      }),
    )
  })
})

test('law: the result equals that of another implementation of RFC 8785, for numbers, texts and keys of every kind', () => {
  const { object } = fc.letrec((tie) => ({
    object: fc.dictionary(fc.string({ unit: 'binary' }), tie('value'), { maxKeys: 40 }),
    value: fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.maxSafeInteger(),
      fc.constantFrom(null, true, false, {}, [], '\\ud800', '\u2028\u007f', 1e21, -0),
      fc.array(tie('value'), { maxLength: 5 }),
      tie('object'),
    ),
  }))
  fc.assert(
    fc.property(object, (value) => {
      expect(outcome(() => canonicalJson(value))).toBe(outcome(() => canonicalize(value)))
    }),
    { numRuns: 1_000 },
  )
})

/** The result, or `refused`. Both implementations refuse texts with half a surrogate pair. */
function outcome(write: () => unknown): unknown {
  try {
    return write()
  } catch {
    return 'refused'
  }
}

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, each]) => [key, reversed(each)]),
  )
}

test('sha256 is lower-case hex over UTF-8 (FIPS 180-2 and a character of four bytes)', () => {
  expect(sha256('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  expect(sha256('😀')).toBe('f0443a342c5ef54783a111b51ba56c938e474c32324d90c3a60c9c8e3a37e2d9')
})

test('hashOf hashes the canonical form', () => {
  expect(hashOf({ b: 1, a: 2 })).toBe(sha256('{"a":2,"b":1}'))
})
