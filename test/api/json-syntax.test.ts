import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { parseJson } from '../../src/api/json-body.ts'
import { syntaxErrorOf } from '../../src/api/json-syntax.ts'

describe('the place of a syntax error', () => {
  test.each([
    ['', 1, 1, 'a value'],
    ['{"a": }', 1, 7, 'a value'],
    ['{"a": 1,\n "b" 2}', 2, 6, '`:`'],
    ['{\r\n  "a": [1, 2,],\r\n}', 2, 14, 'a value'],
    ['{"a": 1,}', 1, 9, 'a name in double quotes'],
    ["{'a': 1}", 1, 2, 'a name in double quotes or `}`'],
    ['[1 2]', 1, 4, '`,` or `]`'],
    ['{"a": 1 "b"}', 1, 9, '`,` or `}`'],
    ['{"a": abc}', 1, 7, 'a value'],
    ['{"a": nul}', 1, 10, '`null`'],
    ['[01]', 1, 3, '`,` or `]`'],
    ['[1.]', 1, 4, 'a digit'],
    ['[-]', 1, 3, 'a digit'],
    ['[1e+]', 1, 5, 'a digit'],
    ['{} {}', 1, 4, 'the end of the body'],
    ['\n\n\n{"a": "x\ny"}', 4, 9, '`"`, or an escape'],
    ['["\\x"]', 1, 4, 'an escape'],
    ['["\\u00g0"]', 1, 7, 'a hexadecimal digit'],
    ['{"a": "x', 1, 9, '`"`'],
    ['{"a": 1', 1, 8, '`,` or `}`'],
    [']', 1, 1, 'a value'],
    ['[}', 1, 2, 'a value or `]`'],
  ])('%j: line %i, column %i', (text, line, column, expected) => {
    expect(syntaxErrorOf(text)).toMatchObject({ line, column, expected: expect.stringContaining(expected) })
  })

  test('is in the answer, without any part of the body', () => {
    const parse = (text: string) => parseJson(new TextEncoder().encode(text))
    expect(() => parse('{\n  "password": "hunter2"\n  "name": "x"\n}')).toThrow(
      'the body is not JSON: line 3, column 3: expected `,` or `}`',
    )
    expect(() => parse('{"a": [')).toThrow('line 1, column 8: expected a value or `]`, but the body ends')
    expect(() => parseJson(Uint8Array.of(0x22, 0xff, 0x22))).toThrow('the body is not UTF-8')
  })
})

describe('any text', () => {
  const marks = fc.constantFrom(
    ...Array.from('{}[]:,"\\ \n\tu0019.eE+-tfnxé'),
    'true',
    'null',
    'false',
    '\\u00e9',
    '"a"',
    '1',
  )
  const soup = fc.array(marks, { maxLength: 12 }).map((parts) => parts.join(''))
  /** JSON text with one character removed or inserted. */
  const broken = fc
    .tuple(fc.json({ maxDepth: 3 }), fc.nat(), marks, fc.boolean())
    .map(([text, at, mark, isAdded]) => {
      const place = at % (text.length + 1)
      return text.slice(0, place) + (isAdded ? mark : '') + text.slice(isAdded ? place : place + 1)
    })
  const isJson = (text: string): boolean => {
    try {
      JSON.parse(text)
      return true
    } catch {
      return false
    }
  }

  test('has an error exactly if it is not JSON, and no text that begins the same has a later one', () => {
    let found = 0
    fc.assert(
      fc.property(fc.oneof(soup, broken), fc.oneof(soup, fc.constant('')), (text, other) => {
        const error = syntaxErrorOf(text)
        expect(error === null).toBe(isJson(text))
        if (error === null || error.isAtEnd) return
        found += 1
        const lines = text.split('\n')
        const before = lines.slice(0, error.line - 1).reduce((sum, line) => sum + line.length + 1, 0)
        const beginning = text.slice(0, before + error.column)
        expect(isJson(beginning + other)).toBe(false)
        expect(syntaxErrorOf(beginning.slice(0, -1))?.isAtEnd ?? true).toBe(true)
      }),
      { numRuns: 3_000 },
    )
    expect(found).toBeGreaterThan(500)
  })
})
