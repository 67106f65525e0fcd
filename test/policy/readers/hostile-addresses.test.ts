import { hostileSuite, type Pair } from '../hostile.ts'

const seen: readonly Pair[] = [
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

const unread: readonly Pair[] = [
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

hostileSuite('mail addresses', seen, unread)
