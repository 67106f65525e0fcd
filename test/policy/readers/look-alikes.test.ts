import { describe, expect, test } from '@jest/globals'
import { isListOfPointers, noteOn, piecesOf, visible } from '../../../src/policy/readers/look-alikes.ts'

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

/** What is said of each text when it is a parameter. */
describe('what a reader cannot see is said', () => {
  test.each([
    ['a host with another alphabet', 'ann@\u0430cme.com', 'xn--cme-5cd.com, \u0430 is Cyrillic U+0430'],
    ['a whole label that looks Latin', 'https://\u0430\u0440\u0440\u04cf\u0435.com/x', 'xn--80ak6aa92e.com'],
    ['a host with accents', 'ann@b\u00fccher.example', 'xn--bcher-kva.example'],
    ['a link without slashes', 'https:b\u00fccher.example', 'xn--bcher-kva.example'],
    ['a host behind quotes', '"ann x"@b\u00fccher.example', 'xn--bcher-kva.example'],
    ['a bare host', '\u0430cme.com', 'xn--cme-5cd.com, \u0430 is Cyrillic U+0430'],
    ['a dot of another script', 'ann@acme\u3002com', 'acme.com, \u3002 is a sign U+3002'],
    ['full-width letters', 'https://\uff41cme.com', 'acme.com, \uff41 is an unusual letter U+FF41'],
    ['a part before the @ beyond ASCII', '\u0430nn@acme.com', '\u0430 is Cyrillic U+0430'],
    ['a phonetic letter', '\u0251nn@acme.com', '\u0251 is an unusual letter U+0251'],
    [
      'a whole first part beyond ASCII',
      '\u0438\u0432\u0430\u043d@acme.com',
      '\u0438\u0432\u0430\u043d is not ASCII',
    ],
    ['a link inside a longer text', 'see https://\u0430cme.com/x now', 'xn--cme-5cd.com'],
    ['an address beside Hebrew', '\u05e9\u05dc\u05d5\u05dd ann@\u0430cme.com', 'xn--cme-5cd.com'],
    ['a repository', '\u0430cme/app', '\u0430 is Cyrillic U+0430'],
    ['a word of a command', 'rm -rf d\u0430ta', '\u0430 is Cyrillic U+0430'],
    ['a blank braille letter', 'ann@acme.com\u2800', 'U+2800'],
    ['a Hangul filler', 'ann@acme.com\u3164', 'U+3164'],
    ['a blank that does not break', 'ann@acme.com\u00a0', 'U+00A0'],
    ['such a blank beside an address in a text', 'to\u00a0ann@acme.com please', 'U+00A0'],
    ['a blank at the end', 'ann@acme.com ', '1 blank'],
    ['blanks at the beginning', '  ann@acme.com', '2 blanks'],
    ['two blanks', 'ann@acme.com,  bob@acme.com', '2 blanks'],
    ['many blanks before the rest of a command', `ls${' '.repeat(90)}; rm x`, '90 blanks'],
    ['blanks of several kinds', 'a \u2003\u3000b', '3 blanks U+2003 U+3000'],
    ['a tab', 'a\tb', 'tab'],
    ['a soft hyphen', 'ac\u00adme', 'U+00AD'],
    ['a selector after a letter', 'a\ufe0fb', 'U+FE0F'],
    ['a tag', 'a\u{e0061}b', 'U+E0061'],
  ])('%s', (_, text, note) => {
    expect(noteOn(text)).toContain(note)
  })

  test.each([
    'Привет, мир! Пишите на ann@acme.com, т.е. мне. Отчёт по URLам и/или файл отчёт.zip',
    'Καλημέρα κόσμε, 5 μm',
    'שלום עולם, ראו https://acme.com/x',
    '你好。我是 ann@acme.com，谢谢。卡拉OK',
    'ご注文のTシャツは\u3000明日届きます。',
    'Prix\u00a0: 10\u202f€ – « résumé » de Zoë, naïve façade',
    'Done ✅ 👩‍👩‍👧 ❤️ 1️⃣ — see docs/résumé.pdf',
    'https://ru.wikipedia.org/wiki/Россия',
    'Line one.\n\n  - indented  twice\n\tand a tab \n',
    '{\n  "a": 1\n}',
  ])('nothing of %j', (text) => {
    expect(noteOn(text)).toBeUndefined()
  })

  test.each([
    ['Cyrillic in a name', 'P\u0430y invoices', 'P\u0430y [\u0430 is Cyrillic U+0430] invoices'],
    ['two blanks in a name', 'Pay  invoices', 'Pay[2 blanks]invoices'],
    ['a short Russian name', 'ТЕСТ', 'ТЕСТ'],
  ])('in names, %s', (_, text, shown) => {
    expect(visible(text, 'name')).toBe(shown)
  })

  test('in commands, dashes and words of another alphabet', () => {
    expect(visible('rm \u2013rf \u0430\u0441\u0435', 'command')).toBe(
      'rm \u2013rf [\u2013 is a sign U+2013] \u0430\u0441\u0435 [\u0430\u0441\u0435 is Cyrillic U+0430 U+0441 U+0435]',
    )
  })
})

describe('the direction of text', () => {
  test('addresses and links run from left to right between words that run from right to left', () => {
    const hebrew = '\u05e9\u05dc\u05d5\u05dd'
    const pieces = piecesOf(`${hebrew} ann@acme.com ${hebrew} https://acme.com/${hebrew}/x`, 'text') ?? []
    const turned = pieces.filter(({ isLeftToRight }) => isLeftToRight)
    expect(turned.map(({ parts }) => parts)).toEqual([
      [{ kind: 'plain', text: 'ann@acme.com' }],
      [{ kind: 'plain', text: `https://acme.com/${hebrew}/x` }],
    ])
    expect(visible(`${hebrew} ann@acme.com`)).toBe(`${hebrew} \u2066ann@acme.com\u2069`)
  })

  test('a list of addresses runs from left to right as a whole', () => {
    expect(isListOfPointers('\u05e9\u05dc@acme.com, ann@acme.com')).toBe(true)
    expect(isListOfPointers('\u05e9\u05dc ann@acme.com')).toBe(false)
  })
})
