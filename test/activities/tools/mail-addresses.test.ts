import { describe, expect, test } from '@jest/globals'
import * as fc from 'fast-check'
import {
  envelopeRecipients,
  parseMailbox,
  parseRecipients,
  refuseHeaderBreaks,
} from '../../../src/activities/tools/mail-addresses.ts'
import { ToolError } from '../../../src/activities/tools/executor.ts'
import { Budget } from '../../../src/policy/budget.ts'
import { fillInMe } from '../../../src/policy/me.ts'
import { hostsIn } from '../../../src/policy/readers/recipients.ts'

const addresses = (value: string | string[]) => parseRecipients('to', value).map((mailbox) => mailbox.address)

describe('parseRecipients', () => {
  const accepted: [string | string[], string[]][] = [
    ['a@x.com', ['a@x.com']],
    [' a@x.com ', ['a@x.com']],
    ['Name <a@x.com>', ['a@x.com']],
    ['"Doe, Jane; Dr." <a@x.com>', ['a@x.com']],
    ['"a@x.com" <a@x.com>', ['a@x.com']],
    ['<a@x.com>', ['a@x.com']],
    ['a@x.com, b@y.com', ['a@x.com', 'b@y.com']],
    ['a@x.com; b@y.com;', ['a@x.com', 'b@y.com']],
    [
      ['a@x.com, c@z.com', 'B <b@y.com>'],
      ['a@x.com', 'c@z.com', 'b@y.com'],
    ],
    ['a@x.com, A <a@X.com>', ['a@x.com']],
    ['a@X.COM', ['a@x.com']],
    ['a@bücher.example', ['a@xn--bcher-kva.example']],
    ["o'neil+tag@x-y.co.uk", ["o'neil+tag@x-y.co.uk"]],
    ['a/b=c?@x.com', ['a/b=c?@x.com']],
    ['Sales / Support <a@x.com>', ['a@x.com']],
    ['"a = b? and/or: c" <a@x.com>', ['a@x.com']],
    ['"ａ＠x.com" <a@x.com>', ['a@x.com']],
  ]
  test.each(accepted)('%j', (value, expected) => {
    expect(addresses(value)).toEqual(expected)
  })

  const refusedItems = [
    'a',
    'me',
    'a@',
    '@x.com',
    'a b@x.com',
    'a@x.com b@y.com',
    'a@x.com@y.com',
    'a@x..com',
    'a@x.com.',
    'a@.com',
    '.a@x.com',
    'a.@x.com',
    'a..b@x.com',
    'a@[127.0.0.1]',
    'a@127.0.0.1',
    'a@0x7f.1',
    'a@2130706433',
    '"a b"@x.com',
    '"a@x.com"@evil.com',
    'a(comment)@x.com',
    'a@x.com (comment)',
    'Group: a@x.com;',
    '<@route.com:a@x.com>',
    'Name <a@x.com> trailing',
    'Name <a@x.com',
    'Name a@x.com>',
    'Name <b@y.com> <a@x.com>',
    'boss@acme.com <a@evil.com>',
    '"boss@acme.com" <a@evil.com>',
    '"open <a@x.com>',
    'a"b <a@x.com>',
    'ceo＠acme.com <a@evil.com>',
    '"ceo﹫acme.com" <a@evil.com>',
    '"ｃｅｏ＠x.com" <a@evil.com>',
    '=?utf-8?q?ceo=40acme.com?= <a@evil.com>',
    '"=?utf-8?b?Y2VvQGFjbWUuY29t?=" <a@evil.com>',
    '"＝？utf-8?b?Y2VvQGFjbWUuY29t?=" <a@evil.com>',
    '"https://acme.com/" <a@evil.com>',
    '"https://acme.com/a, b" <a@evil.com>',
    '"see https://acme.com/" <a@evil.com>',
    '//acme.com/ <a@evil.com>',
    '／／acme.com/ <a@evil.com>',
    '//acme.com/b@evil.com',
    '//a@acme.com',
    '/a@acme.com',
    'Ann </a@acme.com>',
    'a@x.com%evil.com',
    'a@x。com',
    'Me',
    `${'a'.repeat(250)}@x.com`,
  ]
  test.each(refusedItems)('refuses %s, also in a list', (item) => {
    for (const value of [item, `ok@x.com, ${item}`, ['ok@x.com', item]]) {
      expect(() => addresses(value)).toThrow(
        expect.objectContaining({ code: 'mail_address_invalid', retryable: false }),
      )
    }
  })

  test('rules read the same hosts from the text, so no recipient escapes a domain rule', () => {
    const piece = fc.constantFrom(
      ...[
        'a',
        'B',
        '@',
        '＠',
        'x.com',
        'evil.org',
        ' ',
        '<',
        '>',
        '"',
        ',',
        ';',
        '\\',
        '(',
        ')',
        ':',
        '.',
        'ü',
      ],
      ...[
        '%',
        "'",
        '/',
        '//',
        'https://',
        'http:',
        '//x.com/',
        'https://x.com/',
        '?',
        '#',
        '=',
        '[',
        ']',
        'me',
      ],
    )
    const noise = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''))
    const address = fc.tuple(
      fc.constantFrom('a', "b'c", 'ü', 'a/b', '//x.com/a', '//a', 'a?b', 'a#', 'mailto', '%40'),
      fc.constantFrom('x.com', 'EVIL.org', 'bücher.de', 'y.x.com', 'intra'),
    )
    const plain = address.map((parts) => parts.join('@'))
    const named = fc.tuple(noise, plain).map(([name, at]) => `${name} <${at}>`)
    const quoted = fc.tuple(noise, plain).map(([name, at]) => `"${name.replaceAll(/["\\]/g, '')}" <${at}>`)
    const list = fc.array(fc.oneof(plain, named, quoted, noise), { minLength: 1, maxLength: 4 })
    let accepted = 0
    fc.assert(
      fc.property(list, fc.constantFrom(', ', ';', ' ,'), (items, separator) => {
        const written = items.join(separator)
        const { to: value } = fillInMe({ to: written }, ['to'], 'ann@larkspur.example') as { to: string }
        let sent: string[]
        try {
          sent = addresses(value)
        } catch {
          return
        }
        accepted++
        const seen = hostsIn(value, new Budget())
        for (const address of sent) {
          const host = address.slice(address.indexOf('@') + 1)
          // Rules read a host without a dot as null, which is outside every domain.
          expect(seen).toContain(host.includes('.') ? host : null)
        }
      }),
      { numRuns: 10_000 },
    )
    expect(accepted).toBeGreaterThan(500)
  })

  test('a hostile list is refused quickly', () => {
    for (const value of [
      '"\\'.repeat(16_000),
      'a '.repeat(16_000),
      '<'.repeat(32_000),
      'a.'.repeat(16_000),
    ]) {
      expect(() => addresses(value)).toThrow(ToolError)
    }
  })
})

