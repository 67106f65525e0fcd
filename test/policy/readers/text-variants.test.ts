import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide } from '../../../src/policy/decide.ts'
import { hidesAddress, otherReadings } from '../../../src/policy/readers/text-variants.ts'
import { cpuMilliseconds } from '../cpu-time.ts'

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

const policy = compilePolicy({
  rules: [
    {
      id: 'r',
      name: 'r',
      verdict: 'deny',
      status: 'active',
      params: [{ param: 'to', operator: 'domain_in', value: ['acme.com'] }],
    },
  ],
  labelRules: [],
  approvalsEnabled: true,
})
const decideOn = (to: string) =>
  decide(policy, { source: 'agents', tool: 'Send', sideEffect: 'egress', params: { to }, labels: [] })

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
