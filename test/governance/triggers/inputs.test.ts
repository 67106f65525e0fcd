import { expect, test } from '@jest/globals'
import { inputsFor } from '../../../src/governance/triggers/inputs.ts'
import { cpuMilliseconds } from '../../policy/cpu-time.ts'

test('all inputs of one firing share one budget', () => {
  const heavy = '{{ size(body.l.filter(a, any(body.l, b, b == a + 5000))) }}'
  const inputs = Object.fromEntries(Array.from({ length: 300 }, (_, place) => [`i${place}`, heavy]))
  const body = { l: Array.from({ length: 1_000 }, (_, place) => place) }
  const read = () =>
    expect(() => inputsFor('webhook', inputs, { body, headers: {}, query: {} })).toThrow(/too many/)
  expect(Math.min(cpuMilliseconds(read), cpuMilliseconds(read))).toBeLessThan(2_000)
})
