import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { auditPeople, mostSearched, searchAudit } from '../../../src/governance/audit/search.ts'
import type { AuditFilters } from '../../../src/governance/audit/list.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testContext, type TestContext } from '../support.ts'

const organizationId = 'org_a'
const entries = 25_000
const started = Date.parse('2026-01-01T00:00:00.000Z')
/** Made in the same millisecond as entry 9,000, which names it first. Entry 14,000 names it too. */
const run = `run_${timePart(started + 9_000_000)}0000000000000000`

function timePart(time: number): string {
  const letters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
  return Array.from({ length: 10 }, (_, at) => letters[Math.floor(time / 32 ** (9 - at)) % 32]).join('')
}

let running: TestContext
beforeAll(async () => {
  running = await testContext()
  await insertChain(organizationId)
  await insertChain('org_b')
})
afterAll(() => running?.close())

/** Entry 4,321 has a text that no other one has. */
const insertChain = (id: string) =>
  asAdmin(running.adminUrl, async (client) => {
    await client.query('insert into organizations (id, name) values ($1, $1)', [id])
    await client.query('insert into chain_head (organization_id, seq) values ($1, $2)', [id, entries])
    await client.query(
      `insert into audit_events (canonical, hash)
       select jsonb_build_object('organization_id', $1::text, 'seq', n, 'id', 'evt_' || n, 'event_type', case when n % 100 = 0 then 'rule.created' else 'run.started' end,
         'user_id', case when n % 5000 = 0 then 'usr_rare' else 'usr_' || n % 3 end,
         'run_id', case when n in (9000, 14000) then $3 end,
         'timestamp', to_char(timestamptz '2026-01-01Z' + n * interval '1 s', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
         'metadata', '{}'::jsonb, 'action', case when n = 4321 then 'Es ist "Ärger" mit C:\\x' else 'none' end)::text, repeat('0', 64)
       from generate_series(1, $2) as n`,
      [id, entries, run],
    )
  })

const search = async (text: string, filters: AuditFilters = {}, beyond?: number) => {
  const { events, searched, total } = await searchAudit(running.context.db, organizationId, filters, { text, beyond }, 50) // prettier-ignore
  expect(total).toBe(events.length)
  return { seqs: events.map((event) => event['seq']), ...searched }
}
const timeOf = (seq: number) => new Date(started + seq * 1_000).toISOString()

describe('a search in the audit log', () => {
  test('reads so many entries at a time, says how far it came, and goes on', async () => {
    const seen = []
    let beyond: number | null | undefined
    while (beyond !== null) {
      const found = await search('"Ärger" mit c:\\', {}, beyond)
      seen.push([found.seqs, found.until])
      beyond = found.beyond
    }
    expect(seen).toEqual([
      ...[21_001, 17_001, 13_001, 9_001, 5_001].map((seq) => [[], timeOf(seq)]),
      [[4_321], timeOf(1_001)],
      [[], timeOf(1)],
    ])
  })

  test('counts only entries of the chosen type, person and days', async () => {
    expect(await search('none', { userId: 'usr_rare', eventType: 'rule.created' })).toEqual({
      seqs: [25_000, 20_000, 15_000, 10_000, 5_000],
      order: 'newest',
      until: timeOf(5_000),
      beyond: null,
    })
    const day = { since: new Date(timeOf(4_000)), until: new Date(timeOf(5_000)) }
    expect((await search('Ärger', day)).seqs).toEqual([4_321])
  })

  test('a full page goes on behind its last entry', async () => {
    const first = await search('RUN.STARTED')
    expect([first.seqs.length, first.seqs.at(-1), first.beyond]).toEqual([50, 24_950, 24_950])
    expect((await search('RUN.STARTED', {}, 24_950)).seqs[0]).toBe(24_949)
  })

  test('names of fields are no values', async () => {
    expect(await search('metadata')).toMatchObject({ seqs: [], beyond: entries - mostSearched + 1 })
  })

  test('an id is searched from its creation on', async () => {
    const first = await search(run)
    expect(first).toEqual({ seqs: [9_000], order: 'oldest', until: timeOf(12_939), beyond: 12_939 })
    expect(await search(run, {}, 12_939)).toMatchObject({ seqs: [14_000], beyond: 16_939 })
  })

  test('names of other organizations’ people are not told', async () => {
    const people = [
      ['usr_1', 'Ann Berg', 'ann@acme.test'],
      ['usr_rare', '', 'bo@acme.test'],
      ['usr_elsewhere', 'Cy', 'cy@acme.test'],
    ]
    await asAdmin(running.adminUrl, async (client) => {
      for (const person of people)
        await client.query('insert into users (id, name, email) values ($1, $2, $3)', person)
    })
    expect(await auditPeople(running.context.db, organizationId)).toEqual([
      { id: 'usr_1', name: 'Ann Berg <ann@acme.test>' },
      { id: 'usr_rare', name: 'bo@acme.test' },
    ])
  })
})
