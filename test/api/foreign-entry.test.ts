import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { chainStart, sealEntry, type AuditDraft } from '../../src/governance/audit/entry.ts'
import { addOrganization } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
let organization: string
let owner: string
beforeAll(async () => {
  server = await startTestServer()
  organization = server.identities.organization_id
  owner = server.identities.users.owner.api_key
})
afterAll(() => server.close())

const draft: AuditDraft = {
  eventType: 'rule.created',
  action: 'create',
  status: 'ok',
  actor: { type: 'system', id: 'nobody' },
  metadata: {},
}

/** Adds an entry that continues the chain. Everybody who has the application's database password could do this. */
async function addEntry(): Promise<{ seq: number; id: string }> {
  const { pool } = server.context
  const last = await pool.query('select seq, hash from chain_head where organization_id = $1', [organization])
  const head = { seq: Number(last.rows[0]?.seq ?? chainStart.seq), hash: String(last.rows[0]?.hash) }
  const entry = sealEntry(organization, head, 1, new Date(), draft)
  await pool.query('insert into audit_events (canonical, hash) values ($1, $2)', [
    entry.canonical,
    entry.hash,
  ])
  return { seq: entry.seq, id: (JSON.parse(entry.canonical) as { id: string }).id }
}

describe('an entry that was added without the service', () => {
  test('stops the writes of its organization with 503 and one alarm, and is named by verify', async () => {
    const elsewhere = await addOrganization(server.context)
    const error = jest.spyOn(server.context.log, 'error')
    const added = await addEntry()
    const path = `/organizations/${organization}/governance`
    const save = () => server.call(owner, 'PATCH', path, { approval_threshold: 2 })
    for (const answer of [...(await Promise.all([save(), save(), save()])), await save()]) {
      expect(answer.status).toBe(503)
      expect(answer.body.error).toMatchObject({
        code: 'unavailable',
        message: expect.stringContaining('an operator must verify the log'),
      })
    }
    expect(error.mock.calls).toEqual([
      [{ organization_id: organization, seq: added.seq }, expect.stringContaining('ALARM')],
    ])
    error.mockRestore()
    const health = (await server.call(null, 'GET', '/health')).body
    expect(health).toMatchObject({ status: 'degraded', checks: { audit: 'alarm' } })
    const verified = await server.call(owner, 'GET', `/organizations/${organization}/audit-events/verify`)
    expect(verified.body).toMatchObject({
      valid: false,
      first_mismatch: { seq: added.seq, id: added.id, reason: 'foreign' },
    })
    const others = server.context.combiner.run(elsewhere.id, 'org.change', async (tx) => tx.append(draft))
    await expect(others).resolves.toBeUndefined()
  })
})
