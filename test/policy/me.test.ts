import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Budget } from '../../src/policy/budget.ts'
import { addressItems, fillInMe } from '../../src/policy/me.ts'
import type { Json } from '../../src/policy/types.ts'
import { Hole, type Partial } from '../../src/policy/values.ts'

const ann = 'ann@acme.com'
const filled = (to: Partial, email: string | null = ann) =>
  (fillInMe({ to, text: 'me' }, ['to', 'cc'], email) as { to: Partial }).to

describe('`me` becomes the address of the person who runs', () => {
  const cases: [Json, Json][] = [
    ['me', ann],
    [' me ', ` ${ann} `],
    ['me, b@x.com', `${ann}, b@x.com`],
    ['b@x.com;me', `b@x.com;${ann}`],
    ['me,me', `${ann},${ann}`],
    [
      ['b@x.com', 'me'],
      ['b@x.com', ann],
    ],
    ['"x, me', '"x, me'],
    ['"x, \\", me", me', `"x, \\", me", ${ann}`],
    ['https://acme.com/?q=1,me', `https://acme.com/?q=1,${ann}`],
    ['Me', 'Me'],
    ['me@x.com', 'me@x.com'],
    ['Me <me>', 'Me <me>'],
    ['', ''],
    [null, null],
    [{ email: 'me' }, { email: 'me' }],
  ]
  test.each(cases)('%j', (to, expected) => expect(filled(to)).toEqual(expected))

  test('only in parameters that name people', () => {
    expect(fillInMe({ to: 'me', text: 'me' }, ['to', 'cc'], ann)).toEqual({ to: ann, text: 'me' })
    expect(fillInMe({ to: 'me' }, [], ann)).toEqual({ to: 'me' })
    expect(fillInMe({ text: 'me' }, ['to'], ann)).toEqual({ text: 'me' })
  })
})

describe('the items in a list of addresses', () => {
  const at = (text: string) => addressItems(text).map(({ start, end }) => [start, end])

  test('have no white space around them, also no white space of Unicode', () => {
    expect(at(' me ,\u00a0b@x.com\u2003;\n\u0000x\t')).toEqual([[1, 3], [6, 13], [16, 18]]) // prettier-ignore
    expect(at(' , ')).toEqual([[1, 1], [3, 3]]) // prettier-ignore
  })

  test('are what `trim` leaves of the text between commas', () => {
    const text = fc
      .array(fc.constantFrom('me', ',', ' ', '\t', '\u00a0', '\ufeff', '\u200b', '\u007f', 'é', '😀'))
      .map((parts) => parts.join(''))
    fc.assert(
      fc.property(text, (list) =>
        expect(addressItems(list).map(({ start, end }) => list.slice(start, end))).toEqual(
          list.split(',').map((item) => item.trim()),
        ),
      ),
    )
  })

  test('a long list is filled in', () => {
    expect(filled('me,'.repeat(10_000) + 'x')).toBe(`${ann},`.repeat(10_000) + 'x')
    expect(filled('me,'.repeat(10_000) + 'x', null)).toEqual(new Hole('', { from: ['me'] }))
  })
})

describe('values that are not known yet', () => {
  const cases: [string, string][] = [
    ['', ''],
    ['m', ''],
    ['me', ''],
    ['me ', ''],
    ['me,', `${ann},`],
    ['me, b@x.com, m', `${ann}, b@x.com, `],
    ['b@x.com', 'b@x.com'],
    ['"me, me', '"me, me'],
  ]
  test.each(cases)('a text that starts with %j is known up to %j', (prefix, known) =>
    expect(filled(new Hole(prefix))).toEqual(new Hole(known)),
  )

  test('a completely unknown value may still be `me`', () =>
    expect(filled(new Hole(null))).toEqual(new Hole(null)))

  test('if the requester’s address is unknown, the text after it is unknown too', () => {
    expect(filled('b@x.com, me, c@x.com', null)).toEqual(new Hole('b@x.com, ', { from: ['me'] }))
    expect(filled(new Hole('me, b@x.com'), null)).toEqual(new Hole('', { from: ['me'] }))
    expect(filled('b@x.com', null)).toBe('b@x.com')
  })

  test.each<[string[], string[]]>([
    [[', b@x.com'], [', b@x.com']],
    [[', me'], [', ', '']],
    [['e, b@x.com'], ['', ', b@x.com']],
    [[', m'], [', m']],
    [
      [', m', ''],
      [', ', '', ''],
    ],
    [
      ['x, me, b@x.com', 'e'],
      ['x, ', ', b@x.com', '', ''],
    ],
    [
      ['some men', 'em'],
      ['some men', 'em'],
    ],
  ])('of the pieces %j after an unknown part, %j are known', (after, known) =>
    expect(filled(new Hole('a@x.com, ', { after }))).toEqual(new Hole('a@x.com, ', { after: known })),
  )

  test('every completion of a text with known pieces has these pieces in their order', () => {
    const text = fc
      .array(fc.constantFrom('me', 'm', 'e', ',', ';', ' ', '"', '\\', 'x@y.z'), { maxLength: 5 })
      .map((parts) => parts.join(''))
    const pieces = fc.array(text, { minLength: 2, maxLength: 4 })
    fc.assert(
      fc.property(
        pieces,
        fc.array(text, { minLength: 4, maxLength: 4 }),
        ([prefix = '', ...after], unknown) => {
          const whole = [prefix, ...after].reduce((done, piece, at) => done + (unknown[at] ?? '') + piece)
          const hole = filled(new Hole(prefix, { after })) as Hole
          expect([hole, hole.mayBecome(String(filled(whole)), new Budget())]).toEqual([hole, true])
        },
      ),
      { numRuns: 10_000 },
    )
  })

  test('every completion of a prefix starts with its known part', () => {
    const text = fc
      .array(fc.constantFrom('me', 'm', 'e', ',', ';', ' ', '"', '\\', 'x@y.z'), { maxLength: 8 })
      .map((parts) => parts.join(''))
    fc.assert(
      fc.property(text, text, (prefix, rest) => {
        const { prefix: known } = filled(new Hole(prefix)) as Hole
        expect(String(filled(prefix + rest)).startsWith(known ?? '!')).toBe(true)
      }),
      { numRuns: 5_000 },
    )
  })
})
