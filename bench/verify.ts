import { fork } from 'node:child_process'
import { once } from 'node:events'
import type pg from 'pg'
import { chainStart, sealEntry, type AuditDraft, type ChainPosition } from '../src/governance/audit/entry.ts'
import { createPool } from '../src/db/connect.ts'
import { draft } from './support/append-sides.ts'
import { benchMacs } from './support/macs.ts'
import { createOrganization, withClient, withPostgres } from './support/postgres.ts'
import { compare, count, machine, median, say } from './support/report.ts'
import type { VerifyMeasurement } from './support/verify-side.ts'

const organizationId = 'org_01J00000000000000000000000'
const rounds = 3

/**
 * `npm run bench verify [entries]`: compares the verification of a chain with a simple loop that reads and hashes the
 * same entries.
 */
export async function run(args: readonly string[]): Promise<void> {
  const entries = Number(args[0] ?? 1_000_000)
  if (!Number.isSafeInteger(entries) || entries < 1)
    throw new Error(`\`${args[0]}\` is not a number of entries`)
  say(`verify: ${count(entries)} entries; ${machine()}`)
  await withPostgres(async ({ appUrl, adminUrl }) => {
    const bytes = await withClient(adminUrl, (client) => writeChain(client, adminUrl, entries))
    say(
      `  ${(bytes / entries).toFixed(0)} bytes an entry, streamed over one connection a side, ${rounds} rounds`,
    )
    const measured: Record<Side, VerifyMeasurement[]> = { loop: [], verify: [] }
    for (let round = 0; round < rounds; round += 1) {
      for (const side of ['loop', 'verify'] as const)
        measured[side].push(await measure([side, appUrl, organizationId, String(entries)]))
    }
    const rate = (side: Side): number => entries / median(measured[side].map((each) => each.seconds))
    const peak = (side: Side): string =>
      `${Math.round(Math.max(...measured[side].map((each) => each.peak)) / 1024)} MiB`
    compare(
      '  whole operation, thread and connection included',
      rate('verify'),
      rate('loop'),
      'entries/s',
      0.7,
    )
    say(`  peak resident size of the process: verify ${peak('verify')}, loop ${peak('loop')}`)
  })
}

type Side = 'loop' | 'verify'

async function measure(args: readonly string[]): Promise<VerifyMeasurement> {
  const child = fork(new URL('./support/verify-side.ts', import.meta.url), args)
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`a benchmark process ended with code ${code}`)
  })
  return Promise.race([once(child, 'message').then(([answer]) => answer as VerifyMeasurement), ended])
}

/** The chain repeats these entries. Their kinds and lengths differ, as in a chain with entries of runs and agents. */
const shapes: readonly (AuditDraft & { readonly status: string })[] = [
  draft,
  draft,
  { ...draft, eventType: 'workflow.execute', action: 'finish', runId: null, metadata: { nodes_executed: 3 } },
  {
    ...draft,
    actor: { type: 'system', id: 'sweeper' },
    metadata: { approval_id: 'apr_01J00000000000000000000000' },
  },
]

/**
 * Writes an audit chain with entries as the service writes them, but in batches of 2,000 entries. Returns the size of
 * the chain in bytes.
 */
async function writeChain(client: pg.Client, url: string, entries: number): Promise<number> {
  await createOrganization(client, organizationId)
  const pool = createPool({ url, max: 1 })
  const sign = await benchMacs(pool).signer(organizationId)
  await pool.end()
  const at = new Date()
  let position: ChainPosition = chainStart
  let bytes = 0
  while (position.seq < entries) {
    const canonical: string[] = []
    const hash: string[] = []
    const mac: string[] = []
    for (let n = 0; n < 2_000 && position.seq < entries; n += 1) {
      const entry = sealEntry(organizationId, position, 1, at, shapes[position.seq % shapes.length] ?? draft)
      position = { seq: entry.seq, hash: entry.hash }
      bytes += Buffer.byteLength(entry.canonical)
      canonical.push(entry.canonical)
      hash.push(entry.hash)
      mac.push(sign(position))
    }
    await client.query('insert into audit_events (canonical, hash, mac) select * from unnest($1::text[], $2::text[], $3::text[])', [canonical, hash, mac]) // prettier-ignore
  }
  await client.query('update chain_head set seq = $1, hash = $2, mac = $3', [
    position.seq,
    position.hash,
    sign(position),
  ])
  await client.query('vacuum analyze audit_events')
  return bytes
}
