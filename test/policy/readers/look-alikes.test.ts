import { describe, expect, test } from '@jest/globals'
import { noteOn, piecesOf, visible } from '../../../src/policy/readers/look-alikes.ts'

describe('text of others', () => {
  test.each([
    ['a flag of two letters', '🇩🇪'],
    ['a flag of a region', '🏴󠁧󠁢󠁥󠁮󠁧󠁿'],
    ['a family', '👨‍👩‍👧‍👦'],
    ['a rainbow flag', '🏳️‍🌈'],
    ['a person with a skin tone', '👩🏽‍🚀'],
    ['a heart on fire', '❤️‍🔥'],
    ['a digit in a key', '1️⃣'],
  ])('has %s as it is', (_, text) => {
    expect(visible(`a ${text} b`)).toBe(`a ${text} b`)
  })

  test.each([
    ['a joiner between letters', 'a\u200Db', 'aU+200Db'],
    ['a joiner after an emoji', '👨\u200D', '👨U+200D'],
    ['a joiner before an emoji', 'a\u200D👨', 'aU+200D👨'],
    ['two joiners between emoji', '👨\u200D\u200D👩', '👨U+200DU+200D👩'],
    ['letters that nobody sees after a flag', '🏴\u{E0061}\u{E0062}\u{E007F}', '🏴U+E0061U+E0062U+E007F'],
    ['letters that nobody sees after a word', 'x\u{E0067}\u{E007F}', 'xU+E0067U+E007F'],
    ['a mark of direction', 'a\u202Eb', 'aU+202Eb'],
    ['a space without width', 'a\u200Bb', 'aU+200Bb'],
    ['a mark behind a joined emoji', '👨‍👩\u2066', '👨‍👩U+2066'],
    ['half of a character', 'a\uD83D', 'aU+D83D'],
  ])('shows %s by its number', (_, text, shown) => {
    expect(visible(text)).toBe(shown)
  })

  test('with many marks and emoji is read to its end', () => {
    const text = '👨‍👩‍👧‍👦a\u202E'.repeat(70_000)
    expect(visible(text)).toHaveLength(text.length + 70_000 * 5)
  })
})
