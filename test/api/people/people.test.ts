import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createToolServices } from '../../../src/activities/tool-services.ts'
import type { SmtpSink } from '../../support/smtp-sink.ts'
import { until } from '../../stack/until.ts'
import { linkTested } from '../../../src/governance/people/slack-accounts.ts'
import { connectSlack } from '../../governance/notifications/people.ts'
import { addOrganization, addPerson } from '../fixtures.ts'
import { type Answer, type TestServer } from '../server.ts'
import { eventTypesOf, mailTo, useMailingServer } from '../signed-in.ts'
import { codeOf, placesOf } from '../use-server.ts'

let sink: SmtpSink
let server: TestServer
useMailingServer((...both) => ([server, sink] = both), { STRANGERS_INVITED_PER_DAY: '' })
let owner: { userId: string; key: string }
beforeAll(() => {
  const { user_id: userId, api_key: key } = server.identities.users.owner
  owner = { userId, key }
})

const byOwner = (method: string, path: string, body?: unknown) => server.call(owner.key, method, path, body)
/** Creates an organization of the owner. Returns its id and paths. */
async function organization() {
  const { body } = await byOwner('POST', '/organizations', { name: 'Acme' })
  const id: string = body.id
  return { id, at: (path: string) => `/organizations/${id}/${path}` }
}
/** Adds a person who is not a member of the tested organization. */
async function outsider() {
  const { id } = await organization()
  const person = await addPerson(server.context, id, 'viewer')
  return { ...person, email: `${person.userId}@elsewhere.test` }
}
const statuses = (answers: Answer[]) => answers.map(({ status }) => status).sort((a, b) => a - b)
async function invited(at: (path: string) => string, email: string, more: object = {}) {
  const { status, body } = await byOwner('POST', at('invitations'), { email, ...more })
  expect(status).toBe(201)
  return body
}
const accept = (key: string, token: string) => server.call(key, 'POST', '/invitations/accept', { token })

describe('an invitation', () => {
  test('comes by mail and is accepted once, by the invited person, with its role', async () => {
    const { id, at } = await organization()
    const [one, other] = [await outsider(), await outsider()]
    const { token, link, status } = await invited(at, one.email, { role: 'admin' })
    expect([status, link.endsWith(`/console/invitation?token=${token}`)]).toEqual(['pending', true])
    // The mail library decides where it breaks long lines, so the line breaks are removed.
    const isIn = ({ raw }: { raw: string }) => raw.replaceAll(/=\r?\n/g, '').includes(token)
    await until('the mail', async () => sink.deliveries.some(isIn))
    expect(codeOf(await accept(other.key, token))).toBe('404 not_found')
    expect(codeOf(await accept(one.key, `${token}x`))).toBe('404 not_found')
    expect((await server.call(one.key, 'GET', at('governance'))).status).toBe(404)
    expect((await accept(one.key, token)).body).toEqual({ organization_id: id, role: 'admin' })
    expect((await server.call(one.key, 'GET', at('governance'))).status).toBe(200)
    expect(codeOf(await accept(one.key, token))).toBe('404 not_found')
    const { rows } = await server.context.pool.query('select row_to_json(i) from invitations i')
    expect(JSON.stringify(rows)).not.toContain(token)
  })

  test('of two simultaneous acceptances one succeeds', async () => {
    const { at } = await organization()
    const { key, email } = await outsider()
    const { token } = await invited(at, email)
    const answers = await Promise.all([accept(key, token), accept(key, token)])
    expect(statuses(answers)).toEqual([200, 404])
  })

  test('waits until the address is confirmed', async () => {
    const { at } = await organization()
    const { key, email, userId } = await outsider()
    const { token } = await invited(at, email)
    const confirm = (is: boolean) =>
      server.context.pool.query('update users set email_verified = $2 where id = $1', [userId, is])
    await confirm(false)
    expect(codeOf(await accept(key, token))).toBe('409 conflict')
    await confirm(true)
    expect((await accept(key, token)).status).toBe(200)
  })

  test('ends when it is replaced, revoked or expired, or when its inviter is no longer an owner', async () => {
    const { id, at } = await organization()
    const { key, email } = await outsider()
    const first = await invited(at, email)
    const second = await invited(at, email)
    expect((await accept(key, first.token)).status).toBe(404)
    expect((await byOwner('DELETE', at(`invitations/${second.id}`))).status).toBe(204)
    expect((await accept(key, second.token)).status).toBe(404)
    const third = await invited(at, email)
    const { pool } = server.context
    await pool.query('update invitations set expires_at = now() where id = $1', [third.id])
    expect((await accept(key, third.token)).status).toBe(404)
    const fourth = await invited(at, email)
    await addPerson(server.context, id, 'owner')
    await byOwner('PATCH', at(`members/${owner.userId}`), { role: 'admin' })
    expect((await accept(key, fourth.token)).status).toBe(404)
    await pool.query(`update memberships set role = 'owner' where organization_id = $1`, [id])
    const { data } = (await byOwner('GET', at('invitations'))).body
    expect(data.map((each: { status: string }) => each.status)).toEqual([
      'pending',
      'expired',
      'revoked',
      'revoked',
    ])
  })

  test('is not possible for a member, nor into a personal organization', async () => {
    const { id, at } = await organization()
    const { userId } = await addPerson(server.context, id, 'viewer')
    const invite = async (email: string) => codeOf(await byOwner('POST', at('invitations'), { email }))
    expect(await invite(`${userId}@elsewhere.test`)).toBe('409 conflict')
    await server.context.pool.query('update organizations set personal = true where id = $1', [id])
    expect(await invite('new@acme.test')).toBe('409 conflict')
  })
})

