import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { newId } from '../src/contract/ids.ts'
import { newApiKey } from '../src/governance/key-format.ts'
import { verifyChain } from '../src/governance/verify.ts'
import { closedLoop, openLoop, type Load, type Measured } from './support/authorize-load.ts'
import {
  createOrganization,
  delaySyncs,
  withClient,
  withPostgres,
  type BenchPostgres,
} from './support/postgres.ts'
import { compare, count, machine, median, say } from './support/report.ts'

const callers = 128
const profile = process.env['BENCH_PROFILE']
const rounds = 3
const milliseconds = 4_000
const rules = 1_000
/** At the fixed rate, milliseconds. */
const warmUp = 5_000
/** Of each hundred calls: these are held, these denied, the others allowed. */
const mix = { held: 2, denied: 8 }
const organizationId = newId('organization')
const userId = newId('user')

/** Authorize, durable and chained, against a bare insert behind the same authentication; and a fixed rate. */
export async function run(args: readonly string[] = []): Promise<void> {
  const seconds = Number(args[0] ?? 60)
  say(`authorize: ${callers} callers, ${count(rules)} rules, one organization, fsync on; ${machine()}`)
  say(
    `  a key each request, pools of 20; of 100 calls ${mix.denied} are denied and ${mix.held} held; ${rounds} rounds of ${milliseconds} ms`,
  )
  await withPostgres(async (postgres) => {
    const key = await prepare(postgres)
    for (const delay of [0, 2]) {
      const commit = await delaySyncs(postgres.adminUrl, delay)
      say(`  +${delay} ms a sync: a lone commit takes ${commit.toFixed(2)} ms`)
      await withServers(postgres, 1, ([server]) => sides(server as Ports, key))
    }
    await delaySyncs(postgres.adminUrl, 0)
    await withServers(postgres, 2, (servers) => steady(servers, key, seconds))
    const verified = await verifyChain({
      databaseUrl: postgres.appUrl,
      appRole: 'countersign_app',
      organizationId,
    })
    if (!verified.valid) throw new Error('the chain does not verify')
    say(`  all ${count(verified.entries)} entries verify, gapless`)
  })
}

interface Ports {
  readonly ours: number
  readonly theirs: number
}

async function sides({ ours, theirs }: Ports, key: string): Promise<void> {
  // Sessions of its own for every round: a call that was asked about before would be answered again, not decided.
  const load = (port: number): Load => {
    const session = randomUUID()
    return { ports: [port], key, body: (caller, n) => question(`${session}-${caller}`, caller, n) }
  }
  const [mine, other]: [Measured[], Measured[]] = [[], []]
  for (const port of [ours, theirs]) await closedLoop(load(port), callers, 1_000)
  for (let round = 0; round < rounds; round += 1) {
    mine.push(await closedLoop(load(ours), callers, milliseconds))
    other.push(await closedLoop(load(theirs), callers, milliseconds))
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
  const load = (): Load => {
    const session = randomUUID()
    return { ports: servers.map(({ ours }) => ours), key, body: (caller, n) => question(session, caller, n) }
  }
  // New processes compile their code and the rules first: a second of such a rate is then answered late.
  await openLoop(load(), 1_500, warmUp)
  const measured = await openLoop(load(), 1_500, seconds * 1_000)
  assertMix(measured.verdicts)
  const holds = measured.perSecond > 1_450 && measured.p99 < 50
  say(
    `  two processes, one session, 1,500 a second for ${seconds} s after ${warmUp / 1000} s of the same: ${count(measured.perSecond)} calls/s, p50 ${measured.p50.toFixed(1)} ms, p99 ${measured.p99.toFixed(1)} ms (goal 50 ms: ${holds ? 'holds' : 'MISSED'})`,
  )
}

/** A benchmark whose calls were all denied, or of which none met a rule, would measure nothing. */
function assertMix(verdicts: ReadonlyMap<string, number>): void {
  const all = [...verdicts.values()].reduce((a, b) => a + b, 0)
  const near = (verdict: string, percent: number): boolean =>
    Math.abs(((verdicts.get(verdict) ?? 0) / all) * 100 - percent) < 1.5
  if (!near('deny', mix.denied) || !near('require_approval', mix.held))
    throw new Error(`another mix of verdicts than meant: ${JSON.stringify([...verdicts])}`)
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

/** An organization with people, rules spread over fifty servers' tools, and a key. */
async function prepare({ adminUrl }: BenchPostgres): Promise<string> {
  const key = newApiKey()
  await withClient(adminUrl, async (client) => {
    await createOrganization(client, organizationId)
    await client.query(
      `update organizations set plan = 'enterprise', settings = '{"approvals_enabled": true}',
         quota_overrides = '{"authorize_per_minute": 6000000}' where id = $1`,
      [organizationId],
    )
    await client.query("insert into users (id, email, email_verified) values ($1, 'b@acme.test', true)", [
      userId,
    ])
    await client.query("insert into memberships (organization_id, user_id, role) values ($1, $2, 'member')", [
      organizationId,
      userId,
    ])
    await client.query(
      `insert into api_keys (id, organization_id, user_id, name, hash, last4, scopes)
       values ($1, $2, $3, 'bench', $4, $5, '{agents:authorize}')`,
      [newId('key'), organizationId, userId, key.hash, key.last4],
    )
    for (let n = 0; n < rules; n += 1) {
      const body = ruleOf(n)
      await client.query(
        'insert into rules (id, organization_id, name, body, created_by) values ($1, $2, $3, $4, $5)',
        [newId('rule'), organizationId, body.name, JSON.stringify(body), userId],
      )
    }
    await client.query(
      'create table bench_calls (id bigint generated always as identity primary key, user_id text, body jsonb)',
    )
    await client.query('grant insert, select on bench_calls to countersign_app')
  })
  return key.secret
}

/** Three that decide, and others on the same tools that must be looked at and do not match. */
function ruleOf(n: number) {
  if (n === 0) return { name: 'deny', verdict: 'deny', status: 'active', tools: ['mcp__*__denied'] }
  if (n === 1) return { name: 'hold', verdict: 'require_approval', status: 'active', tools: ['mcp__*__held'] }
  return {
    name: `rule ${n}`,
    verdict: 'deny',
    status: 'active',
    tools: [`mcp__server${n % 50}__*`],
    params: [{ param: 'path', operator: 'startswith', value: `/secret/${n}` }],
  }
}

async function withServers(
  postgres: BenchPostgres,
  processes: number,
  work: (ports: readonly Ports[]) => Promise<void>,
): Promise<void> {
  const env = {
    ...process.env,
    DATABASE_URL: postgres.appUrl,
    DATA_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    LOG_LEVEL: 'error',
  }
  const children: ChildProcess[] = Array.from({ length: processes }, () =>
    fork(new URL('./support/authorize-server.ts', import.meta.url), {
      env,
      // For looking into: BENCH_PROFILE is a folder for the server's CPU profile.
      execArgv:
        profile === undefined ? ['--max-semi-space-size=16'] : ['--cpu-prof', `--cpu-prof-dir=${profile}`],
    }),
  )
  try {
    const ports = await Promise.all(children.map(async (child) => (await once(child, 'message'))[0] as Ports))
    await work(ports)
  } finally {
    for (const child of children) child.kill()
  }
}
