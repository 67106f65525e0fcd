import { spawn } from 'node:child_process'
import { expect, test } from '@jest/globals'
import { Patience } from '../../src/stack/patience.ts'
import { processorTime } from '../../src/stack/process-identity.ts'
import { until } from './until.ts'

const minute = 60_000

/** Returns after how many minutes a start is given up, if `step` says what the processes do in each second. */
function givenUpAfter(step: (second: number) => { worked?: number; said?: number }): number {
  let [now, worked, said] = [0, 0, 0]
  const patience = new Patience('/nowhere', { clock: () => now, worked: () => worked, said: () => said })
  for (let second = 1; !patience.isOver(); second += 1) {
    const did = step(second)
    now += 1_000
    worked += did.worked ?? 0
    said += did.said ?? 0
  }
  return Math.floor(now / minute)
}

test.each([
  ['that does nothing', 1, () => ({})],
  ['that only wakes up at times', 1, () => ({ worked: 10 })],
  ['that gets a twentieth of a processor for five minutes', 5, (s: number) => ({ worked: s < 300 ? 50 : 0 })],
  [
    'that says something every 50 seconds, four times',
    4,
    (s: number) => ({ said: s % 50 === 0 && s <= 200 ? 1 : 0 }),
  ],
  ['whose process is started anew after 50 seconds', 1, (s: number) => ({ worked: s === 50 ? -10 : 0 })],
  ['that goes round in circles', 20, () => ({ worked: 1_000, said: 1 })],
])('a start %s is given up after %d minutes', (_what, minutes, step) => {
  expect(givenUpAfter(step)).toBe(minutes)
})

test('the processor time of a process contains that of its descendants', async () => {
  const busy = 'const end = Date.now() + 600_000; while (Date.now() < end);'
  const child = spawn('sh', ['-c', '"$0" -e "$1"; exit', process.execPath, busy], { detached: true })
  const pid = child.pid as number
  try {
    await until('the grandchild works', () => processorTime([pid]) > 300)
    expect(processorTime([process.pid])).toBeGreaterThan(processorTime([pid]))
    expect(processorTime([])).toBe(0)
  } finally {
    process.kill(-pid, 'SIGKILL')
  }
})