describe('several invitations in one call', () => {
  test('an address that cannot be invited stops no other one, and a repeated call sends none again', async () => {
    const { id, owner } = await addOrganization(server.context)
    const own = await server.context.db.selectFrom('users').select('email').where('id', '=', owner.userId).executeTakeFirstOrThrow() // prettier-ignore
    const emails = ['ann@acme.test', 'nobody', own.email, 'ANN@acme.test', 'bo@acme.test']
    const send = () =>
      server.call(owner.key, 'POST', `/organizations/${id}/invite`, { emails, send_mail: false }, { 'idempotency-key': 'all' }) // prettier-ignore
    const { status, body } = await send()
    expect([status, body.invitations.map(({ email }: { email: string }) => email)]).toEqual([
      201,
      ['ann@acme.test', 'bo@acme.test'],
    ])
    expect(body.refused).toMatchObject([
      { email: 'nobody', code: 'validation_error' },
      { email: own.email.toLowerCase(), code: 'conflict' },
    ])
    expect((await send()).body).toEqual(body)
    const { rows } = await server.context.pool.query('select from invitations where organization_id = $1', [
      id,
    ])
    expect(rows).toHaveLength(2)
  })

  test('if nobody can be invited, the call is refused', async () => {
    const { id, owner } = await addOrganization(server.context)
    const answer = await server.call(owner.key, 'POST', `/organizations/${id}/invite`, { emails: ['nobody'] })
    expect([answer.status, answer.body.error.details]).toEqual([
      422,
      [{ path: 'emails', message: '`nobody`: is no address' }],
    ])
  })
})

describe('invitation mails', () => {
  test('contain no extra line from the inviter', async () => {
    for (const name of ['A\nYour account is locked', 'A\r', 'A\u2028B', 'A\u0007', 'A\u0085']) {
      const { status, body } = await byOwner('POST', '/organizations', { name })
      expect([name, status, body.error.details[0].path]).toEqual([name, 422, 'name'])
    }
  })

  test('stop before they become a nuisance; then the link is handed over', async () => {
    const { id } = await organization()
    const { key } = await addPerson(server.context, id, 'owner')
    const invite = (email: string, more: object = {}) =>
      server.call(key, 'POST', `/organizations/${id}/invitations`, { email, ...more })
    for (let nth = 0; nth < 5; nth += 1) expect((await invite('one@acme.test')).status).toBe(201)
    const refused = await invite('one@acme.test')
    expect(codeOf(refused)).toBe('429 quota_exceeded')
    expect(refused.body.error.details[0].path).toBe('send_mail')
    expect((await invite('one@acme.test', { send_mail: false })).status).toBe(201)
    expect((await invite('two@acme.test')).status).toBe(201)
    // The limit also counts across organizations: this is another one of the same owner.
    const { body: other } = await server.call(key, 'POST', '/organizations', { name: 'Other' })
    const path = `/organizations/${other.id}/invitations`
    expect((await server.call(key, 'POST', path, { email: 'one@acme.test' })).status).toBe(429)
    await server.context.pool.query(
      `insert into invitations (id, organization_id, email, role, token_hash, invited_by, mailed_at, expires_at)
       select 'inv_' || n, $1, 'x' || n || '@acme.test', 'viewer', 'h' || n, invited_by, now(), now()
       from (select invited_by from invitations where organization_id = $1 limit 1), generate_series(1, 94) as n`,
      [id],
    )
    expect((await invite('three@acme.test')).status).toBe(429)
    await server.context.pool.query(`update invitations set mailed_at = now() - interval '61 minutes'`)
    expect((await invite('one@acme.test')).status).toBe(201)
  })
})

