import { describe, expect, test } from '@jest/globals'
import { isListOfPointers, noteOn, piecesOf, visible } from '../../src/policy/readers/look-alikes.ts'
import type { Json, Verdict } from '../../src/policy/types.ts'
import { ask } from './ask.ts'

/** A hostile value that only looks like acme.com, an honest value of the same form, and why somebody may be deceived. */
type Pair = readonly [hostile: Json, honest: Json, why: string]

/** Whether a rule of this verdict matches a call with this `to`. */
function matches(verdict: Verdict, operator: string, to: Json, domain = 'acme.com'): boolean {
  const rule = { verdict, params: [{ param: 'to', operator, value: [domain] }] }
  return ask([rule], { params: { to } }).ruleId !== null
}

/**
 * A rule against outsiders stops the hostile value and lets the honest one pass; a rule that allows insiders does the
 * reverse.
 */
function expectOutside(hostile: Json, honest: Json): void {
  for (const verdict of ['deny', 'require_approval'] as const) {
    expect(matches(verdict, 'domain_not_in', hostile)).toBe(true)
    expect(matches(verdict, 'domain_not_in', honest)).toBe(false)
  }
  expect(matches('allow', 'domain_in', hostile)).toBe(false)
  expect(matches('allow', 'domain_in', honest)).toBe(true)
}

/**
 * @param seen rows whose hostile value leads some reader to evil.net, so a rule that names evil.net must match
 * @param unread rows whose host no reader can determine, so they are only outside every domain
 */
function hostileSuite(name: string, seen: readonly Pair[], unread: readonly Pair[]): void {
  describe(name, () => {
    test.each([...seen, ...unread])('%j is outside, %j is not: %s', expectOutside)
    test.each(seen)('%j does not hide evil.net from a rule that names it', (hostile) => {
      expect(matches('deny', 'domain_in', hostile, 'evil.net')).toBe(true)
    })
  })
}

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

