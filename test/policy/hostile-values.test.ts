import { describe, expect, test } from '@jest/globals'
import type { Json } from '../../src/policy/types.ts'
import { expectOutside, matches } from './hostile.ts'

/*
 * Hostile values that only look like acme.com, each with an honest value of the same form. A rule against outsiders
 * must stop the hostile value and let the honest one pass. A rule that allows insiders must do the reverse.
 */

const pairs: readonly (readonly [hostile: Json, honest: Json])[] = [
  // the domain at the wrong end
  ['b@acme.com.evil.net', 'b@mail.acme.com'],
  ['b@evilacme.com', 'b@evil.acme.com'],
  ['b@acme.com-evil.net', 'b@x-y.acme.com'],
  ['b@acme.co', 'b@acme.com'],
  ['b@acme.com.br', 'b@br.acme.com'],
  ['b@com', 'b@ACME.COM'],
  ['b@acme', 'b@acme.com.'],
  // paths, queries and fragments
  ['evil.net/?x=acme.com', 'acme.com/?x=evil.net'],
  ['https://evil.net/acme.com', 'https://acme.com/evil.net'],
  ['https://evil.net/?x=acme.com', 'https://acme.com/?x=evil.net'],
  ['https://evil.net#acme.com', 'https://acme.com#evil.net'],
  ['//evil.net/acme.com', '//acme.com/evil.net'],
  ['https://evil.net?@acme.com', 'https://acme.com?x=1'],
  ['https://evil.net:443/acme.com', 'https://acme.com:8443/x'],
  // user info
  ['https://acme.com@evil.net/', 'https://evil.net@acme.com/'],
  ['https://acme.com:443@evil.net/', 'https://ann:pw@acme.com/'],
  ['https://acme.com%2F@evil.net/', 'https://a%2Fb@acme.com/'],
  ['ftp://acme.com@evil.net/x', 'ftp://ann@acme.com/x'],
  // backslashes and slashes as browsers read them
  ['https://evil.net\\@acme.com/', 'https://ann@acme.com/'],
  ['https://acme.com\\@evil.net/', 'https://acme.com/x'],
  ['https:\\\\evil.net\\acme.com', 'https://acme.com/x\\y'],
  ['https:evil.net', 'https:acme.com'],
  ['https:///evil.net/acme.com', 'https:///acme.com/x'],
  ['https://acme.com\n.evil.net/', 'https://acme.com/\n'],
  ['https://acme.com\t.evil.net/', ' https://acme.com/ '],
  ['https://acme.com%00.evil.net/', 'https://acme.com/%00'],
  ['https://acme.com%2eevil.net/', 'https://mail%2eacme.com/'],
  // several at signs, names and quotes
  ['a@acme.com@evil.net', 'a@acme.com'],
  ['Acme <b@evil.net>', 'Acme <a@acme.com>'],
  ['"a@acme.com" <b@evil.net>', '"a@acme.com" <b@acme.com>'],
  ['a@acme.com <b@evil.net>', 'a@acme.com <b@acme.com>'],
  ['"b@evil.net x"@acme.com', '"b x"@acme.com'],
  ['b@evil.net (a@acme.com)', 'Ann (sales) <a@acme.com>'],
  ['a@acme.com (b@evil.net)', '"Ann (sales)" <a@acme.com>'],
  ['a@acme.com(x).evil.net', 'a@x.acme.com'],
  ['"https://acme.com/" <b@evil.net>', '"https://acme.com/" <a@acme.com>'],
  ['=?utf-8?q?a=40acme.com?= <b@evil.net>', '=?utf-8?q?Ann?= <a@acme.com>'],
  ['b%evil.net@acme.com', 'b%25@acme.com'],
  ['evil.net!b@acme.com', 'hey!b@acme.com'],
  ['<@evil.net:a@acme.com>', '<a@acme.com>'],
  // lists
  ['a@acme.com, b@evil.net', 'a@acme.com, b@acme.com'],
  ['a@acme.com;b@evil.net', 'a@acme.com;b@acme.com'],
  ['a@acme.com\nb@evil.net', 'a@acme.com\nb@acme.com'],
  ['a@acme.com b@evil.net', 'a@acme.com b@acme.com'],
  ['a@acme.com\u2028b@evil.net', 'a@acme.com\r\nb@acme.com'],
  ['a@acme.com,,b@evil.net', 'a@acme.com,,'],
  ['"Doe, Ann" <a@acme.com>, b@evil.net', '"Doe, Ann" <a@acme.com>'],
  ['Team: a@acme.com, b@evil.net;', 'Team: a@acme.com, b@acme.com;'],
  ['a@acme.com，b@evil.net', 'a@acme.com , b@acme.com'],
  ['mailto:a@acme.com?bcc=b%40evil.net', 'mailto:a@acme.com?bcc=b%40acme.com'],
  [
    ['a@acme.com', 'b@evil.net'],
    ['a@acme.com', 'b@acme.com'],
  ],
  [
    ['a@acme.com', ['b@evil.net']],
    ['a@acme.com', ['b@acme.com']],
  ],
  // objects
  [
    { email: 'b@evil.net', name: 'a@acme.com' },
    { email: 'b@acme.com', name: 'Ann' },
  ],
  [
    { email: 'a@acme.com', name: 'b@evil.net' },
    { email: 'a@acme.com', name: 'a@acme.com' },
  ],
  [[{ address: 'b@evil.net' }], [{ address: 'a@acme.com' }]],
  [
    { emailAddress: { address: 'b@evil.net', name: 'acme.com' } },
    { emailAddress: { address: 'a@acme.com', name: 'x' } },
  ],
  [{ people: [{ email: 'a@acme.com' }, { email: 'b@evil.net' }] }, { people: [{ email: 'a@acme.com' }] }],
  // other alphabets and spellings of the dot
  ['a@аcme.com', 'a@acme.com'],
  ['a@acme.сom', 'a@ａｃｍｅ.com'],
  ['a@xn--cme-5cd.com', 'a@ACME.com'],
  ['https://аcme.com/', 'https://ACME。com/'],
  ['a@acme.com。evil.net', 'a@mail。acme。com'],
  ['a@acme.com．evil.net', 'a@acme．com'],
  ['a@acme.com\u200b.evil.net', 'a@ac\u200bme.com'],
  ['a@acme.com\u00ad.evil.net', 'a@ac\u00adme.com'],
  ['a@acme.com\u202emoc.live', 'a@acme.com '],
  ['b＠evil.net', 'b@acme.com'],
  // no domain at all
  ['me', 'a@acme.com'],
  ['https://localhost/acme.com', 'https://acme.com/localhost'],
  ['http://2130706433/acme.com', 'http://acme.com/2130706433'],
  ['https://[::1]/acme.com', 'https://acme.com/[::1]'],
  ['a@[10.0.0.1]', 'a@acme.com'],
  [7, 'a@acme.com'],
]

describe('hostile values and their honest counterparts', () => {
  test.each(pairs)('%j is outside, %j is not', expectOutside)

  const seen = pairs.flatMap(([hostile]) => (JSON.stringify(hostile).includes('b@evil.net') ? [hostile] : []))
  test.each(seen.map((value) => [value]))('%j does not hide evil.net from a rule that names it', (value) => {
    expect(matches('deny', 'domain_in', value, 'evil.net')).toBe(true)
  })
})
