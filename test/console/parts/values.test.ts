import { describe, expect, test } from '@jest/globals'
import { h } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { Values } from '../../../src/console/parts/values.ts'
import { mostShown } from '../../../src/console/parts/words.ts'
import type { JsonObject } from '../../../src/policy/types.ts'

const shown = (values: JsonObject): string => renderToString(h(Values, { values }))
const numbered = (count: number, text: string): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`name-${at}-end`, `${text}${at}-end`]))

describe('values that fit on a page', () => {
  test('are shown whole: many short ones, and long names', () => {
    const name = `long-name-${'n'.repeat(2_000)}-name-end`
    const values = { ...numbered(700, 'x'.repeat(1_900)), [name]: 'y' }
    const html = shown(values)
    for (let at = 0; at < 700; at += 1) expect(html).toContain(`x${at}-end`)
    expect(html).toContain('-name-end')
    expect(html).not.toContain('not on this page')
  })

  test('show a long name whole, folded', () => {
    const html = shown({ [`a-${'n'.repeat(2_000)}-the-end`]: 'y' })
    expect(html).toContain('-the-end')
    expect(html).toContain('Show all 2,010 characters')
  })

  test('are listed one by one only up to a limit, and then as JSON', () => {
    for (const values of [
      numbered(5_000, 'a'),
      { list: Array.from({ length: 5_000 }, (_, at) => `a${at}-end`) },
    ]) {
      const html = shown(values)
      expect(html.match(/<(?:dd|li)>/g)?.length).toBeLessThan(400)
      expect(html).toContain('a4999-end')
      expect(html).toMatch(/4,70[01] more, as JSON:/)
    }
  })
})

test('values that do not fit are cut, with a mark and with their short texts', () => {
  const html = shown({ long: 'x'.repeat(mostShown + 1_234), command: 'git push --force' })
  expect(html).toContain('1,234 more characters are not on this page.')
  expect(html).toContain('git push --force')
  expect(shown(numbered(1_000, 'x'.repeat(1_900)))).toContain('more characters are not on this page.')
})