const seenAddresses: readonly Pair[] = [
  // comments (RFC 5322)
  ['b@(acme.com)evil.net', 'a@acme.com', 'a comment may stand before the host'],
  ['b@evil(acme.com).net', '"(evil.net)" <a@acme.com>', 'and inside of it'],
  ['a(@acme.com)@evil.net', 'a(x)@acme.com', 'and in the local part'],
  ['(a@acme.com)b@evil.net', '(x) a@acme.com', 'and before all'],
  ['b@evil.net(a@acme.com (x))', '(x (y)) a@acme.com', 'and has comments itself'],
  // quotes
  ['"b@evil.net"@acme.com', '"b"@acme.com', 'readers that forget the quotes'],
  ['"b@evil.net> ORCPT=a@acme.com"@acme.com', '"b ORCPT"@acme.com', 'a parameter smuggled to the server'],
  ['"b\\"@evil.net"@acme.com', '"b\\"x"@acme.com', 'an escaped quote'],
  ['"<b@evil.net>"@acme.com', '"<b>"@acme.com', 'brackets inside of quotes'],
  ['"b%evil.net"@acme.com', '"b%x"@acme.com', 'quotes that hide a request to send on'],
  // groups and routes
  ['undisclosed:b@evil.net;', 'undisclosed:a@acme.com;', 'a group'],
  ['x:a@acme.com,b@evil.net;,a@acme.com', 'x:a@acme.com;,a@acme.com', 'the end of a group hides nothing'],
  ['<@acme.com:b@evil.net>', '<@acme.com:b@acme.com>', 'a source route (RFC 821)'],
  ['<@acme.com,@evil.net:b@evil.net>', '<@acme.com,@acme.com:b@acme.com>', 'over two hosts'],
  ['@evil.net:a@acme.com', '@acme.com:a@acme.com', 'over a host that can read it'],
  ['b%evil.net%acme.com@acme.com', 'b%x@acme.com', 'sent on twice'],
  ['acme.com!evil.net!b@acme.com', 'x!b@acme.com', 'a bang path'],
  // encoded words (RFC 2047)
  ['=?utf-8?q?b=40evil.net=3e=20?=@acme.com', 'b=40evil@acme.com', 'decoded before the address is read'],
  ['=?utf-8?b?YkBldmlsLm5ldD4=?=@acme.com', 'YkBldmlsLm5ldD4=@acme.com', 'the same in base64'],
  ['=?utf-8?q?b=40evil.net=2C?= <a@acme.com>', '=?utf-8?q?Ann=2C_B?= <a@acme.com>', 'as a name'],
  [
    '=?iso-8859-1?Q?b=40evil.net?= <a@acme.com>',
    '=?iso-8859-1?Q?Andr=E9?= <a@acme.com>',
    'in another charset',
  ],
  ['Ann <=?utf-8?q?b=40evil.net?=>, a@acme.com', 'Ann <a@acme.com>, a@acme.com', 'in brackets'],
  // several in one text
  ['a@acme.com\nBcc: b@evil.net', 'a@acme.com\nBcc: a@acme.com', 'a header of its own'],
  ['b@evil.net|a@acme.com', 'a@acme.com;a@acme.com', 'by a bar'],
  ['a@acme.com/b@evil.net', 'a@acme.com, a@acme.com', 'by a slash'],
  ['a@acme.com&b@evil.net', 'a@acme.com,a@acme.com', 'by an ampersand'],
  ['a@acme.com；b@evil.net', 'a@acme.com;', 'by a full-width semicolon'],
  ['a@acme.com\u037eb@evil.net', 'a@acme.com,', 'by a Greek question mark, which is a semicolon'],
  ['a@acme.com、b@evil.net', ' a@acme.com', 'by an ideographic comma'],
  ['a@acme.com\u0085b@evil.net', 'a@acme.com\n', 'by a line break of another kind'],
  ['<a@acme.com><b@evil.net>', '<a@acme.com><a@acme.com>', 'by nothing'],
  ['b＠evil.net, a@acme.com', 'a@acme.com, a@acme.com', 'a full-width `@`'],
  ['a@acme.com <evil.net>', 'a@acme.com <a@acme.com>', 'a bracket is the address, the rest its name'],
  // mailto
  ['mailto:a@acme.com,b@evil.net', 'mailto:a@acme.com,a@acme.com', 'several'],
  ['mailto:?to=b%40evil.net&cc=a@acme.com', 'mailto:?to=a%40acme.com&cc=a@acme.com', 'in the query'],
  ['mailto:a%40acme.com%2Cb%40evil.net', 'mailto:a%40acme.com%2Ca%40acme.com', 'encoded'],
  ['MAILTO:b@evil.net?subject=acme.com', 'MAILTO:a@acme.com?subject=evil.net', 'in capitals'],
]

const unreadAddresses: readonly Pair[] = [
  ['a@acme.com <me>', 'me <a@acme.com>', 'a bracket without an address'],
  ['=?utf-7?q?b+AEA-evil.net?=@acme.com', 'b+AEA-evil@acme.com', 'a charset that nobody decodes'],
  ['=?x?q?b?=foo@acme.com', '=?utf-8?q?b?= <a@acme.com>', 'nor this'],
  ['b@acme.com&evil.net', 'b@x.acme.com', 'some glue on what others cut off'],
  ['b@acme.com=evil.net', 'b@x.acme.com', 'the same'],
  ['b@acme.com!evil.net', 'b@x.acme.com', 'the same'],
  ["b@acme.com'evil.net", "'b@acme.com'", 'the same'],
  ['b@acme.com"evil.net"', '"b@acme.com"', 'the same'],
  ['b@acme.com\u0000.evil.net', 'b@acme.com', 'a zero, at which C ends a text'],
  ['b@acme.com\u00a0.evil.net', 'b@acme.com\u00a0', 'a space that does not break'],
  ['b@acme.com\n .evil.net', 'b@acme.com\n ', 'a folded line'],
  ['b@acme.com\ufeff.evil.net', 'b@acme.com\ufeff', 'a mark that is dropped'],
  ['b@[evil.net]', 'b@acme.com', 'a name in brackets for digits'],
  ['b@[127.0.0.1].acme.com', 'b@acme.com', 'digits under a domain'],
  ['b@acme..com', 'b@acme.com', 'an empty label'],
  ['b@-acme.com', 'b@x-acme.acme.com', 'another domain'],
  ['b@acme_com', 'b@acme.com', 'no dot at all'],
  ['b@*.com', 'b@acme.com', 'a wildcard is no host'],
]

hostileSuite('mail addresses', seenAddresses, unreadAddresses)

