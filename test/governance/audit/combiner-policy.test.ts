import { afterEach, beforeEach, expect, test } from '@jest/globals'
import type { ChainTx } from '../../../src/governance/audit/chain-tx.ts'
import type { BatchKind } from '../../../src/governance/audit/combiner.ts'
import { decide } from '../../../src/policy/decide.ts'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import {
  appendTo,
  createOrganization,
  marked,
  openCombiner,
  organizationId,
  query,
  userId,
  verify,
} from './chain-fixture.ts'

let database: TestDatabase
let saving: ReturnType<typeof openCombiner>
let deciding: ReturnType<typeof openCombiner>

beforeEach(async () => {
  database = await createTestDatabase()
  await createOrganization(database.adminUrl)
  saving = openCombiner(database.appUrl)
  deciding = openCombiner(database.appUrl)
})
afterEach(async () => {
  await saving.close()
  await deciding.close()
  await database.drop()
})

const decideMail: BatchKind<string, null, string> = {
  point: 'effect.decide',
  load: () => Promise.resolve(null),
  apply(tx, _shared, mark) {
    appendTo(tx, mark)
    const call = {
      source: 'workflows',
      tool: 'mail_send',
      sideEffect: 'egress',
      params: {},
      labels: [],
    } as const
    return decide(tx.policy.compiled, call).verdict
  },
  write: () => {},
}

function saveRule(name: string, verdict: string): Promise<void> {
  return saving.combiner.run(organizationId, 'org.change', async (tx) => {
    await tx.trx
      .insertInto('rules')
      .values({
        id: `rule_${name}`,
        organization_id: organizationId,
        name,
        body: JSON.stringify({ name, verdict, status: 'active', tools: ['mail_send'] }),
        created_by: userId,
      })
      .execute()
    tx.policyChanged()
    tx.append(marked(`saved ${name}`))
  })
}

test('a rule saved in one process decides the next call in every other', async () => {
  expect(await deciding.combiner.join(organizationId, decideMail, 'before')).toBe('allow')
  await saveRule('no-mail', 'deny')
  expect(await deciding.combiner.join(organizationId, decideMail, 'after')).toBe('deny')
  expect(await saving.combiner.join(organizationId, decideMail, 'here')).toBe('deny')
})

test('a rule that another process changes or deletes decides the next call, whatever was compiled before', async () => {
  const change = (work: (trx: ChainTx['trx']) => Promise<unknown>): Promise<void> =>
    saving.combiner.run(organizationId, 'org.change', async (tx) => {
      await work(tx.trx)
      tx.policyChanged()
      tx.append(marked('changed'))
    })
  const setVerdict = (verdict: string): Promise<void> => {
    const body = JSON.stringify({ name: 'mail', verdict, status: 'active', tools: ['mail_send'] })
    return change((trx) => trx.updateTable('rules').set({ body }).where('name', '=', 'mail').execute())
  }
  const verdictOf = (mark: string) => deciding.combiner.join(organizationId, decideMail, mark)
  await saveRule('kept', 'allow')
  await saveRule('mail', 'deny')
  expect(await verdictOf('denied')).toBe('deny')
  await setVerdict('allow')
  expect(await verdictOf('allowed')).toBe('allow')
  await setVerdict('deny')
  expect(await verdictOf('denied again')).toBe('deny')
  await change((trx) => trx.deleteFrom('rules').where('name', '=', 'mail').execute())
  expect(await verdictOf('deleted')).toBe('allow')
})

test('a freeze holds from the next decision on, and so does its end', async () => {
  const freeze = (reason: string | null): Promise<void> =>
    saving.combiner.run(organizationId, 'org.change', async (tx) => {
      await tx.trx.updateTable('chain_head').set({ frozen: reason }).execute()
      tx.append(marked('freeze'))
    })
  expect(await deciding.combiner.join(organizationId, decideMail, 'before')).toBe('allow')
  await freeze('incident')
  expect(await deciding.combiner.join(organizationId, decideMail, 'frozen')).toBe('deny')
  await freeze(null)
  expect(await deciding.combiner.join(organizationId, decideMail, 'after')).toBe('allow')
})

test('a failed save changes no version and no decision', async () => {
  await saveRule('no-mail', 'deny')
  await expect(saveRule('no-mail', 'deny')).rejects.toThrow(/rules_pkey|rules_name/)
  expect(await deciding.combiner.join(organizationId, decideMail, 'after')).toBe('deny')
  const { rows } = await query(database.adminUrl, (client) =>
    client.query(`select seq, metadata -> 'policy_version' as version from audit_events order by seq`),
  )
  expect(rows).toEqual([
    { seq: 1, version: 2 },
    { seq: 2, version: 2 },
  ])
  expect(await verify(database.appUrl)).toMatchObject({ valid: true })
})

test('a policy is read once, and one that does not fit is dropped without dropping others', async () => {
  const other = 'org_01J00000000000000000000001'
  await createOrganization(database.adminUrl, other)
  const small = openCombiner(database.appUrl, { kept: { count: 10, bytes: 50_000 } })
  const policyOf = (organization: string): Promise<unknown> =>
    small.combiner.run(organization, 'org.change', (tx) => Promise.resolve(tx.policy))
  try {
    await saveRule('no-mail', 'deny')
    const first = await policyOf(organizationId)
    await policyOf(other)
    expect(await policyOf(organizationId)).toBe(first)
    await query(database.adminUrl, async (client) => {
      const domains = Array.from({ length: 1_000 }, (_, index) => `partner${index}.example`)
      const params = [{ param: 'to', operator: 'domain_in', value: domains }]
      const body = { name: 'long', verdict: 'deny', status: 'active', tools: ['mail_send'], params }
      await client.query(
        `insert into rules (id, organization_id, name, body, created_by) values ('rule_long', $1, 'long', $2, $3)`,
        [other, JSON.stringify(body), userId],
      )
      await client.query('update chain_head set policy_version = policy_version + 1 where organization_id = $1', [other]) // prettier-ignore
    })
    const large = await policyOf(other)
    expect(await policyOf(organizationId)).toBe(first)
    expect(await policyOf(other)).not.toBe(large)
    expect(await small.combiner.join(organizationId, decideMail, 'after')).toBe('deny')
  } finally {
    await small.close()
  }
})

test('a reader without the lock gets the cached policy of its version, and a policy that it loads is cached', async () => {
  const { combiner, close } = openCombiner(database.appUrl)
  try {
    const decidedBy = () => combiner.run(organizationId, 'org.change', (tx) => Promise.resolve(tx.policy))
    const first = await decidedBy()
    const head = { policy_version: first.version, frozen: first.frozen }
    const never = () => Promise.reject(new Error('loaded again'))
    expect(await combiner.policy(organizationId, head, never)).toBe(first)
    await saveRule('no-mail-again', 'deny')
    const next = { ...first, version: first.version + 1 }
    const newer = { ...head, policy_version: next.version }
    expect(await combiner.policy(organizationId, newer, () => Promise.resolve(next))).toBe(next)
    expect(await combiner.policy(organizationId, newer, never)).toBe(next)
    expect(await decidedBy()).toBe(next)
    await expect(combiner.policy(organizationId, { ...newer, frozen: 'why' }, never)).rejects.toThrow()
  } finally {
    await close()
  }
})
