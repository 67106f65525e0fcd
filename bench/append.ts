import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Verifier } from '../src/governance/audit/verify.ts'
import type { AppendJob } from './support/append-process.ts'
import type { Side } from './support/append-sides.ts'
import {
  createOrganization,
  delaySyncs,
  withClient,
  withPostgres,
  type BenchPostgres,
} from './support/postgres.ts'
import { benchKey } from './support/macs.ts'
import { compare, count, machine, median, say } from './support/report.ts'

const callers = 64
/**
 * Number of connections of each process. Both sides have the product's default. The combiner uses only one connection
 * at a time.
 */
const poolSize: Readonly<Record<Side, number>> = { combiner: 20, 'per call': 20 }
const rounds = 3
const milliseconds = 2_500
const organizationId = 'org_01J00000000000000000000000'
const sides: readonly Side[] = ['combiner', 'per call']

/**
 * Measures how many entries per second the service appends to the chain of one organization. Compares this number with
 * the simple solution, which makes one transaction for each call.
 */
export async function run(): Promise<void> {
  say(`append: one organization, ${callers} callers a process, fsync on; ${machine()}`)
  say(
    `  pool of each process: combiner ${poolSize.combiner}, per call ${poolSize['per call']}; ${rounds} rounds of ${milliseconds} ms`,
  )
  await withPostgres(async (postgres) => {
    await withClient(postgres.adminUrl, (client) => createOrganization(client, organizationId))
    let appended = 0
    for (const delay of [0, 2]) {
      const commit = await delaySyncs(postgres.adminUrl, delay)
      say(`  +${delay} ms a sync: a lone commit takes ${commit.toFixed(2)} ms`)
      for (const processes of [1, 2]) appended += await measure(postgres, delay, processes)
    }
    const { valid, entries } = await new Verifier().verify({
      databaseUrl: postgres.appUrl,
      appRole: 'countersign_app',
      organizationId,
      encryptionKeys: [benchKey],
    })
    if (!valid || entries < appended) throw new Error(`${appended} appends were answered, ${entries} verify`)
    say(`  all ${count(entries)} entries verify, gapless`)
  })
}

async function measure(postgres: BenchPostgres, delay: number, processes: number): Promise<number> {
  const children = Array.from({ length: processes }, () =>
    fork(new URL('./support/append-process.ts', import.meta.url)),
  )
  const rates: Record<Side, number[]> = { combiner: [], 'per call': [] }
  let appended = 0
  try {
    for (let round = 0; round < rounds; round += 1) {
      for (const side of sides) {
        const job = {
          url: postgres.appUrl,
          organizationId,
          side,
          callers,
          poolSize: poolSize[side],
          milliseconds,
        }
        const committed = await Promise.all(children.map((child) => ask(child, job)))
        const sum = committed.reduce((a, b) => a + b, 0)
        rates[side].push(sum / (milliseconds / 1000))
        appended += sum
      }
    }
  } finally {
    for (const child of children) child.kill()
  }
  const what = `  +${delay} ms a sync, ${processes} process${processes === 1 ? '' : 'es'}`
  compare(what, median(rates.combiner), median(rates['per call']), 'appends/s', delay === 0 ? 10 : 5)
  return appended
}

async function ask(child: ChildProcess, job: AppendJob): Promise<number> {
  const answer = Promise.race([
    once(child, 'message').then(([committed]) => committed as number),
    once(child, 'exit').then(([code]) => {
      throw new Error(`a benchmark process ended with code ${code}`)
    }),
  ])
  child.send(job)
  return answer
}
