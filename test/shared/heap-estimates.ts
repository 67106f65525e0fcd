import { heapBytes } from '../../src/shared/byte-cache.ts'

/*
 * Started with --expose-gc by values.test.ts: compares the heap used by 400 copies of each value with the estimate.
 * This program does not run inside Jest: a full collection would there go through the modules of many test files.
 */

const count = 400
const values: Readonly<Record<string, () => unknown>> = {
  'brackets alone': () => JSON.parse(`[${'{},'.repeat(99)}{}]`),
  names: () => JSON.parse(`{${Array.from({ length: 50 }, (_, i) => `"n${i}":[${i}]`).join()}}`),
  'a text': () => JSON.parse(`"${'x'.repeat(5_000)}"`),
  'a text of wide characters': () => JSON.parse(`"${'字'.repeat(5_000)}"`),
  numbers: () => JSON.parse(`[${Array.from({ length: 500 }, (_, i) => i + 0.5).join()}]`),
}

async function used(): Promise<number> {
  for (let tries = 0; tries < 3; tries += 1) {
    await new Promise((resolve) => setImmediate(resolve))
    globalThis.gc?.()
  }
  return process.memoryUsage().heapUsed
}

/** A separate function, so that nothing of the previous value is still referenced. */
async function heldBytes(make: () => unknown): Promise<number> {
  const before = await used()
  const held = Array.from({ length: count }, make)
  const after = await used()
  // Refers to the values again, so that they live until here.
  return held.length === count ? after - before : Number.NaN
}

const measured: Record<string, { real: number; estimate: number }> = {}
for (const [what, make] of Object.entries(values))
  measured[what] = { real: await heldBytes(make), estimate: count * heapBytes(make()) }
process.stdout.write(JSON.stringify(measured))