const seenLinks: readonly Pair[] = [
  // user info and ports
  ['http://acme.com&@evil.net#@acme.com/', 'http://acme.com/#@x', 'what follows the `#` is no host'],
  ['http://acme.com:80:@evil.net/', 'http://acme.com:80/', 'a port and user info look alike'],
  ['http://acme.com:80@evil.net:80@acme.com/', 'http://a:b@acme.com:80/', 'two `@`: readers take either'],
  ['http://acme.com:@evil.net/', 'http://acme.com:/', 'an empty port, or an empty password'],
  ['http://acme.com%23@evil.net', 'http://acme.com/%23', 'an encoded `#` stays in the user info'],
  ['http://acme.com%ff@evil.net/', 'http://acme.com/%ff', 'encoding that no text has'],
  ['//acme.com@evil.net', '//x@acme.com', 'the same without a scheme'],
  ['http://evil.net;@acme.com/', 'http://acme.com/;x', 'some readers end a host at the semicolon'],
  // slashes, backslashes, and characters that browsers drop
  ['http:/evil.net/acme.com', 'http:/acme.com/', 'browsers need one slash, or none'],
  ['http:////evil.net/acme.com', 'http:////acme.com/', 'or four'],
  ['/\\evil.net/acme.com', '/\\acme.com/x', 'a path to one, another host to browsers'],
  ['\\\\evil.net\\acme.com', '\\\\acme.com/share', 'a share in the network'],
  ['h\nttps://evil.net/', 'https://acme.com/\n', 'browsers drop the line break in the scheme'],
  ['ht\ttp://evil.net/a@acme.com', 'http://acme.com/\ta', 'and the tab: no address at acme.com'],
  ['https:\n//evil.net/', 'https://acme.com/\r\n', 'and one before the slashes'],
  ['/\t/evil.net/', '//acme.com/', 'and a tab between them'],
  ['\u0001https://evil.net', ' https://acme.com', 'and control characters before it all'],
  // other schemes
  ['blob:https://evil.net/acme.com', 'https://acme.com/blob:x', 'a link inside a link'],
  ['view-source:https://evil.net/acme.com', 'https://acme.com', 'the same, to read its source'],
  ['jar:http://evil.net/x!/acme.com', 'http://acme.com/x!/y', 'the same, into an archive'],
  ['file://evil.net/acme.com', 'ftp://acme.com/x', 'a file of another machine'],
  ['ssh://git@evil.net/acme.com', 'ssh://git@acme.com/evil.net', 'a repository is named by its path'],
  ['git@evil.net:acme.com/x.git', 'git@acme.com:evil.net/x.git', 'the same as scp writes it'],
  ['gopher://evil.net:25/_acme.com', 'gopher://acme.com/1', 'any scheme with slashes has a host'],
  ['URL:https://evil.net', '<https://acme.com>', 'a word before the link'],
  // more than one link in a text
  ['https://acme.com https://evil.net', 'https://acme.com/, https://acme.com/', 'two links by a space'],
  ['see https://evil.net/', 'https://acme.com/see', 'a link in a sentence'],
  ['[acme.com](https://evil.net)', 'https://acme.com/[x]', 'a link as Markdown writes it'],
  ['https://acme.com/ | https://evil.net', 'https://acme.com/|x', 'a column of links'],
  // other alphabets
  ['http://acme.com＠evil.net/', 'http://acme.com/＠', 'a full-width `@` is one to some'],
  ['http://acme.com﹫evil.net/', 'http://acme.com/﹫', 'a small `@` too'],
  ['http://evil.net／.acme.com/', 'http://acme.com/／', 'a full-width slash ends the host'],
  ['http://evil.net＃.acme.com/', 'http://acme.com/＃', 'so does a number sign'],
  ['http://evil.net？.acme.com/', 'http://acme.com/？', 'and a question mark'],
  ['http://acme.com․evil.net/', 'http://acme.com/․', 'a one-dot leader is a full stop'],
  ['http://ⓔⓥⓘⓛ.net/acme.com', 'http://ⓐⓒⓜⓔ.com/', 'letters in circles are letters'],
  ['http://acme.com%E3%80%82evil.net/', 'http://acme%E3%80%82com/', 'an encoded ideographic full stop'],
  ['http://acme.com｡evil.net/', 'http://acme｡com/', 'a half-width one'],
]

