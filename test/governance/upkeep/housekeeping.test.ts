import { expect, test } from '@jest/globals'
import { pino } from 'pino'
import { every } from '../../../src/governance/upkeep/housekeeping.ts'
import { createMetrics } from '../../../src/shared/metrics.ts'
import { createSparseLog } from '../../../src/shared/sparse-log.ts'

test('a periodic task that fails goes on; its first failure and its recovery are logged, and each round is counted', async () => {
  const lines: { msg: string; task: string }[] = []
  const log = pino({ base: null }, { write: (line) => void lines.push(JSON.parse(line)) })
  const metrics = createMetrics('worker')
  let rounds = 0
  const recovered = Promise.withResolvers<void>()
  const task = every({ log, metrics, sparseLog: createSparseLog(log) }, 'heartbeat', 0, () => {
    rounds += 1
    if (rounds === 5) recovered.resolve()
    return rounds < 3 ? Promise.reject(new Error('away')) : Promise.resolve()
  })
  await recovered.promise
  await task.stop()
  expect(lines.map(({ msg, task: name }) => `${name}: ${msg}`)).toEqual([
    'heartbeat: a periodic task failed',
    'heartbeat: a periodic task works again',
  ])
  const text = await metrics.text()
  expect(text).toContain(
    'countersign_task_rounds_total{task="heartbeat",result="failure",process="worker"} 2',
  )
  expect(text).toMatch(/task_last_success_timestamp_seconds\{task="heartbeat",process="worker"\} \d{10}/)
})
