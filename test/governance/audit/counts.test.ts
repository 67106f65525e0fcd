import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { countSegments, countVerdicts, segmentLength } from '../../../src/governance/audit/counts.ts'
import { readBounded } from '../../../src/governance/bounded-read.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testContext, type TestContext } from '../support.ts'

const organizationId = 'org_a'
const entries = 3 * segmentLength + 500

const typeOf = (seq: number) =>
  ['agent_call.decided', 'tool_call.decided', 'rule.created', 'agent_call.decided'][seq % 4] as string
const statusOf = (seq: number) => ['allow', 'deny', 'require_approval', 'allow', 'allow'][seq % 5] as string

let running: TestContext
beforeAll(async () => {
  running = await testContext()
  await asAdmin(running.adminUrl, async (client) => {
    for (const [id, count] of [
      [organizationId, entries],
      ['org_b', segmentLength],
    ]) {
      await client.query('insert into organizations (id, name) values ($1, $1)', [id])
      await client.query('insert into chain_head (organization_id, seq) values ($1, $2)', [id, count])
      await client.query(
        `insert into audit_events (canonical, hash)
         select jsonb_build_object('organization_id', $1::text, 'seq', n, 'user_id', null,
           'event_type', (array['agent_call.decided', 'tool_call.decided', 'rule.created', 'agent_call.decided'])[n % 4 + 1],
           'status', (array['allow', 'deny', 'require_approval', 'allow', 'allow'])[n % 5 + 1])::text, repeat('0', 64)
         from generate_series(1, $2) as n`,
        [id, count],
      )
    }
  })
})
afterAll(() => running?.close())

const counted = async () =>
  (
    await running.context.db
      .selectFrom('audit_counts')
      .select('segment')
      .where('organization_id', '=', organizationId)
      .where('event_type', '=', '')
      .orderBy('segment')
      .execute()
  ).map(({ segment }) => segment)

const verdictsMatch = () =>
  fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: entries + 1 }), fc.nat(entries), async (from, length) => {
      const to = Math.min(from + length, entries + 1)
      const plain = { allow: 0, require_approval: 0, deny: 0 }
      for (let seq = from; seq < to; seq += 1)
        if (typeOf(seq).endsWith('decided')) plain[statusOf(seq) as 'allow'] += 1
      const answer = await readBounded(running.context.db, (trx) =>
        countVerdicts(trx, organizationId, [from, to]),
      )
      expect(answer).toEqual(plain)
    }),
    { numRuns: 20, examples: [[1, entries], [segmentLength + 1, segmentLength], [segmentLength, 2]] }, // prettier-ignore
  )

test('verdicts are those of the entries, counted or not', async () => {
  await verdictsMatch()
  await Promise.all([countSegments(running.context.db), countSegments(running.another().db)])
  // The last segment is not full, so it is not counted.
  expect(await counted()).toEqual([0, 1, 2])
  await verdictsMatch()
  await asAdmin(running.adminUrl, (client) => client.query('delete from audit_counts where segment > 0'))
  await verdictsMatch()
  await countSegments(running.context.db)
  expect(await counted()).toEqual([0, 1, 2])
})
