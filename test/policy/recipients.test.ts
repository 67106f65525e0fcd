import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import addressparser from 'nodemailer/lib/addressparser'
import { Budget, BudgetExceeded } from '../../src/policy/budget.ts'
import { addressItems, fillInMe } from '../../src/policy/me.ts'
import { plainPath } from '../../src/policy/readers/file-paths.ts'
import { isOwnedBy, isWithin, normalHost, ruleDomain } from '../../src/policy/readers/hosts.ts'
import {
  hidesAddress,
  normalized,
  otherReadings,
  percentDecoded,
} from '../../src/policy/readers/text-variants.ts'
import { hostsIn as read, settledHosts } from '../../src/policy/readers/recipients.ts'
import { isPlainName } from '../../src/policy/tool-names.ts'
import type { Json } from '../../src/policy/types.ts'
import { Hole, type Partial } from '../../src/policy/values.ts'
import { ask } from './ask.ts'
import { cpuMilliseconds } from './cpu-time.ts'

const hostsIn = (text: string) => read(text, new Budget())

describe('hosts in a text', () => {
  test.each<[string, (string | null)[]]>([
    ['a@acme.com', ['acme.com']],
    ['A@ACME.COM', ['acme.com']],
    ['a@acme.com.', ['acme.com']],
    ['mail.acme.com', ['mail.acme.com']],
    ['https://docs.acme.com/x', ['docs.acme.com']],
    ['https://docs.acme.com:8443/x', ['docs.acme.com']],
    ['acme.com:8080/x', ['acme.com']],
    ['//acme.com/x', ['acme.com']],
    ['a@acme.com, b@evil.net', ['acme.com', 'evil.net']],
    ['a@acme.com;b@evil.net', ['acme.com', 'evil.net']],
    ['a@acme.com\nb@evil.net', ['acme.com', 'evil.net']],
    ['a@acme.com,', ['acme.com']],
    ['Ann <a@acme.com>', ['acme.com']],
    ['"Doe, Ann" <a@acme.com>; Bob <b@evil.net>', ['acme.com', 'evil.net']],
    ['Team: a@acme.com, b@evil.net;', ['acme.com', 'evil.net']],
    ['mailto:a@acme.com?cc=b%40evil.net', ['acme.com', 'evil.net']],
    // Parsers disagree about which host gets the mail.
    ['"b@evil.net x"@acme.com', ['evil.net', 'acme.com']],
    ['"unclosed, a@acme.com', [null, 'acme.com']],
    ['a@acme.com(x).evil.net', ['acme.com', 'acme.com.evil.net', null]],
    ['a@acme.com .evil.net', ['acme.com', null]],
    ['https://acme.com@evil.net/', ['evil.net']],
    ['https://user:pw@evil.net:443/', ['evil.net']],
    ['https://acme.com\\@evil.net/', ['evil.net', 'acme.com']],
    ['https:\\\\evil.net\\x', ['evil.net', null]],
    ['https:evil.net', ['evil.net']],
    ['https:///evil.net', ['evil.net']],
    ['https://acme.com%2eevil.net/', ['acme.com.evil.net']],
    ['https://acme.com/@evil.net', ['acme.com', 'evil.net']],
    // One reader takes this text for a link, another one for a name and an address.
    ['"https://acme.com/" <x@evil.net>', ['acme.com', 'evil.net']],
    ['"https://acme.com/a, b" <x@evil.net>', ['acme.com', 'evil.net']],
    ['https://acme.com/ <x@evil.net>', ['acme.com', 'evil.net']],
    ['https://acme.com/<x@evil.net>', ['acme.com', 'evil.net']],
    ['//acme.com/ <x@evil.net>', ['acme.com', 'evil.net']],
    ['//acme.com/ <admin@countersign.test>', ['acme.com', 'countersign.test']],
    ['//acme.com/b@evil.net', ['acme.com', 'evil.net']],
    ['//acme.com/b@intra', ['acme.com', null]],
    ['https://acme.com/ <me>', ['acme.com', null]],
    ['https://acme.com/?to=x@intra <y>', ['acme.com', null]],
    ['//x@acme.com,me', ['acme.com', null]],
    ['https://x@acme.com,me', ['acme.com', null]],
    ['https://acme.com/,me', ['acme.com', null]],
    ['https://acme.com/ ,b', ['acme.com', null]],
    ['https://acme.com,.evil.net/', ['acme.com', null]],
    ['https://acme.com/a@[10.0.0.1]', ['acme.com', null]],
    ['mailto:/a@intra', [null]],
    ['Team:/a@intra;', [null]],
    // and honest links, which have one reading
    ['"Acme" <https://acme.com/>', [null, 'acme.com']],
    ['https://acme.com/@ann', ['acme.com']],
    ['https://acme.com/npm/react@18.2.0/index.js', ['acme.com']],
    ['https://acme.com/?mail=ann@acme.com', ['acme.com']],
    ['https://ann@acme.com/', ['acme.com']],
    ['//acme.com/?q=1,2;3', ['acme.com']],
    ['"Acme https://acme.com/" <a@acme.com>', ['acme.com']],
    ['"https://acme.com/a, b" <a@acme.com>', ['acme.com']],
    ['//acme.com/ <a@acme.com>', ['acme.com']],
    ['https://acme.com?u=https://evil.net', ['acme.com']],
    ['https://acme.com/?q=1,2', ['acme.com']],
    ['https://acme.com/, https://evil.net/', ['acme.com', 'evil.net']],
    ['https://acme.com/x,evil.net', ['acme.com', 'evil.net']],
    ['a@bücher.de', ['xn--bcher-kva.de']],
    ['a@acme。com', ['acme.com']],
    ['a@ａｃｍｅ.com', ['acme.com']],
    ['a@аcme.com', ['xn--cme-5cd.com']],
    ['http://2130706433/', ['127.0.0.1']],
    ['http://[::1]/', ['[::1]']],
    ['me', [null]],
    ['localhost', [null]],
    ['a@[10.0.0.1]', [null]],
    ['hello world', [null]],
    ['a＠evil.net', [null, 'evil.net']],
    ['', []],
    [' , ; ', []],
  ])('%j', (text, hosts) => {
    expect(new Set(hostsIn(text))).toEqual(new Set(hosts))
  })

  test('an address is found whatever stands before it', () => {
    const pieces = ['acme.com', '//acme.com/', 'https://', 'mailto:', '//', ...'@"<>, \\%'.split('')]
    const noise = fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((each) => each.join(''))
    fc.assert(
      fc.property(
        noise,
        fc.constantFrom('<x@evil.net>', ' <x@evil.net>', '/x@evil.net', 'x@evil.net'),
        (before, to) => {
          expect(hostsIn(before + to)).toContain('evil.net')
        },
      ),
      { numRuns: 3000 },
    )
  })

  test('a link with a line break, which browsers drop, is read both ways', () => {
    expect(hostsIn('https://acme.com\nacme.com')).toContain('acme.comacme.com')
    expect(hostsIn('https://acme.com\t.evil.net/')).toContain('acme.com.evil.net')
  })

  const blanks = ' '.repeat(1_000_000)
  const hostile = [
    `a${blanks}b`,
    `<${blanks}>b`,
    `a@acme.com${blanks}b`,
    `https://acme.com${blanks}b`,
    `https://acme.com/${',b'.repeat(500_000)}`,
    'a,'.repeat(500_000),
    '@'.repeat(1_000_000),
    'a@'.repeat(500_000),
    '<'.repeat(1_000_000),
    '//<'.repeat(300_000),
    `"${'a,'.repeat(500_000)}`,
    '"\\'.repeat(500_000),
    ':1'.repeat(500_000),
    `mailto:${'%40'.repeat(300_000)}`,
    'https://a@'.repeat(100_000),
    'a.'.repeat(500_000),
    `a@${'a.'.repeat(500_000)}`,
  ]
  test.each(hostile.map((text) => [text.slice(0, 20), text]))(
    'a megabyte of %j is read or refused in linear time',
    (_, text) => {
      const milliseconds = cpuMilliseconds(() => {
        try {
          hostsIn(text)
        } catch (error) {
          expect(error).toBeInstanceOf(BudgetExceeded)
        }
      })
      // Quadratic time would take minutes.
      expect(milliseconds).toBeLessThan(10_000)
    },
  )

  test.each([
    ['a,', 100_000],
    ['@', 100_000],
    ['<', 200_000],
    ['b@acme.com\n', 50_000],
    ['http://a@b,', 50_000],
  ])('%j, %d times, is too large to read', (piece, times) => {
    expect(() => hostsIn(`x/${piece.repeat(times)}`)).toThrow(BudgetExceeded)
    expect(() => hostsIn(`x/${piece.repeat(times / 100)}`)).not.toThrow()
  })
})