describe('strangers', () => {
  test('are invited ten times a day by one person, in all organizations together and whatever is revoked', async () => {
    const { id, at } = await organization()
    const { key } = await addPerson(server.context, id, 'owner')
    const { body: other } = await server.call(key, 'POST', '/organizations', { name: 'Other' })
    const colleague = await addPerson(server.context, id, 'viewer')
    let people = 0
    const invite = (organizationId: string, more: object = { send_mail: false }) =>
      server.call(key, 'POST', `/organizations/${organizationId}/invitations`, {
        email: `stranger${(people += 1)}@elsewhere.test`,
        ...more,
      })
    const first = await invite(id)
    expect((await server.call(key, 'DELETE', at(`invitations/${first.body.id}`))).status).toBe(204)
    // An account makes no difference, so that nobody learns whether an address has one.
    const stranger = await outsider()
    expect((await invite(id, { email: stranger.email })).status).toBe(201)
    const answers = await Promise.all(
      Array.from({ length: 14 }, (_, nth) => invite(nth % 2 === 0 ? id : other.id)),
    )
    expect(statuses(answers)).toEqual([...Array(8).fill(201), ...Array(6).fill(429)])
    const refused = await invite(other.id)
    expect(codeOf(refused)).toBe('429 quota_exceeded')
    expect(refused.body.error.details).toEqual([
      { path: 'strangers_invited_per_day', message: 'the limit is 10' },
    ])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(23 * 3600)
    const { events } = (await server.call(key, 'GET', `/organizations/${other.id}/governance/audit`)).body
    expect(events[0]).toMatchObject({
      event_type: 'quota.exceeded',
      action: 'invite',
      metadata: { limit: 'strangers_invited_per_day', value: 10 },
    })
    // Who was invited today counts once.
    expect((await invite(other.id, { email: stranger.email })).status).toBe(201)
    const known = `${colleague.userId}@elsewhere.test`
    expect((await invite(other.id, { email: known })).status).toBe(201)
    await server.context.pool.query(
      `update invitations set created_at = created_at - interval '1 day' where to_stranger`,
    )
    expect((await invite(other.id)).status).toBe(201)
  })

  test('read our words and the inviter, and only colleagues read the name of the organization', async () => {
    const name = 'Pay at evil.example now'
    const { body } = await byOwner('POST', '/organizations', { name })
    const { id } = await organization()
    const colleague = await addPerson(server.context, id, 'viewer')
    const mailed = async (email: string) => {
      await byOwner('POST', `/organizations/${body.id}/invitations`, { email })
      return mailTo(sink, email.toLowerCase(), 'An invitation to Countersign')
    }
    const inviter = server.identities.users.owner.email
    const toStranger = await mailed('nobody@elsewhere.test')
    expect(toStranger).toContain(`${inviter} invites you to an organization as member.`)
    expect(toStranger).not.toContain('evil')
    const toColleague = await mailed(`${colleague.userId}@elsewhere.test`)
    expect(toColleague).toContain('Pay at evil[.]example now')
    expect(toColleague).not.toContain('evil.example')
  })
})