const unreadLinks: readonly Pair[] = [
  ['http://evil.net\t@acme.com/', 'http://acme.com/\t', 'readers that end a host at white space'],
  ['https://evil.net\u0001@acme.com', 'https://acme.com/\u0001', 'or at a control character'],
  ['http://foo@127.0.0.1 @acme.com/', 'http://foo@acme.com/', 'or at a space'],
  ['http://acme.com%09.evil.net', 'http://acme.com/%09', 'no host has a tab in it'],
  ['http://evil.net%2f.acme.com', 'http://evil.acme.com/%2f', 'or a slash'],
  ['http://evil.net%5c.acme.com', 'http://evil.acme.com/%5c', 'or a backslash'],
  ['http://evil.net%00.acme.com', 'http://evil.acme.com/%00', 'or a zero, at which C ends a text'],
  ['http://evil.net%0d%0a.acme.com', 'http://evil.acme.com/%0d%0a', 'or a line break'],
  ['http://evil.net℀.acme.com/', 'http://acme.com/℀', 'a character that is `a/c` to some readers'],
  ['http://acme.com:evil.net/', 'http://acme.com:80/', 'no port is called so'],
  ['http://acme.com:80.evil.net/', 'http://acme.com:80/.evil.net', 'nor so'],
  ['http://acme.com[evil.net]/', 'http://acme.com/[evil.net]', 'brackets belong around an address in digits'],
  ['http://[acme.com]/', 'http://acme.com/', 'and a name does not belong into them'],
  ['http://acme.com evil.net/', 'http://acme.com/ evil.net', 'a host with a space'],
  ['javascript://acme.com/%0aalert(1)', 'https://acme.com/%0a', 'a comment, then code: no host'],
  ['javascript:alert(1)//@acme.com', 'https://acme.com/', 'code, and no address'],
  ['java\tscript:alert(1)//@acme.com', 'https://acme.com/java', 'the same with a tab that browsers drop'],
  ['data://acme.com/;base64,xxxx', 'https://acme.com/data', 'content, not a host'],
  ['data:text/html,<a href=//acme.com>', 'https://acme.com/,x', 'the same'],
  ['vbscript://acme.com/x', 'https://acme.com/x', 'code'],
  ['s3://acme.com/x', 'https://acme.com/s3', 'a bucket that anybody can have'],
  ['file://acme.com/etc/passwd', 'https://acme.com/etc/passwd', 'to most readers a file of this machine'],
  ['intent://acme.com/#Intent;S.browser_fallback_url=x;end', 'https://acme.com/#Intent', 'an app decides'],
  ['http://0x7f.1/acme.com', 'http://acme.com/0x7f.1', 'an address in hexadecimal digits'],
  ['http://017700000001/acme.com', 'http://acme.com/017700000001', 'in octal ones'],
  ['http://127.1/?acme.com', 'http://acme.com/?127.1', 'with parts left out'],
  ['http://0/acme.com', 'http://acme.com/0', 'with all of them left out'],
  ['http://①②⑦.⓪.⓪.①/', 'http://acme.com/①', 'in circles'],
  ['http://[::ffff:127.0.0.1]/acme.com', 'http://acme.com/[::ffff:127.0.0.1]', 'in the newer form'],
  ['http://acme.com.127.0.0.1.nip.io/', 'http://nip.io.acme.com/', 'a name that stands for any address'],
  ['http://acmé.com', 'http://acme.com/é', 'an accent'],
  ['http://acme\u0301.com', 'http://acme.com/\u0301', 'the same as a character of its own'],
  ['http://ɑcme.com', 'http://acme.com/ɑ', 'a Latin alpha'],
  ['http://acrne.com', 'http://acme.com/rn', 'two letters for one'],
  ['http://acme\u0701com/', 'http://acme.com/\u0701', 'a Syriac full stop'],
  ['http://acme·com/', 'http://acme.com/·', 'a middle dot'],
  ['http://xn--acme-.com/', 'http://acme.com/xn--', 'punycode of nothing'],
]

hostileSuite('links', seenLinks, unreadLinks)

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
    ['a whole first part', '\u0438\u0432\u0430\u043d@acme.com', '\u0438\u0432\u0430\u043d is not ASCII'],
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