describe('domains', () => {
  test.each([
    ['acme.com', 'acme.com', true],
    ['mail.acme.com', 'acme.com', true],
    ['evilacme.com', 'acme.com', false],
    ['acme.com.evil.net', 'acme.com', false],
    ['com', 'acme.com', false],
  ])('%s within %s: %s', (host, domain, expected) => {
    expect(isWithin(host, domain)).toBe(expected)
  })

  test('a host that anybody can register below a domain is within it, but not owned by it', () => {
    expect(isWithin('evil.s3.amazonaws.com', 'amazonaws.com')).toBe(true)
    expect(isOwnedBy('evil.s3.amazonaws.com', 'amazonaws.com')).toBe(false)
    expect(isOwnedBy('aws.amazonaws.com', 'amazonaws.com')).toBe(true)
    expect(isOwnedBy('mail.acme.co.uk', 'acme.co.uk')).toBe(true)
  })

  test.each(['com', 'co.uk', 'github.io', 'CO.UK.', '公司.cn', 's3.amazonaws.com', '中国', 'xn--fiqs8s'])(
    '%s is a bare suffix',
    (text) => {
      expect(ruleDomain(text)).toEqual({ issue: expect.stringContaining('public suffix') })
    },
  )

  test.each(['localhost', 'intranet', 'SERVER1.'])('%s has no dot, so that no rule can name it', (text) => {
    expect(ruleDomain(text)).toEqual({ issue: expect.stringContaining('is outside every domain') })
  })

  test.each(['a@acme.com', 'https://acme.com', 'acme.com/x', '*.acme.com', 'ac me.com', '.com', ''])(
    '%j is not a domain for a rule',
    (text) => {
      expect(ruleDomain(text)).toEqual({ issue: expect.stringContaining('not a domain') })
    },
  )

  test('a rule’s domain is stored in normal form', () => {
    expect(ruleDomain(' Bücher.DE. ')).toEqual({ domain: 'xn--bcher-kva.de' })
  })

  test('only a host has a normal form', () => {
    const wrong = ['a/b.com', 'a@b.com', 'b.com:80', 'a b.com', '.com', 'a..com']
    for (const text of [...wrong, `${'a'.repeat(2000)}.com`, `${'a.'.repeat(126)}com`])
      expect(normalHost(text)).toBeNull()
  })
})

