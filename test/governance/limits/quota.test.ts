import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { planLimits } from '../../../src/contract/plan-limits.ts'
import { setPlan } from '../../../src/governance/limits/quota.ts'
import { auditOf } from '../support.ts'
import { startTestServer, type TestServer } from '../../api/server.ts'

let server: TestServer
let path: string
const keys = () => server.identities.users
beforeAll(async () => {
  server = await startTestServer()
  await server.context.db.updateTable('organizations').set({ quota_overrides: '{}' }).execute()
  path = `/organizations/${server.identities.organization_id}/quota`
})
afterAll(() => server?.close())

const patch = (body: unknown) => server.call(keys().owner.api_key, 'PATCH', path, body)

describe('the quota of an organization', () => {
  test('is its plan’s with an owner’s overrides; unnamed limits stay', async () => {
    expect((await server.call(keys().admin.api_key, 'GET', path)).body).toEqual({
      plan: 'enterprise',
      limits: planLimits.enterprise,
      overrides: {},
      effective: planLimits.enterprise,
      usage: { storage_mb: expect.any(Number), pending_approvals: 0, rules: 0, memory_mb: 0 },
    })
    await patch({ concurrent_executions: 7 })
    const { status, body } = await patch({ memory_mb: 1 })
    const entries = await auditOf(server.context, server.identities.organization_id, 1)
    for (const same of [{}, { memory_mb: 1 }, { requests_per_day: null }])
      expect((await patch(same)).body.overrides).toEqual(body.overrides)
    expect(await auditOf(server.context, server.identities.organization_id, 1)).toEqual(entries)
    expect(status).toBe(200)
    expect(body.overrides).toEqual({ concurrent_executions: 7, memory_mb: 1 })
    expect(body.effective).toEqual({ ...planLimits.enterprise, concurrent_executions: 7, memory_mb: 1 })
    expect((await server.call(keys().owner.api_key, 'GET', path)).body).toMatchObject(body)
    const [entry] = await auditOf(server.context, server.identities.organization_id, 1)
    expect(entry).toMatchObject({
      event_type: 'quota.updated',
      user_id: keys().owner.user_id,
      metadata: { changes: { memory_mb: { from: 4096, to: 1 } } },
    })
  })

  test.each([
    ['zero', { concurrent_executions: 0 }, 'concurrent_executions'],
    ['a negative number', { memory_mb: -1 }, 'memory_mb'],
    ['text', { memory_mb: '5' }, 'memory_mb'],
    ['a fraction', { memory_mb: 1.5 }, 'memory_mb'],
    ['nothing like a limit', { memory_mb: false }, 'memory_mb'],
    ['an unknown key', { runs: 5 }, 'runs'],
    ['over 100 times the plan’s', { queued_executions: 1_000_001 }, 'queued_executions'],
  ])('refuses %s, and changes nothing', async (_name, body, field) => {
    const before = await server.call(keys().owner.api_key, 'GET', path)
    const answer = await patch({ requests_per_day: 2_000_000, ...body })
    expect(answer.status).toBe(422)
    expect(answer.body.error).toMatchObject({ code: 'validation_error' })
    expect(answer.body.error.details.map((detail: { path: string }) => detail.path)).toContain(field)
    expect((await server.call(keys().owner.api_key, 'GET', path)).body).toEqual(before.body)
  })

  test('null removes an override, and the plan’s limit applies again', async () => {
    await patch({ concurrent_executions: 7, memory_mb: 1 })
    const { status, body } = await patch({ memory_mb: null, requests_per_day: null })
    expect(status).toBe(200)
    expect(body.overrides).toMatchObject({ concurrent_executions: 7 })
    expect(Object.keys(body.overrides)).not.toContain('memory_mb')
    expect(body.effective.memory_mb).toBe(planLimits.enterprise.memory_mb)
    expect((await server.call(keys().owner.api_key, 'GET', path)).body).toMatchObject(body)
    const [entry] = await auditOf(server.context, server.identities.organization_id, 1)
    expect(entry).toMatchObject({ metadata: { changes: { memory_mb: { from: 1, to: 4096 } } } })
    expect((await patch({ concurrent_executions: null })).body.overrides).not.toHaveProperty(
      'concurrent_executions',
    )
  })

  test('accepts exactly 100 times the plan’s limit', async () => {
    expect((await patch({ queued_executions: 1_000_000 })).status).toBe(200)
  })

  test('is read by admins and set by owners', async () => {
    expect((await server.call(keys().member.api_key, 'GET', path)).status).toBe(403)
    expect((await server.call(keys().admin.api_key, 'PATCH', path, { memory_mb: 9 })).status).toBe(403)
  })

  test('follows the plan; an override above a smaller plan’s ceiling is cut to it', async () => {
    const { organization_id: id } = server.identities
    await patch({ queued_executions: 1_000_000, concurrent_executions: 9 })
    const moved = await setPlan(server.context.combiner, id, 'free')
    expect(moved).toMatchObject({ plan: 'free', limits: planLimits.free })
    expect(moved.effective).toMatchObject({ queued_executions: 10_000, concurrent_executions: 9 })
    await expect(setPlan(server.context.combiner, id, 'gold')).rejects.toMatchObject({ code: 'bad_request' })
    await expect(setPlan(server.context.combiner, 'org_none', 'pro')).rejects.toMatchObject({
      code: 'not_found',
    })
    await setPlan(server.context.combiner, id, 'enterprise')
  })
})
