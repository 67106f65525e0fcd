import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import addressparser from 'nodemailer/lib/addressparser'
import { Budget } from '../../../src/policy/budget.ts'
import { normalHost } from '../../../src/policy/readers/hosts.ts'
import { hostsIn } from '../../../src/policy/readers/recipients.ts'

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
      const hosts = hostsIn(value, new Budget())
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