/*
 * Two widely used readers that are not ours: the mail library's reader of recipients, and the browsers' reader of
 * links. `hostsIn` must find every host that they find.
 */

const parts = [
  ...['a@acme.com', 'b@evil.net', 'acme.com', 'evil.net', 'me', 'x ', 'a'],
  ...['"', "'", '<', '>', '(', ')', '[', ']', ',', ';', ':', '|', ' ', '\n', '\t', '\\', '@', '＠', '.'],
  ...['%', '!', '=', '&', '?', '#', '/', '//', 'https://', 'http:', 'mailto:', 'Team:'],
  ...['=?utf-8?q?', '?=', 'b=40evil.net'],
]
const text = fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 7 }).map((each) => each.join(''))
const link = fc
  .tuple(fc.constantFrom('https://', 'http:', '//', '/\\', 'ws:/', ' ht\ttps://'), text)
  .map((each) => each.join(''))

type Parsed = ReturnType<typeof addressparser>[number]

function mailHosts(value: string): string[] {
  const addresses = (each: Parsed): string[] =>
    'group' in each && each.group ? each.group.flatMap(addresses) : [each.address ?? '']
  return addressparser(value).flatMap((each) =>
    addresses(each).flatMap((address) => normalHost(/[^@]@([^@]*)$/.exec(address)?.[1] ?? '') ?? []),
  )
}

function linkHosts(value: string): string[] {
  const hosts = [undefined, 'https://base.test/x'].map((base) => URL.parse(value, base)?.hostname ?? '')
  return hosts.flatMap((host) => (host === 'base.test' ? [] : (normalHost(host) ?? [])))
}

test.each([
  ['the mail library', mailHosts, text],
  ['a browser', linkHosts, link],
])('%s leads to no host that was not found', (_, readBy, values) => {
  let reached = 0
  fc.assert(
    fc.property(values, (value) => {
      const hosts = hostsIn(value)
      const isAllInside = hosts.length > 0 && hosts.every((host) => host === 'acme.com')
      for (const host of readBy(value)) {
        reached++
        if (host === 'evil.net') expect(hosts).toContain(host)
        if (isAllInside) expect(host).toBe('acme.com')
      }
    }),
    {
      numRuns: 10_000,
      seed: 20_261_121,
      examples: [['a@acme.com. a'], ['a@acme.com .a'], ['a@acme.com . a'], ['a@acme.com.\na']],
    },
  )
  expect(reached).toBeGreaterThan(300)
})

