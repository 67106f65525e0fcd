import { afterAll, expect, test } from '@jest/globals'
import { mostValues } from '../../src/api/json-body.ts'
import type { JsonObject } from '../../src/policy/types.ts'
import { startMeasured, type MeasuredProgram } from '../api/bodies/measured-program.ts'
import { worstJson } from '../api/bodies/worst-json.ts'
import { useTestStack, type Stack } from './worker-fixture.ts'

/*
 * The processor time that a run costs a worker if the run's input is as expensive as a body may be. A run with a small
 * input is the base. The large input may add at most 50 ms, plus 50 ms for each MiB and 5 µs for each value. A call
 * reads, checks, hashes, seals and stores its parameters, and each of these acts visits every value. The minimum of
 * several tries counts. The test allows four times as much, since machines differ.
 */
const mostTries = 4
const megabyte = 1024 * 1024
/**
 * A slow or busy machine takes several times the processor time for the same work. Work that grows faster than its
 * input takes seconds here, so this bound finds such work on any machine.
 */
const slowness = 4
const boundOf = (text: string): number => slowness * (50 + (50 * text.length) / megabyte + mostValues / 200)

let stack: Stack
let worker: MeasuredProgram
useTestStack(
  (started) => (stack = started),
  {},
  async ({ environment }) => {
    worker = await startMeasured('worker', { APP_ENV: 'test', LOG_LEVEL: 'silent', ...environment })
  },
)
afterAll(() => worker.end())

async function costOf(x: JsonObject[string]): Promise<{ spent: number; status: string }> {
  const type = Array.isArray(x) ? 'array' : typeof x
  const before = await worker.cpu('clean')
  const runId = await stack.run({ inputs: { x: { type } }, steps: [step] }, { x })
  const { run: status = '' } = await stack.ended(runId)
  return { spent: (await worker.cpu()) - before, status }
}

async function leastCost(x: JsonObject[string], bound: number) {
  let least = await costOf(x)
  for (let tries = 1; tries < mostTries && least.spent > bound; tries += 1) {
    const again = await costOf(x)
    if (again.spent < least.spent) least = again
  }
  return least
}

const step = { id: 's', tool: 'memory_set', params: { key: 'k', value: '{{input.x}}' } }
/** The size of each shape in MiB: the most that a memory value may have, or the most that a body may have. */
const shapes: Readonly<Record<string, number>> = {
  'many short keys': 0.9,
  'many objects with keys of their own': 0.9,
  'many deep objects': 0.9,
  'many texts of templates': 7.9,
  'one long text of control characters': 7.9,
}
const textOf = (name: string, size: number): string =>
  worstJson(size * megabyte, mostValues).find((each) => each.name === name)?.text ?? 'null'

test('an input that a call passes on costs no more than its bytes and values may', async () => {
  const bases = [await costOf('a'), await costOf('a')]
  const base = Math.min(...bases.map(({ spent }) => spent))
  const found: string[] = []
  for (const [name, size] of Object.entries(shapes)) {
    const text = textOf(name, size)
    const bound = boundOf(text)
    const { spent, status } = await leastCost(JSON.parse(text) as JsonObject[string], base + bound)
    if (spent > base + bound) found.push(`${name}: ${spent - base} ms, not ${bound} (${status})`)
  }
  expect(found).toEqual([])
})
