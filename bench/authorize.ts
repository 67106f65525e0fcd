import { randomUUID } from 'node:crypto'
import { Verifier } from '../src/governance/audit/verify.ts'
import { closedLoop, openLoop, type Load, type Measured } from './support/authorize-load.ts'
import {
  encryptionKey,
  organizationId,
  prepareOrganization,
  rules,
  withServers,
  type Ports,
} from './support/authorize-organization.ts'
import { delaySyncs, recycleLog, withPostgres } from './support/postgres.ts'
import { compare, count, machine, median, say } from './support/report.ts'

const callers = 128
const rounds = 3
const round = { warmUp: 500, milliseconds: 4_000 }
/**
 * The fixed-rate load runs for this many milliseconds before its measurement begins. In this time, new processes
 * compile their code.
 */
const warmUp = 15_000
/** The percentages of held calls and of denied calls. All other calls are allowed. */
const mix = { held: 2, denied: 8 }

/**
 * Compares `authorize`, which saves each decision in the audit chain, with a plain insert of one row. Both authenticate
 * the caller in the same way. Then measures `authorize` at a fixed rate.
 */
export async function run(args: readonly string[] = []): Promise<void> {
  const seconds = Number(args[0] ?? 60)
  say(`authorize: ${callers} callers, ${count(rules)} rules, one organization, fsync on; ${machine()}`)
  say(
    `  a key each request, pools of 20; of 100 calls ${mix.denied} are denied and ${mix.held} held; ${rounds} rounds of ${round.milliseconds} ms`,
  )
  await withPostgres(async (postgres) => {
    const key = await prepareOrganization(postgres)
    await recycleLog(postgres.adminUrl, 60)
    for (const delay of [0, 2]) {
      const commit = await delaySyncs(postgres.adminUrl, delay)
      say(`  +${delay} ms a sync: a lone commit takes ${commit.toFixed(2)} ms`)
      await withServers(postgres, 1, ([server]) => sides(server as Ports, key))
    }
    await delaySyncs(postgres.adminUrl, 0)
    await withServers(postgres, 2, (servers) => steady(servers, key, seconds))
    const verified = await new Verifier().verify({
      databaseUrl: postgres.appUrl,
      appRole: 'countersign_app',
      organizationId,
      encryptionKeys: [Buffer.from(encryptionKey, 'base64')],
    })
    if (!verified.valid) throw new Error('the chain does not verify')
    say(`  all ${count(verified.entries)} entries verify, gapless`)
  })
}

async function sides({ ours, theirs }: Ports, key: string): Promise<void> {
  // Every round has its own agent sessions. A repeated call would get its earlier answer without a new decision.
  const load = (port: number): Load => {
    const session = randomUUID()
    return { ports: [port], key, body: (caller, n) => question(`${session}-${caller}`, caller, n) }
  }
  const [mine, other]: [Measured[], Measured[]] = [[], []]
  for (const port of [ours, theirs]) await closedLoop(load(port), callers, { warmUp: 0, milliseconds: 1_000 })
  for (let n = 0; n < rounds; n += 1) {
    mine.push(await closedLoop(load(ours), callers, round))
    other.push(await closedLoop(load(theirs), callers, round))
  }
  for (const { verdicts } of mine) assertMix(verdicts)
  const of = (all: Measured[], what: 'perSecond' | 'p50' | 'p99') => median(all.map((each) => each[what]))
  compare('    one process', of(mine, 'perSecond'), of(other, 'perSecond'), 'calls/s', 1)
  const p99 = of(mine, 'p99') / of(other, 'p99')
  say(
    `    p99 ${of(mine, 'p99').toFixed(1)} ms against ${of(other, 'p99').toFixed(1)} ms, ${p99.toFixed(2)} x (goal 1.5 x: ${p99 <= 1.5 ? 'holds' : 'MISSED'}); p50 ${of(mine, 'p50').toFixed(1)} against ${of(other, 'p50').toFixed(1)} ms`,
  )
}

async function steady(servers: readonly Ports[], key: string, seconds: number): Promise<void> {
  const session = randomUUID()
  const load: Load = {
    ports: servers.map(({ ours }) => ours),
    key,
    body: (caller, n) => question(session, caller, n),
  }
  const measured = await openLoop(load, 1_500, { warmUp, milliseconds: seconds * 1_000 })
  assertMix(measured.verdicts)
  const holds = measured.perSecond > 1_450 && measured.p99 < 50
  say(
    `  two processes, one session, 1,500 a second for ${seconds} s after ${warmUp / 1000} s of the same: ${count(measured.perSecond)} calls/s, p50 ${measured.p50.toFixed(1)} ms, p99 ${measured.p99.toFixed(1)} ms (goal 50 ms: ${holds ? 'holds' : 'MISSED'})`,
  )
}

/**
 * Throws if the percentage of denied or held calls differs from `mix` by 1.5 or more. Such a measurement means nothing.
 */
function assertMix(verdicts: ReadonlyMap<string, number>): void {
  const all = [...verdicts.values()].reduce((a, b) => a + b, 0)
  const near = (verdict: string, percent: number): boolean =>
    Math.abs(((verdicts.get(verdict) ?? 0) / all) * 100 - percent) < 1.5
  if (!near('deny', mix.denied) || !near('require_approval', mix.held))
    throw new Error(`the mix of verdicts is wrong: ${JSON.stringify([...verdicts])}`)
}

function question(session: string, caller: number, n: number): string {
  const place = (n * 37 + caller) % 100
  const kind = place < mix.held ? 'held' : place < mix.held + mix.denied ? 'denied' : 'free'
  return JSON.stringify({
    agent: { name: 'bench', kind: 'hook' },
    session_id: session,
    tool_name: `mcp__server${n % 50}__${kind}`,
    tool_input: { path: `/w/src/module-${caller}/file-${n}.ts`, text: 'x'.repeat(200), n },
    tool_use_id: `${session}-${caller}-${n}`,
  })
}