const settled = (prefix: string, ...after: string[]) =>
  settledHosts(new Hole(prefix, { after: after.length === 0 ? [''] : after }).outline, new Budget())

test('a link determines its host only once the authority has ended', () => {
  expect(settled('https://acme.com/')).toEqual(['acme.com'])
  expect(settled('https://acme.com')).toEqual([])
  expect(settled('https://acme.com:443@')).toEqual([])
  expect(settled('', 'https://acme.com/')).toEqual([])
})

test('an address determines its host only once the host has ended', () => {
  expect(settled('a@acme.com')).toEqual([])
  expect(settled('a@acme.com.')).toEqual([])
  expect(settled('a@acme.com, ')).toEqual(['acme.com'])
  expect(settled('', ', a@acme.com')).toEqual(['acme.com'])
  expect(settled('', '@acme.com')).toEqual(['acme.com'])
  expect(settled('', 'acme.com')).toEqual([])
  expect(settled('', ' <a@acme.com>, ', '')).toEqual(['acme.com'])
  expect(settled('', 'a@acme.com', '')).toEqual([])
  expect(settled('', 'a@127.0.0.1')).toEqual([])
})

test('every text has the hosts that are certain, whatever its unknown parts are', () => {
  const signs = [...`"'\\()<>[],;\n @.:/%`.split(''), '=?', '?=']
  const words = 'a me mailto: https:// https://acme.com/ s3:// data: ?q= %40 %2e \uff20'.split(' ')
  const text = (addresses: string[], maxLength: number) =>
    fc
      .array(fc.constantFrom(...signs, ...words, ...addresses, ...addresses), { maxLength })
      .map((parts) => parts.join(''))
  const addresses =
    'b@evil.net @evil.net @acme.com @1.2.3.4 @1.0xa "b"@evil.net =?utf-8?q?b=40evil.net?='.split(' ')
  const pieces = fc.array(text(addresses, 4), { minLength: 2, maxLength: 4 })
  const unknowns = fc.array(text(addresses, 6), { minLength: 3, maxLength: 3 })
  let certain = 0
  fc.assert(
    fc.property(pieces, unknowns, ([prefix = '', ...after], unknown) => {
      const hosts = settled(prefix, ...after)
      if (hosts.length === 0) return
      certain += 1
      const whole = [prefix, ...after].reduce((done, piece, at) => done + (unknown[at - 1] ?? '') + piece)
      expect(hostsIn(whole)).toEqual(expect.arrayContaining(hosts))
    }),
    { numRuns: 60_000 },
  )
  expect(certain).toBeGreaterThan(10_000)
})

const word = (charset: string, content: string, encoding = 'q'): string =>
  `=?${charset}?${encoding}?${content}?=`

test('an encoded word is decoded, also after many words of unknown charsets', () => {
  const address = word('koi8-r', 'b=40evil.net')
  expect(otherReadings(address)).toEqual(['b@evil.net'])
  const unknown = Array.from({ length: 60 }, (_, n) => word(`x${n}`, 'a')).join(' ')
  expect(otherReadings(`${unknown} ${address}`)[0]).toContain('b@evil.net')
  expect(otherReadings(word('x', 'b=40evil.net'))).toEqual([])
  expect(hidesAddress(`"${word('x', 'a')}" <a@acme.com>`)).toBe(true)
  expect(hidesAddress(`"${word('utf-8', 'a')}" <a@acme.com>`)).toBe(false)
})

test('base64 is decoded where `atob` decodes it, and stays as it is elsewhere', () => {
  const content = fc.string({ unit: fc.constantFrom(...'aQ9+/=-!'.split('')), maxLength: 9 })
  fc.assert(
    fc.property(content, (each) => {
      const whole = word('latin1', each, 'b')
      let decoded: string
      try {
        decoded = new TextDecoder('latin1').decode(Uint8Array.from(atob(each), (char) => char.charCodeAt(0)))
      } catch {
        decoded = whole
      }
      expect(whole === decoded || otherReadings(whole)[0] === decoded).toBe(true)
      if (whole === decoded) expect(hidesAddress(whole)).toBe(true)
    }),
    { numRuns: 2_000 },
  )
})

/** Decides a call of an agent with one rule on `to`. */
const decideOn = (to: Json, operator = 'domain_in', value: Json = ['acme.com']) =>
  ask([{ verdict: 'deny', params: [{ param: 'to', operator, value }] }], { source: 'agents', params: { to } })

