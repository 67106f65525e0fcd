import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide } from '../../../src/policy/decide.ts'
import { percentDecoded } from '../../../src/policy/readers/percent.ts'
import { cpuMilliseconds } from '../cpu-time.ts'

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
  const rule = { id: 'r', name: 'r', verdict: 'deny', status: 'active', params: [{ param: 'to', operator: 'equals', value: 'x' }] } as const // prettier-ignore
  const policy = compilePolicy({ rules: [{ ...rule, params: [...rule.params] }], labelRules: [], approvalsEnabled: true }) // prettier-ignore
  const link = (n: number) => `docs.google.com/${part.repeat(2_040 / part.length)}${n}`.slice(0, 4_096)
  const to = Array.from({ length: 512 }, (_, n) => link(n))
  const call = { source: 'agents', tool: 'Send', sideEffect: 'egress', params: { to }, labels: [] } as const
  // With an error for each part, one MiB took seconds.
  expect(cpuMilliseconds(() => decide(policy, call))).toBeLessThan(800)
})
