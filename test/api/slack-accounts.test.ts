import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createToolServices } from '../../src/activities/tools/services.ts'
import { connectSlack } from '../governance/notifications/people.ts'
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
const link = (by: Name, of: string, external_id: string, code?: string) =>
  server.call(person(by).api_key, 'PUT', path(of), { external_id, code })
const unlink = (by: Name, of: string) => server.call(person(by).api_key, 'DELETE', path(of))
const accountOf = (name: Name) => {
  const call = {
    organizationId: server.identities.organization_id,
    requester: { userId: person(name).user_id },
  }
  return createToolServices(server.context).slackAccount(call)
}
const claimsOf = (name: Name) =>
  server.context.db
    .selectFrom('slack_claims')
    .selectAll()
    .where('user_id', '=', person(name).user_id)
    .orderBy('created_at')
    .execute()
/** The newest code that Slack has delivered. */
const codeOf = async (name: Name): Promise<string> => (await claimsOf(name)).at(-1)?.code ?? ''
/** A code that differs from the newest one. */
const wrongCode = async (name: Name): Promise<string> =>
  (await codeOf(name)) === '00000000' ? '00000001' : '00000000'
const moveClaims = (minutes: number) =>
  server.context.pool.query(
    `update slack_claims set created_at = created_at - make_interval(mins => $1), expires_at = expires_at - make_interval(mins => $1)`,
    [minutes],
  )

describe('a person’s own Slack account', () => {
  beforeAll(async () => {
    const { organization_id: organizationId, users } = server.identities
    const caller = () => ({ userId: users.owner.user_id })
    await connectSlack({ context: server.context, organizationId, caller })
  })
  beforeEach(() => server.context.db.deleteFrom('slack_claims').execute())

  test('is linked with the code that is sent to it, and is that of their runs until it is unlinked', async () => {
    const { user_id } = person('viewer')
    const asked = await link('viewer', user_id, 'U012ABCDEF')
    const answer = { user_id, external_id: 'U012ABCDEF', linked: false, code_expires_at: expect.any(String) }
    expect([asked.status, asked.body]).toEqual([200, answer])
    expect(await accountOf('viewer')).toBeNull()
    const me = async () => (await server.call(person('viewer').api_key, 'GET', '/me')).body.organizations
    expect(await me()).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          slack_account: null,
          slack_claim: { external_id: 'U012ABCDEF', expires_at: asked.body.code_expires_at },
        }),
      ]),
    )
    const linked = await link('viewer', user_id, 'U012ABCDEF', await codeOf('viewer'))
    expect([linked.status, linked.body]).toEqual([200, { ...answer, linked: true, code_expires_at: null }])
    const account = await accountOf('viewer')
    expect(account).toEqual({ id: 'U012ABCDEF', linkedSecondsAgo: expect.any(Number) })
    expect(account?.linkedSecondsAgo).toBeGreaterThanOrEqual(0)
    expect(JSON.stringify(await me())).not.toContain('expires_at')
    expect(await accountOf('member')).toBeNull()
    expect((await unlink('viewer', user_id)).status).toBe(204)
    expect(await accountOf('viewer')).toBeNull()
    expect((await unlink('viewer', user_id)).status).toBe(204)
  })

  test('is not linked with a wrong code, an old one, one of another account or one of another person', async () => {
    const { user_id } = person('viewer')
    const refused = async (account: string, code: string): Promise<void> => {
      const { status, body } = await link('viewer', user_id, account, code)
      expect([status, body.error.code, body.error.details[0].path]).toEqual([422, 'validation_error', 'code'])
      expect(await accountOf('viewer')).toBeNull()
    }
    await refused('U012ABCDEF', '12345678')
    await link('member', person('member').user_id, 'U0OTHERONE')
    await link('viewer', user_id, 'U012ABCDEF')
    const first = await codeOf('viewer')
    await refused('U012ABCDEF', await wrongCode('viewer'))
    await refused('U0ANOTHER1', first)
    await refused('U0OTHERONE', await codeOf('member'))
    await moveClaims(2)
    await link('viewer', user_id, 'U012ABCDEF')
    const second = await codeOf('viewer')
    if (first !== second) await refused('U012ABCDEF', first)
    await moveClaims(31)
    await refused('U012ABCDEF', second)
  })

  test('takes five guesses, and no sixth', async () => {
    const { user_id } = person('viewer')
    await link('viewer', user_id, 'U012ABCDEF')
    const wrong = await wrongCode('viewer')
    for (let guess = 0; guess < 5; guess += 1)
      expect((await link('viewer', user_id, 'U012ABCDEF', wrong)).status).toBe(422)
    expect((await link('viewer', user_id, 'U012ABCDEF', await codeOf('viewer'))).status).toBe(422)
  })

  test('gets one code a minute and five in an hour', async () => {
    const { user_id } = person('viewer')
    const ask = () => link('viewer', user_id, 'U012ABCDEF')
    const first = await ask()
    expect((await ask()).body).toEqual(first.body)
    expect(await claimsOf('viewer')).toHaveLength(1)
    for (let more = 1; more < 5; more += 1) {
      await moveClaims(2)
      expect((await ask()).status).toBe(200)
    }
    await moveClaims(2)
    const { status, body } = await ask()
    expect([status, body.error.code]).toEqual([429, 'rate_limited'])
    expect((await claimsOf('viewer')).map(({ ended }) => ended)).toEqual([
      ...Array.from({ length: 4 }, () => 'replaced'),
      null,
    ])
    await moveClaims(60)
    expect((await ask()).status).toBe(200)
  })

  test('gets ten codes in an hour, whoever asks for them', async () => {
    const ask = (by: Name, account: string) => link(by, person(by).user_id, account)
    for (const by of ['viewer', 'member'] as const) {
      for (let sent = 0; sent < 5; sent += 1) {
        expect((await ask(by, 'U012ABCDEF')).status).toBe(200)
        await moveClaims(2)
      }
    }
    // All ten codes count for the member now, so the limit of codes for one person does not refuse the viewer.
    await server.context.db
      .updateTable('slack_claims')
      .set({ user_id: person('member').user_id })
      .execute()
    const { status, body } = await ask('viewer', 'U012ABCDEF')
    expect([status, body.error.code]).toEqual([429, 'rate_limited'])
    expect(body.error.message).toContain('to one Slack account')
    expect((await ask('viewer', 'U0ANOTHER1')).status).toBe(200)
    await moveClaims(60)
    expect((await ask('viewer', 'U012ABCDEF')).status).toBe(200)
  })

  test('gets no code without a connection to Slack, and the answer says who can link it', async () => {
    const rename = (from: string, to: string) =>
      server.context.pool.query('update connections set integration = $2 where integration = $1', [from, to])
    await rename('slack', 'trello')
    const { status, body } = await link('viewer', person('viewer').user_id, 'U012ABCDEF')
    await rename('trello', 'slack')
    expect([status, body.error.code, body.error.message]).toEqual([
      409,
      'conflict',
      expect.stringContaining('ask an admin'),
    ])
  })

  test('goes with the membership, and its code too', async () => {
    const { user_id } = person('viewer')
    await link('viewer', user_id, 'U012ABCDEF')
    const membership = {
      organization_id: server.identities.organization_id,
      user_id,
      role: 'viewer' as const,
    }
    expect((await server.call(person('viewer').api_key, 'DELETE', path(user_id).replace('/accounts/slack', ''))).status).toBe(204) // prettier-ignore
    expect(await claimsOf('viewer')).toEqual([])
    await server.context.db.insertInto('memberships').values(membership).execute()
  })

  test('and the request for a code are in the audit log', async () => {
    const { user_id } = person('viewer')
    await link('viewer', user_id, 'U0AUDITED')
    await link('viewer', user_id, 'U0AUDITED', await codeOf('viewer'))
    const metadata = { member_id: user_id, service: 'slack', external_id: 'U0AUDITED' }
    expect(await audited()).toEqual([
      { event_type: 'member.account_linked', metadata: expect.objectContaining(metadata) },
      { event_type: 'member.account_claimed', metadata: expect.objectContaining(metadata) },
    ])
  })
})

