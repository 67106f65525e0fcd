import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { isOwnedBy, isWithin, normalHost, ruleDomain } from '../../../src/policy/readers/hosts.ts'
import { Budget, BudgetExceeded } from '../../../src/policy/budget.ts'
import { hostsIn as read } from '../../../src/policy/readers/recipients.ts'
import { cpuMilliseconds } from '../cpu-time.ts'

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
    const pieces = [
      'acme.com',
      '//acme.com/',
      'https://',
      'mailto:',
      '//',
      '@',
      '"',
      '<',
      '>',
      ',',
      ' ',
      '\\',
      '%',
    ]
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

  test.each(['com', 'co.uk', 'github.io', 'CO.UK.', '公司.cn'])('%s is a bare suffix', (text) => {
    expect(ruleDomain(text)).toEqual({ issue: expect.stringContaining('public suffix') })
  })

  test.each(['localhost', 'intranet', 'SERVER1.'])('%s has no dot, so that no rule can name it', (text) => {
    expect(ruleDomain(text)).toEqual({ issue: expect.stringContaining('is outside every domain') })
  })

  test.each(['a@acme.com', 'https://acme.com', 'acme.com/x', '*.acme.com', 'ac me.com', ''])(
    '%j is not a domain for a rule',
    (text) => {
      expect(ruleDomain(text)).toEqual({ issue: expect.stringContaining('not a domain') })
    },
  )

  test('a rule’s domain is stored in normal form', () => {
    expect(ruleDomain(' Bücher.DE. ')).toEqual({ domain: 'xn--bcher-kva.de' })
  })

  test('only a host has a normal form', () => {
    for (const text of [
      'a/b.com',
      'a@b.com',
      'b.com:80',
      'a b.com',
      '.com',
      'a..com',
      `${'a'.repeat(2000)}.com`,
      `${'a.'.repeat(126)}com`,
    ]) {
      expect(normalHost(text)).toBeNull()
    }
  })
})