test.each([
  ['words of an unknown charset', (n: number) => word('x', '').repeat(n / 9)],
  [
    'words of many charsets',
    (n: number) => Array.from({ length: n / 14 }, (_, at) => word(`x${at}`, '')).join(''),
  ],
  ['broken base64', (n: number) => word('utf-8', '!', 'b').repeat(n / 14)],
])('half a MiB of %s costs little', (_, make) => {
  const text = make(512 * 1024)
  expect(cpuMilliseconds(() => decideOn(text))).toBeLessThan(400)
})

test('hosts that would forward a mail count as comparisons', () => {
  expect(decideOn(`${'.%!'.repeat(200_000)}@x`)).toMatchObject({
    verdict: 'deny',
    reason: 'call too large to evaluate',
  })
})

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

test('it decodes what `decodeURIComponent` decodes, and nothing else', () => {
  const byte = fc.integer({ min: 0, max: 255 }).map((each) => `%${each.toString(16).padStart(2, '0')}`)
  const edges = fc.constantFrom('%c1%80', '%e0%9f%80', '%e0%a0%80', '%ed%a0%80', '%ed%9f%bf', '%f0%8f%80%80', '%f0%90%80%80', '%f4%8f%bf%bf', '%f4%90%80%80', '%F0%9F%98%80', '%', '%2', '%zz', 'a', '/', 'é') // prettier-ignore
  const encodedText = fc.string({ unit: 'grapheme' }).map(encodeURIComponent)
  const text = fc.array(fc.oneof(byte, edges, encodedText), { maxLength: 6 }).map((parts) => parts.join(''))
  fc.assert(
    fc.property(text, (each) => {
      expect(percentDecoded(each)).toBe(decoded(each))
    }),
    { numRuns: 5_000 },
  )
})

test.each(['/%', '%ff/', '?a&%', ';%zz'])('a MiB of links with `%s` costs little', (part) => {
  const link = (n: number) => `docs.google.com/${part.repeat(2_040 / part.length)}${n}`.slice(0, 4_096)
  const to = Array.from({ length: 512 }, (_, n) => link(n))
  // With an error for each part, one MiB took seconds.
  expect(cpuMilliseconds(() => decideOn(to, 'equals', 'x'))).toBeLessThan(800)
})

test.each([
  ['NFC', 'e\u0301', '\u00e9'],
  ['NFC', `a${'\u0316\u0301'.repeat(15)}`, `\u00e1${'\u0316'.repeat(15)}${'\u0301'.repeat(14)}`],
  ['NFKC', '\uff20\u2100', '@a/c'],
  ['NFKC', '\uff76\uff9e', '\u30ac'],
] as const)('%s of %j', (form, text, expected) => {
  expect(normalized(text, form)).toBe(expected)
  expect(normalized(text, form)).toBe(text.normalize(form))
})

describe('a million marks on one letter are put in order in linear time', () => {
  const kinds: readonly (readonly [string, string])[] = [
    ['marks', '\u0301\u0316'],
    ['half-width signs between marks', '\uff9e\u0301'],
    ['marks beyond 16 bits', '\u{1e000}\u0316'],
  ]
  const readers: readonly (readonly [string, (text: string) => unknown])[] = [
    ['a path', plainPath],
    ['an address', otherReadings],
    ['a tool’s name', isPlainName],
  ]
  test.each(
    kinds.flatMap(([kind, marks]) => readers.map(([reader, read]) => ({ kind, marks, reader, read }))),
  )('$kind in $reader', ({ marks, read }) => {
    const text = `/a${marks.repeat(500_000)}`
    // About 100 ms here; with quadratic time it would take minutes.
    expect(cpuMilliseconds(() => read(text))).toBeLessThan(5_000)
  })
})

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

  const anyText = (maxLength: number) =>
    fc
      .array(fc.constantFrom('me', 'm', 'e', ',', ';', ' ', '"', '\\', 'x@y.z'), { maxLength })
      .map((parts) => parts.join(''))

  test('every completion of a text with known pieces has these pieces in their order', () => {
    const text = anyText(5)
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
    fc.assert(
      fc.property(anyText(8), anyText(8), (prefix, rest) => {
        const { prefix: known } = filled(new Hole(prefix)) as Hole
        expect(String(filled(prefix + rest)).startsWith(known ?? '!')).toBe(true)
      }),
      { numRuns: 5_000 },
    )
  })
})