const audited = () =>
  server.context.db
    .selectFrom('audit_events')
    .select(['event_type', 'metadata'])
    .where('event_type', 'like', 'member.account_%')
    .orderBy('seq', 'desc')
    .limit(2)
    .execute()

describe('a Slack account', () => {
  test('of another person is linked and unlinked by an admin alone', async () => {
    const { user_id } = person('viewer')
    for (const answer of [await link('member', user_id, 'U012ABCDEF'), await unlink('member', user_id)])
      expect([answer.status, answer.body.error.code]).toEqual([403, 'insufficient_role'])
    expect((await link('admin', user_id, 'U012ABCDEF')).status).toBe(200)
    expect(await accountOf('viewer')).toMatchObject({ id: 'U012ABCDEF' })
    expect((await unlink('admin', user_id)).status).toBe(204)
  })

  test('belongs to one member of the organization', async () => {
    expect((await link('admin', person('member').user_id, 'U012ABCDEF')).status).toBe(200)
    for (const by of ['viewer', 'admin'] as const) {
      const again = await link(by, person(by).user_id, 'U012ABCDEF')
      expect([again.status, again.body.error.code]).toEqual([409, 'conflict'])
    }
    const both = await Promise.all(
      (['owner', 'admin'] as const).map((name) => link(name, person(name).user_id, 'W00000001')),
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
    await link('admin', person('member').user_id, 'U012ABCDEF')
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
    await link('admin', user_id, 'U0AUDITED')
    await unlink('admin', user_id)
    const metadata = { member_id: user_id, service: 'slack', external_id: 'U0AUDITED' }
    expect(await audited()).toEqual([
      { event_type: 'member.account_unlinked', metadata: expect.objectContaining(metadata) },
      { event_type: 'member.account_linked', metadata: expect.objectContaining(metadata) },
    ])
  })
})