describe('members', () => {
  test('lose the rights of their role with the next call, including keys, and cannot keep or take them back', async () => {
    const { id, at } = await organization()
    const { userId, key } = await addPerson(server.context, id, 'admin')
    expect((await server.call(key, 'GET', at('governance'))).status).toBe(200)
    const demoted = await byOwner('PATCH', at(`members/${userId}`), { role: 'viewer' })
    expect(demoted.body).toEqual({ user_id: userId, role: 'viewer' })
    expect(codeOf(await server.call(key, 'GET', at('governance')))).toBe('403 insufficient_role')
    const wanted = { name: 'k', scopes: ['rules:write'], organization_id: id }
    expect(codeOf(await server.call(key, 'POST', '/api-keys', wanted))).toBe('403 insufficient_role')
    expect((await byOwner('DELETE', at(`members/${userId}`))).status).toBe(204)
    expect(codeOf(await server.call(key, 'GET', at('rules')))).toBe('404 not_found')
    expect(codeOf(await server.call(key, 'GET', '/runs'))).toBe('404 not_found')
    expect(codeOf(await server.call(key, 'GET', '/api-keys'))).toBe('404 not_found')
  })

  test('may leave, and only an owner removes another', async () => {
    const { id, at } = await organization()
    const one = await addPerson(server.context, id, 'admin')
    const other = await addPerson(server.context, id, 'viewer')
    expect(codeOf(await server.call(one.key, 'DELETE', at(`members/${other.userId}`)))).toBe(
      '403 insufficient_role',
    )
    expect((await server.call(other.key, 'DELETE', at(`members/${other.userId}`))).status).toBe(204)
    const { data } = (await byOwner('GET', at('members'))).body
    const ids = data.map((each: { user_id: string }) => each.user_id)
    expect(ids.sort()).toEqual([owner.userId, one.userId].sort())
  })

  test('always keep an owner, even with simultaneous requests', async () => {
    const { id, at } = await organization()
    await addPerson(server.context, id, 'member')
    const leave = (who: { userId: string; key: string }) =>
      server.call(who.key, 'DELETE', at(`members/${who.userId}`))
    const mine = at(`members/${owner.userId}`)
    expect(codeOf(await leave(owner))).toBe('409 conflict')
    expect(codeOf(await byOwner('PATCH', mine, { role: 'admin' }))).toBe('409 conflict')
    const second = await addPerson(server.context, id, 'owner')
    const both = await Promise.all([leave(owner), leave(second)])
    expect(statuses(both)).toEqual([204, 409])
    const owners = `select from memberships where organization_id = $1 and role = 'owner'`
    expect((await server.context.pool.query(owners, [id])).rowCount).toBe(1)
  })

  test('of two owners who demote each other one stays owner', async () => {
    const { id, at } = await organization()
    const second = await addPerson(server.context, id, 'owner')
    const demote = (key: string, userId: string) =>
      server.call(key, 'PATCH', at(`members/${userId}`), { role: 'viewer' })
    const both = await Promise.all([demote(owner.key, second.userId), demote(second.key, owner.userId)])
    expect(statuses(both)).toEqual([200, 403])
  })

  test('every change is in the organization’s chain', async () => {
    const { id, at } = await organization()
    const { key, email, userId } = await outsider()
    await accept(key, (await invited(at, email, { send_mail: false })).token)
    await byOwner('PATCH', at(`members/${userId}`), { role: 'admin' })
    await server.call(key, 'DELETE', at(`members/${userId}`))
    expect(await eventTypesOf(server, id)).toEqual([
      'organization.created',
      'member.invited',
      'member.joined',
      'member.role_changed',
      'member.left',
    ])
  })
})

