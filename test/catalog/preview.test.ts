import { describe, expect, test } from '@jest/globals'
import { fieldsOf, mostOfPreview, titleOf } from '../../src/catalog/preview.ts'

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