describe('header injection', () => {
  const breaks = [
    '\r\nBcc: x@evil.com',
    '\n',
    '\r',
    '\0',
    '\x0b',
    '\x0c',
    '\x1b',
    '\x7f',
    '\x85',
    '\u2028',
    '\u2029',
  ]
  test.each(breaks)('%j is refused everywhere', (text) => {
    const values = [
      `a@x.com${text}`,
      `${text}a@x.com`,
      `Na${text}me <a@x.com>`,
      `"Na${text}me" <a@x.com>`,
      `a@x${text}.com`,
    ]
    for (const value of values) {
      const refusal = expect.objectContaining({ code: 'mail_header_invalid', retryable: false })
      expect(() => addresses(value)).toThrow(refusal)
      expect(() => addresses(['ok@x.com', value])).toThrow(refusal)
    }
    expect(() => refuseHeaderBreaks('subject', `Hello${text}`)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('Hello') }),
    )
  })
})

describe('parseMailbox', () => {
  test('keeps the name', () => {
    expect(parseMailbox('to', 'Jane Doe <a@x.com>')).toEqual({ name: 'Jane Doe', address: 'a@x.com' })
    expect(parseMailbox('to', String.raw`"J \"Doe\" \\" <a@x.com>`)).toEqual({
      name: 'J "Doe" \\',
      address: 'a@x.com',
    })
  })
})

describe('envelopeRecipients', () => {
  const boxes = (count: number, from = 0) =>
    Array.from({ length: count }, (_, index) => ({ name: '', address: `a${from + index}@x.com` }))

  test('each address once', () => {
    expect(envelopeRecipients(boxes(2), boxes(2, 1))).toEqual(['a0@x.com', 'a1@x.com', 'a2@x.com'])
  })
  test('at most a hundred', () => {
    expect(envelopeRecipients(boxes(60), boxes(40, 60))).toHaveLength(100)
    expect(() => envelopeRecipients(boxes(60), boxes(41, 60))).toThrow(
      expect.objectContaining({ code: 'mail_too_many_recipients' }),
    )
  })
  test('`to` needs at least one recipient', () => {
    expect(() => envelopeRecipients([], boxes(1))).toThrow(
      expect.objectContaining({ code: 'mail_address_invalid' }),
    )
  })
})