describe('Slack accounts', () => {
  beforeAll(async () => {
    const { organization_id: organizationId, users } = server.identities
    const caller = () => ({ userId: users.owner.user_id })
    await connectSlack({ context: server.context, organizationId, caller })
  })
  beforeEach(() => server.context.db.deleteFrom('slack_claims').execute())
  beforeEach(() =>
    server.context.db
      .updateTable('memberships')
      .set({ slack_account: null, slack_linked_at: null })
      .execute(),
  )

  type Name = 'owner' | 'admin' | 'member' | 'viewer'
  const person = (name: Name) => server.identities.users[name]
  const path = (userId: string) =>
    `/organizations/${server.identities.organization_id}/members/${userId}/accounts/slack`
  const link = (by: Name, of: string, external_id = 'U012ABCDEF', code?: string) =>
    server.call(person(by).api_key, 'PUT', path(of), { external_id, code })
  const unlink = (by: Name, of: string) => server.call(person(by).api_key, 'DELETE', path(of))
  /** Asks as this person for a code for their own account, or links it with the code. */
  const linkOwn = (name: Name, account?: string, code?: string) =>
    link(name, person(name).user_id, account, code)
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
  /** The newest test message of an admin to this member has arrived. */
  const arrives = async (name: Name): Promise<void> =>
    linkTested(server.context, server.identities.organization_id, (await claimsOf(name)).at(-1)?.id ?? '')
  /** The newest code that Slack has delivered. */
  const newestCode = async (name: Name): Promise<string> => (await claimsOf(name)).at(-1)?.code ?? ''
  /** A code that differs from the newest one. */
  const wrongCode = async (name: Name): Promise<string> =>
    (await newestCode(name)) === '00000000' ? '00000001' : '00000000'
  const moveClaims = (minutes: number) =>
    server.context.pool.query(
      `update slack_claims set created_at = created_at - make_interval(mins => $1), expires_at = expires_at - make_interval(mins => $1)`,
      [minutes],
    )

  describe('a person’s own Slack account', () => {
    test('is linked with the code that is sent to it, and is that of their runs until it is unlinked', async () => {
      const { user_id } = person('viewer')
      const asked = await linkOwn('viewer')
      const answer = {
        user_id,
        external_id: 'U012ABCDEF',
        linked: false,
        code_expires_at: expect.any(String),
      }
      expect([asked.status, asked.body]).toEqual([200, answer])
      expect(await accountOf('viewer')).toBeNull()
      const me = async () => (await server.call(person('viewer').api_key, 'GET', '/me')).body.organizations
      expect(await me()).toEqual(
        expect.arrayContaining([
          expect.objectContaining({
            slack_account: null,
            slack_claim: {
              external_id: 'U012ABCDEF',
              expires_at: asked.body.code_expires_at,
              needs_code: true,
              problem: null,
            },
          }),
        ]),
      )
      const linked = await linkOwn('viewer', 'U012ABCDEF', await newestCode('viewer'))
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
      const refused = async (account: string, code: string): Promise<void> => {
        const answer = await linkOwn('viewer', account, code)
        expect([codeOf(answer), ...placesOf(answer)]).toEqual(['422 validation_error', 'code'])
        expect(await accountOf('viewer')).toBeNull()
      }
      await refused('U012ABCDEF', '12345678')
      await linkOwn('member', 'U0OTHERONE')
      await linkOwn('viewer')
      const first = await newestCode('viewer')
      await refused('U012ABCDEF', await wrongCode('viewer'))
      await refused('U0ANOTHER1', first)
      await refused('U0OTHERONE', await newestCode('member'))
      await moveClaims(2)
      await linkOwn('viewer')
      const second = await newestCode('viewer')
      if (first !== second) await refused('U012ABCDEF', first)
      await moveClaims(31)
      await refused('U012ABCDEF', second)
    })

    test('takes five guesses, and no sixth', async () => {
      await linkOwn('viewer')
      const wrong = await wrongCode('viewer')
      for (let guess = 0; guess < 5; guess += 1)
        expect((await linkOwn('viewer', 'U012ABCDEF', wrong)).status).toBe(422)
      expect((await linkOwn('viewer', 'U012ABCDEF', await newestCode('viewer'))).status).toBe(422)
    })

    test('gets one code a minute and five in an hour', async () => {
      const first = await linkOwn('viewer')
      expect((await linkOwn('viewer')).body).toEqual(first.body)
      expect(await claimsOf('viewer')).toHaveLength(1)
      for (let more = 1; more < 5; more += 1) {
        await moveClaims(2)
        expect((await linkOwn('viewer')).status).toBe(200)
      }
      await moveClaims(2)
      const { status, body } = await linkOwn('viewer')
      expect([status, body.error.code]).toEqual([429, 'rate_limited'])
      expect((await claimsOf('viewer')).map(({ ended }) => ended)).toEqual([
        ...Array.from({ length: 4 }, () => 'replaced'),
        null,
      ])
      await moveClaims(60)
      expect((await linkOwn('viewer')).status).toBe(200)
    })

    test('gets ten codes in an hour, whoever asks for them', async () => {
      for (const by of ['viewer', 'member'] as const) {
        for (let sent = 0; sent < 5; sent += 1) {
          expect((await linkOwn(by)).status).toBe(200)
          await moveClaims(2)
        }
      }
      // All ten codes count for the member now, so the limit of codes for one person does not refuse the viewer.
      await server.context.pool.query('update slack_claims set user_id = $1', [person('member').user_id])
      const { status, body } = await linkOwn('viewer')
      expect([status, body.error.code]).toEqual([429, 'rate_limited'])
      expect(body.error.message).toContain('to one Slack account')
      expect((await linkOwn('viewer', 'U0ANOTHER1')).status).toBe(200)
      await moveClaims(60)
      expect((await linkOwn('viewer')).status).toBe(200)
    })

    test('gets no code without a connection to Slack, and the answer says who can link it', async () => {
      const rename = (from: string, to: string) =>
        server.context.db
          .updateTable('connections')
          .set({ integration: to })
          .where('integration', '=', from)
          .execute()
      await rename('slack', 'trello')
      const { status, body } = await linkOwn('viewer')
      await rename('trello', 'slack')
      expect([status, body.error.code, body.error.message]).toEqual([
        409,
        'conflict',
        expect.stringContaining('ask an admin'),
      ])
    })

    test('goes with the membership, and its code too', async () => {
      const { user_id } = person('viewer')
      await linkOwn('viewer')
      const { organization_id } = server.identities
      const membership = { organization_id, user_id, role: 'viewer' as const }
      const member = `/organizations/${organization_id}/members/${user_id}`
      expect((await server.call(person('viewer').api_key, 'DELETE', member)).status).toBe(204)
      expect(await claimsOf('viewer')).toEqual([])
      await server.context.db.insertInto('memberships').values(membership).execute()
    })

    test('and the request for a code are in the audit log', async () => {
      const { user_id } = person('viewer')
      await linkOwn('viewer', 'U0AUDITED')
      await linkOwn('viewer', 'U0AUDITED', await newestCode('viewer'))
      expect(await audited(user_id)).toEqual(['member.account_linked', 'member.account_claimed'])
    })
  })

  /** The types of the newest audit entries about the account `U0AUDITED` of this member. */
  const audited = async (member_id: string) => {
    const { rows } = await server.context.pool.query(
      `select event_type from audit_events where event_type like 'member.account_%' and metadata @> $1
       order by seq desc limit 2`,
      [{ member_id, service: 'slack', external_id: 'U0AUDITED' }],
    )
    return rows.map(({ event_type: type }) => type)
  }

  describe('a Slack account', () => {
    test('of another person is linked and unlinked by an admin alone', async () => {
      const { user_id } = person('viewer')
      for (const answer of [await link('member', user_id), await unlink('member', user_id)])
        expect(codeOf(answer)).toBe('403 insufficient_role')
      const sent = await link('admin', user_id)
      expect([sent.status, sent.body.linked, await accountOf('viewer')]).toEqual([200, false, null])
      await arrives('viewer')
      expect(await accountOf('viewer')).toMatchObject({ id: 'U012ABCDEF' })
      expect((await unlink('admin', user_id)).status).toBe(204)
    })

    test('belongs to one member of the organization', async () => {
      expect((await link('admin', person('member').user_id)).status).toBe(200)
      await arrives('member')
      for (const by of ['viewer', 'admin'] as const) {
        expect(codeOf(await linkOwn(by))).toBe('409 conflict')
      }
      const both = ['owner', 'admin'] as const
      await Promise.all(both.map((name) => linkOwn(name, 'W00000001')))
      await Promise.all(both.map(arrives))
      const accounts = await Promise.all(both.map(accountOf))
      expect(accounts.filter((account) => account !== null)).toHaveLength(1)
    })

    test('that is linked again keeps its time', async () => {
      const { pool } = server.context
      const of = 'select slack_linked_at from memberships where user_id = $1 and slack_linked_at is not null'
      const at = async () => (await pool.query(of, [person('member').user_id])).rows
      await link('admin', person('member').user_id)
      await arrives('member')
      const first = await at()
      expect(first).toHaveLength(1)
      await linkOwn('member')
      expect(await at()).toEqual(first)
    })

    test.each(['u012abcdef', '@person', 'C012ABCDEF', 'U1', ''])('is not `%s`', async (external_id) => {
      expect(codeOf(await linkOwn('member', external_id))).toBe('422 validation_error')
    })

    test('of a stranger is not found', async () => {
      expect((await link('admin', 'usr_nobody', 'U012ABCDEF')).status).toBe(404)
    })

    test('and its end are in the audit log', async () => {
      const { user_id } = person('member')
      await link('admin', user_id, 'U0AUDITED')
      await arrives('member')
      expect(await audited(user_id)).toEqual(['member.account_linked', 'member.account_claimed'])
      await unlink('admin', user_id)
      expect(await audited(user_id)).toEqual(['member.account_unlinked', 'member.account_linked'])
    })
  })
})
