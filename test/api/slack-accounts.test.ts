import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createToolServices } from '../../src/activities/tools/services.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(() =>
  server.context.db.updateTable('memberships').set({ slack_account: null, slack_linked_at: null }).execute(),
)
afterAll(() => server?.close())

type Name = 'owner' | 'admin' | 'member' | 'viewer'
const person = (name: Name) => server.identities.users[name]
const path = (userId: string) =>
  `/organizations/${server.identities.organization_id}/members/${userId}/accounts/slack`
const link = (by: Name, of: string, external_id: string) =>
  server.call(person(by).api_key, 'PUT', path(of), { external_id })
const unlink = (by: Name, of: string) => server.call(person(by).api_key, 'DELETE', path(of))
const accountOf = (name: Name) => {
  const call = {
    organizationId: server.identities.organization_id,
    requester: { userId: person(name).user_id },
  }
  return createToolServices(server.context).slackAccount(call)
}

describe('a Slack account', () => {
  test('is linked by its person, and is that of their runs until it is unlinked', async () => {
    const { user_id } = person('viewer')
    const linked = await link('viewer', user_id, 'U012ABCDEF')
    expect([linked.status, linked.body]).toEqual([200, { user_id, external_id: 'U012ABCDEF' }])
    const account = await accountOf('viewer')
    expect(account).toEqual({ id: 'U012ABCDEF', linkedSecondsAgo: expect.any(Number) })
    expect(account?.linkedSecondsAgo).toBeGreaterThanOrEqual(0)
    expect(await accountOf('member')).toBeNull()
    expect((await unlink('viewer', user_id)).status).toBe(204)
    expect(await accountOf('viewer')).toBeNull()
    expect((await unlink('viewer', user_id)).status).toBe(204)
  })

  test('of another person is linked and unlinked by an admin alone', async () => {
    const { user_id } = person('viewer')
    for (const answer of [await link('member', user_id, 'U012ABCDEF'), await unlink('member', user_id)])
      expect([answer.status, answer.body.error.code]).toEqual([403, 'insufficient_role'])
    expect((await link('admin', user_id, 'U012ABCDEF')).status).toBe(200)
    expect(await accountOf('viewer')).toMatchObject({ id: 'U012ABCDEF' })
    expect((await unlink('admin', user_id)).status).toBe(204)
  })

  test('belongs to one member of the organization', async () => {
    expect((await link('member', person('member').user_id, 'U012ABCDEF')).status).toBe(200)
    const again = await link('viewer', person('viewer').user_id, 'U012ABCDEF')
    expect([again.status, again.body.error.code]).toEqual([409, 'conflict'])
    const both = await Promise.all(
      (['viewer', 'admin'] as const).map((name) => link(name, person(name).user_id, 'W00000001')),
    )
    expect(both.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 409])
  })

  test('that is linked again keeps its time', async () => {
    const at = async () =>
      (
        await server.context.db
          .selectFrom('memberships')
          .select('slack_linked_at')
          .where('user_id', '=', person('member').user_id)
          .where('organization_id', '=', server.identities.organization_id)
          .executeTakeFirstOrThrow()
      ).slack_linked_at
    await link('member', person('member').user_id, 'U012ABCDEF')
    const first = await at()
    await link('member', person('member').user_id, 'U012ABCDEF')
    expect(await at()).toEqual(first)
  })

  test.each(['u012abcdef', '@person', 'C012ABCDEF', 'U1', ''])('is not `%s`', async (external_id) => {
    const { status, body } = await link('member', person('member').user_id, external_id)
    expect([status, body.error.code]).toEqual([422, 'validation_error'])
  })

  test('of a stranger is not found', async () => {
    expect((await link('admin', 'usr_nobody', 'U012ABCDEF')).status).toBe(404)
  })

  test('and its end are in the audit log', async () => {
    const { user_id } = person('member')
    await link('member', user_id, 'U0AUDITED')
    await unlink('admin', user_id)
    const rows = await server.context.db
      .selectFrom('audit_events')
      .select(['event_type', 'metadata'])
      .where('event_type', 'like', 'member.account_%')
      .orderBy('seq', 'desc')
      .limit(2)
      .execute()
    const metadata = { member_id: user_id, service: 'slack', external_id: 'U0AUDITED' }
    expect(rows).toEqual([
      { event_type: 'member.account_unlinked', metadata: expect.objectContaining(metadata) },
      { event_type: 'member.account_linked', metadata: expect.objectContaining(metadata) },
    ])
  })
})
