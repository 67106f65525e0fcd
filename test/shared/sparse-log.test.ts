import { expect, test } from '@jest/globals'
import { pino } from 'pino'
import { createSparseLog } from '../../src/shared/sparse-log.ts'

function started() {
  const lines: Record<string, unknown>[] = []
  const log = pino({ base: null, timestamp: false }, { write: (line) => void lines.push(JSON.parse(line)) })
  let now = 0
  const sparse = createSparseLog(log, () => now)
  return { lines, sparse, pass: (milliseconds: number) => (now += milliseconds) }
}

test('the first line of a kind is written at once, then one in ten seconds that tells how many are missing', () => {
  const { lines, sparse, pass } = started()
  for (let n = 0; n < 5; n += 1) sparse.warn('outage', { n }, 'away')
  pass(9_999)
  sparse.warn('outage', { n: 5 }, 'away')
  pass(1)
  sparse.warn('outage', { n: 6 }, 'away')
  expect(lines).toEqual([
    { level: 40, n: 0, msg: 'away' },
    { level: 40, n: 6, left_out: 5, msg: 'away' },
  ])
})

test('kinds do not share their seconds', () => {
  const { lines, sparse } = started()
  for (const kind of ['a', 'b', 'a']) sparse.info(kind, { kind }, 'refused')
  expect(lines.map(({ kind }) => kind)).toEqual(['a', 'b'])
})

test('a thousand kinds are remembered, not more', () => {
  const { lines, sparse } = started()
  for (let n = 0; n < 1_001; n += 1) sparse.info(`kind ${n}`, {}, 'refused')
  sparse.info('kind 0', {}, 'refused')
  expect(lines.length).toBe(1_002)
})
