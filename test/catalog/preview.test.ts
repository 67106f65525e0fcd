import { describe, expect, test } from '@jest/globals'
import { diffOf, fieldsOf, mostOfPreview, titleOf } from '../../src/catalog/preview.ts'

describe('fields', () => {
  test.each([
    ['plain text', 'plain text'],
    [7, '7'],
    [false, 'false'],
    [null, 'null'],
    [['a', 1, true], 'a, 1, true'],
    [[['a'], ['b']], '[\n  [\n    "a"\n  ],\n  [\n    "b"\n  ]\n]'],
    [{ a: 1 }, '{\n  "a": 1\n}'],
  ])('%j is shown as %j', (value, shown) => {
    expect(fieldsOf({ name: value })).toEqual([{ name: 'name', value: shown }])
  })

  test('leave out what was not given', () => {
    expect(fieldsOf({ a: undefined, b: 1 })).toEqual([{ name: 'b', value: '1' }])
  })

  test('are cut, and say how much is missing', () => {
    const [field] = fieldsOf({ text: 'x'.repeat(mostOfPreview.value + 5) })
    expect(field?.value).toBe(`${'x'.repeat(mostOfPreview.value)}… (5 more characters)`)
    expect(fieldsOf({ list: Array.from({ length: mostOfPreview.items + 2 }, () => 1) })[0]?.value).toMatch(
      /1… \(2 more\)$/,
    )
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`n${index}`, index]))
    expect(fieldsOf(many)).toHaveLength(mostOfPreview.fields)
    expect(fieldsOf({ emoji: `${'x'.repeat(mostOfPreview.value - 1)}😀` })[0]?.value.isWellFormed()).toBe(
      true,
    )
  })
})

test('a title is one line, and short', () => {
  expect(titleOf(' Send\n\na  mail ')).toBe('Send a mail')
  expect(titleOf('x'.repeat(1_000))).toBe(`${'x'.repeat(mostOfPreview.title)}… (800 more characters)`)
})

describe('a diff', () => {
  test('of short texts has both whole', () => {
    expect(diffOf('old', 'new')).toEqual({ before: 'old', after: 'new', skipped: 0 })
    expect(diffOf(null, 'new')).toEqual({ before: null, after: 'new', skipped: 0 })
  })

  test('of long texts shows their first difference', () => {
    const same = 'same '.repeat(10_000)
    const { before, after, skipped } = diffOf(`${same}old end`, `${same}new end`)
    expect(skipped).toBeGreaterThan(40_000)
    expect(before).toMatch(/same old end$/)
    expect(after).toMatch(/same new end$/)
    expect(same.length - skipped).toBe(before!.length - 'old end'.length)
  })

  test('is cut', () => {
    const { before, after } = diffOf('a'.repeat(1_000_000), 'b'.repeat(1_000_000))
    for (const side of [before!, after]) {
      expect(side.length).toBeLessThan(mostOfPreview.side + 50)
      expect(side).toMatch(/more characters\)$/)
    }
  })
})
