import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { ChainTx } from '../../../src/governance/audit/chain-tx.ts'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import {
  createOrganization,
  marked,
  openCombiner,
  organizationId,
  query,
  userId,
  verify,
} from './chain-fixture.ts'

let database: TestDatabase
let open: ReturnType<typeof openCombiner>
let told: { runs: string[]; outbox: boolean }[]

beforeEach(async () => {
  database = await createTestDatabase()
  await createOrganization(database.adminUrl)
  told = []
  open = openCombiner(database.appUrl, {
    onCommitted: ({ touched, outboxWritten }) => told.push({ runs: [...touched], outbox: outboxWritten }),
  })
  await query(database.adminUrl, async (client) => {
    await client.query(
      `insert into workflows (id, organization_id, name, current_version, created_by) values ('wf_1', $1, 'w', 1, $2)`,
      [organizationId, userId],
    )
    await client.query(
      `insert into workflow_versions (workflow_id, version, definition, digest, deployed_by) values ('wf_1', 1, '{}', '', $1)`,
      [userId],
    )
    for (const id of ['run_1', 'run_2'])
      await client.query(
        `insert into runs (id, organization_id, workflow_id, workflow_version, interpreter_version, status,
           status_reason, requested_by, requester_email, inputs, input_hash, time_zone, risk)
         values ($1, $2, 'wf_1', 1, 1, 'running', '', $3, 'a@b.test', '{}', '', 'UTC', '{}')`,
        [id, organizationId, userId],
      )
  })
})
afterEach(async () => {
  await open.close()
  await database.drop()
})

const transaction = (work: (tx: ChainTx) => void): Promise<void> =>
  open.combiner.run(organizationId, 'org.change', (tx) => Promise.resolve(work(tx)))
const rows = (sql: string): Promise<unknown[]> =>
  query(database.adminUrl, async (client) => (await client.query(sql)).rows)

describe('run events', () => {
  test('are numbered without gaps per run across transactions, and announced after the commit', async () => {
    await transaction((tx) => {
      tx.event('run_1', 'a', { n: 1 })
      tx.event('run_2', 'b')
      tx.event('run_1', 'c')
      tx.append(marked('one'))
    })
    await transaction((tx) => {
      tx.event('run_1', 'd')
      tx.append(marked('two'))
    })
    expect(await rows('select run_id, seq, type, data from run_events order by run_id, seq')).toEqual([
      { run_id: 'run_1', seq: 1, type: 'a', data: { n: 1 } },
      { run_id: 'run_1', seq: 2, type: 'c', data: {} },
      { run_id: 'run_1', seq: 3, type: 'd', data: {} },
      { run_id: 'run_2', seq: 1, type: 'b', data: {} },
    ])
    expect(await rows('select id, event_seq from runs order by id')).toEqual([
      { id: 'run_1', event_seq: 3 },
      { id: 'run_2', event_seq: 1 },
    ])
    expect(told).toEqual([
      { runs: ['run_1', 'run_2'], outbox: false },
      { runs: ['run_1'], outbox: false },
    ])
  })
})

test('deliveries are written with the change and announced after the commit', async () => {
  await transaction((tx) => {
    tx.deliver('run.start', 'run_1', { a: 1 })
    tx.deliver('run.wake', 'run_2')
    tx.append(marked('one'))
  })
  expect(await rows('select kind, run_id, payload from outbox order by id')).toEqual([
    { kind: 'run.start', run_id: 'run_1', payload: { a: 1 } },
    { kind: 'run.wake', run_id: 'run_2', payload: {} },
  ])
  expect(told).toEqual([{ runs: [], outbox: true }])
})

test.each([
  ['an event', (tx: ChainTx) => tx.event('run_1', 'a')],
  ['a delivery', (tx: ChainTx) => tx.deliver('run.wake', 'run_1')],
])('%s without an audit entry is refused and leaves nothing', async (_what, work) => {
  await expect(transaction(work)).rejects.toThrow('a change has no audit entry')
  expect(await rows('select 1 from run_events union all select 1 from outbox')).toEqual([])
  expect(told).toEqual([])
})

test('a failed transaction leaves no rows and announces nothing', async () => {
  await expect(
    transaction((tx) => {
      tx.event('run_1', 'a')
      tx.append(marked('one'))
      throw new Error('no')
    }),
  ).rejects.toThrow('no')
  expect(await rows('select 1 from run_events union all select 1 from audit_events')).toEqual([])
  expect(told).toEqual([])
})

test('entries are stored exactly as sealed, with any text', async () => {
  const texts = [
    '"quoted"',
    'back\\slash',
    'two\nlines',
    '\r\n\u2028\u2029',
    '{a,b}',
    'NULL',
    'null',
    '',
    ' ',
    'é€😀',
  ]
  await transaction((tx) => {
    for (const text of texts) tx.append(marked(text))
  })
  expect(await rows(`select metadata ->> 'mark' as mark from audit_events order by seq`)).toEqual(
    texts.map((mark) => ({ mark })),
  )
  expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: texts.length })
})

test('an entry that the listing could not read is refused, and its transaction is rolled back', async () => {
  await expect(transaction((tx) => tx.append(marked('a\u0000b')))).rejects.toThrow('unsupported Unicode')
  expect(await rows('select 1 from audit_events')).toEqual([])
})

test.each([
  ['upper-case', "repeat('A', 64)"],
  ['too short', "repeat('a', 62)"],
  ['too long', "repeat('a', 66)"],
  ['no hexadecimal', "repeat('g', 64)"],
  ['with a line break', "repeat('a', 63) || chr(10)"],
])('the table refuses a hash that is %s', async (_, hash) => {
  const entry = `select replace(canonical, '"seq":1,', '"seq":2,'), ${hash} from audit_events`
  await transaction((tx) => tx.append(marked('one')))
  await expect(rows(`insert into audit_events (canonical, hash) ${entry}`)).rejects.toThrow(
    /audit_events_hash_check|invalid hexadecimal/,
  )
})

test('entries of one transaction are linked, and a saved policy shows from its entry on', async () => {
  const heads: unknown[] = []
  await transaction((tx) => {
    heads.push(tx.head.seq)
    tx.append(marked('old rules'))
    tx.policyChanged()
    tx.append(marked('saved'))
    heads.push(tx.head.seq)
  })
  await transaction((tx) => tx.append(marked('new rules')))
  expect(heads).toEqual([0, 2])
  expect(
    await rows(
      `select seq, metadata ->> 'mark' as mark, metadata -> 'policy_version' as version from audit_events order by seq`,
    ),
  ).toEqual([
    { seq: 1, mark: 'old rules', version: 1 },
    { seq: 2, mark: 'saved', version: 2 },
    { seq: 3, mark: 'new rules', version: 2 },
  ])
  expect(
    await rows(
      'select h.policy_version, h.seq, h.hash = e.hash as same from chain_head h join audit_events e using (seq)',
    ),
  ).toEqual([{ policy_version: 2, seq: 3, same: true }])
})
