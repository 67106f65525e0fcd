import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Api } from '../test/support/client.ts'
import { stackHome, startStack } from '../test/support/start-stack.ts'
import { probed } from './support/held-memory.ts'
import { machine, say } from './support/report.ts'
import { startLoad, type Load } from './support/soak-load.ts'
import { heldSample, sample } from './support/soak-sample.ts'
import { judge, type Sample } from './support/soak-verdict.ts'

/**
 * `npm run bench soak [minutes]`: runs a mixed load on a whole stack, by default for 20 minutes. Some quantities must
 * not grow from the second to the last quarter of the time (support/soak-verdict.ts). Fails if one of these quantities
 * grows, if a request fails, or if a chain does not verify. Data of runs is kept for five minutes, not for 90 days.
 */
export async function run(args: readonly string[]): Promise<void> {
  const minutes = Number(args[0] ?? 20)
  if (!(minutes > 0)) throw new Error(`\`${args[0]}\` is not a number of minutes`)
  say(`soak: ${minutes} minutes of mixed load; ${machine()}`)
  const home = stackHome()
  const probes = join(home.dataDir, 'probes')
  mkdirSync(probes)
  const stack = await startStack({
    dataDir: home.dataDir,
    env: { LOG_LEVEL: 'error', RETENTION_DAYS: String(5 / 1_440), ...probed(probes) },
  })
  try {
    const load = await startLoad(home.dataDir)
    const samples = await watch(home.dataDir, probes, minutes, load)
    await load.stop()
    say(`  ${JSON.stringify(load.counts)}`)
    report(samples, load)
  } finally {
    await stack.stop()
    await home.remove()
  }
}

/**
 * The times at which heaps are collected and measured, as fractions of the whole time. Each of the two compared
 * quarters has only three such times. So resident memory stays almost the same as without these collections.
 */
const collections = [0.27, 0.38, 0.49, 0.77, 0.88, 0.98]

async function watch(dataDir: string, probes: string, minutes: number, load: Load): Promise<Sample[]> {
  const url = new Api(dataDir, 'owner').bootstrap.database_admin_url
  const samples: Sample[] = []
  const total = minutes * 60_000
  const every = Math.max(1_000, total / 80)
  const start = Date.now()
  const due = [...collections]
  for (let elapsed = 0; elapsed < total; elapsed = Date.now() - start) {
    const at = elapsed / total
    samples.push({ at, values: await sample(dataDir, url) })
    if ((due[0] ?? 1) <= at) {
      due.shift()
      const values = await heldSample(dataDir, probes)
      samples.push({ at, values })
      say(`  after ${load.counts['runs']} runs: ${JSON.stringify(rounded(values))}`)
    }
    await delay(every)
  }
  return samples
}

function rounded(values: Sample['values']): Sample['values'] {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value.toFixed(1))]))
}

function report(samples: readonly Sample[], load: Load): void {
  const verdicts = judge(samples)
  for (const { name, early, late, most, holds } of verdicts) {
    const goal = most === null ? '' : ` (at most ${most.toFixed(1)}: ${holds ? 'holds' : 'MISSED'})`
    say(`  ${name}: ${early.toFixed(1)} in the second quarter, ${late.toFixed(1)} in the last${goal}`)
  }
  const failures = load.counts['failures'] ?? 0
  const verified = load.counts['verified'] ?? 0
  if (failures > 0 || verified === 0) say(`  MISSED: ${failures} failures, ${verified} verifications`)
  if (failures > 0 || verified === 0 || verdicts.some(({ holds }) => !holds)) process.exitCode = 1
}
