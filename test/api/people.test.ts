import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { until } from '../stack/until.ts'
import { addPerson } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

let sink: SmtpSink
let server: TestServer
let owner: { userId: string; key: string }
beforeAll(async () => {
  sink = await startSmtpSink()
  server = await startTestServer({ env: { SMTP_URL: sink.url, STRANGERS_INVITED_PER_DAY: '' } })
  const { user_id: userId, api_key: key } = server.identities.users.owner
  owner = { userId, key }
})
afterAll(async () => {
  await server.close()
  await sink.close()
})

/** Creates an organization of the owner. Returns its id and paths. */
async function organization() {
  const { body } = await server.call(owner.key, 'POST', '/organizations', { name: 'Acme' })
  const id: string = body.id
  return { id, at: (path: string) => `/organizations/${id}/${path}` }
}
/** Adds a person who is not a member of the tested organization. */
async function outsider() {
  const { id } = await organization()
  const person = await addPerson(server.context, id, 'viewer')
  return { ...person, email: `${person.userId}@elsewhere.test` }
}
const codeOf = (answer: { status: number; body?: { error?: { code: string } } }) => [
  answer.status,
  answer.body?.error?.code,
]
const statuses = (answers: { status: number }[]) =>
  answers.map((answer) => answer.status).sort((one, other) => one - other)
async function invited(at: (path: string) => string, email: string, more: object = {}) {
  const { status, body } = await server.call(owner.key, 'POST', at('invitations'), { email, ...more })
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
    expect(codeOf(await accept(other.key, token))).toEqual([404, 'not_found'])
    expect(codeOf(await accept(one.key, `${token}x`))).toEqual([404, 'not_found'])
    expect((await server.call(one.key, 'GET', at('governance'))).status).toBe(404)
    expect((await accept(one.key, token)).body).toEqual({ organization_id: id, role: 'admin' })
    expect((await server.call(one.key, 'GET', at('governance'))).status).toBe(200)
    expect(codeOf(await accept(one.key, token))).toEqual([404, 'not_found'])
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
    expect(codeOf(await accept(key, token))).toEqual([409, 'conflict'])
    await confirm(true)
    expect((await accept(key, token)).status).toBe(200)
  })

  test('ends when it is replaced, revoked or expired, or when its inviter is no longer an owner', async () => {
    const { id, at } = await organization()
    const { key, email } = await outsider()
    const first = await invited(at, email)
    const second = await invited(at, email)
    expect((await accept(key, first.token)).status).toBe(404)
    expect((await server.call(owner.key, 'DELETE', at(`invitations/${second.id}`))).status).toBe(204)
    expect((await accept(key, second.token)).status).toBe(404)
    const third = await invited(at, email)
    const { pool } = server.context
    await pool.query('update invitations set expires_at = now() where id = $1', [third.id])
    expect((await accept(key, third.token)).status).toBe(404)
    const fourth = await invited(at, email)
    await addPerson(server.context, id, 'owner')
    await server.call(owner.key, 'PATCH', at(`members/${owner.userId}`), { role: 'admin' })
    expect((await accept(key, fourth.token)).status).toBe(404)
    await pool.query(`update memberships set role = 'owner' where organization_id = $1`, [id])
    const { data } = (await server.call(owner.key, 'GET', at('invitations'))).body
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
    const body = { email: `${userId}@elsewhere.test` }
    expect(codeOf(await server.call(owner.key, 'POST', at('invitations'), body))).toEqual([409, 'conflict'])
    await server.context.pool.query('update organizations set personal = true where id = $1', [id])
    const other = { email: 'new@acme.test' }
    expect(codeOf(await server.call(owner.key, 'POST', at('invitations'), other))).toEqual([409, 'conflict'])
  })
})

describe('invitation mails', () => {
  test('contain no extra line from the inviter', async () => {
    for (const name of ['A\nYour account is locked', 'A\r', 'A\u2028B', 'A\u0007', 'A\u0085']) {
      const { status, body } = await server.call(owner.key, 'POST', '/organizations', { name })
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
    expect(codeOf(refused)).toEqual([429, 'quota_exceeded'])
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
    expect(codeOf(refused)).toEqual([429, 'quota_exceeded'])
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
    expect((await invite(other.id, { email: stranger.email })).status).toBe(429)
    const known = `${colleague.userId}@elsewhere.test`
    expect((await invite(other.id, { email: known })).status).toBe(201)
    await server.context.pool.query(
      `update invitations set created_at = created_at - interval '1 day' where to_stranger`,
    )
    expect((await invite(other.id)).status).toBe(201)
  })

  test('read our words and the inviter, and only colleagues read the name of the organization', async () => {
    const { body } = await server.call(owner.key, 'POST', '/organizations', {
      name: 'Pay at evil.example now',
    })
    const { id } = await organization()
    const colleague = await addPerson(server.context, id, 'viewer')
    const mailTo = async (email: string) => {
      await server.call(owner.key, 'POST', `/organizations/${body.id}/invitations`, { email })
      const sent = () =>
        sink.deliveries.findLast(({ recipients }) => recipients.includes(email.toLowerCase()))
      await until('the mail', async () => sent() !== undefined)
      return Buffer.from((sent()?.raw ?? '').replaceAll(/=\r?\n/g, ''), 'latin1').toString()
    }
    const inviter = server.identities.users.owner.email
    const toStranger = await mailTo('nobody@elsewhere.test')
    expect(toStranger).toContain(`${inviter} invites you to an organization as member.`)
    expect(toStranger).not.toContain('evil')
    const toColleague = await mailTo(`${colleague.userId}@elsewhere.test`)
    expect(toColleague).toContain('Pay at evil[.]example now')
    expect(toColleague).not.toContain('evil.example')
  })
})

describe('members', () => {
  test('lose the rights of their role with the next call, including keys, and cannot keep or take them back', async () => {
    const { id, at } = await organization()
    const { userId, key } = await addPerson(server.context, id, 'admin')
    expect((await server.call(key, 'GET', at('governance'))).status).toBe(200)
    const demoted = await server.call(owner.key, 'PATCH', at(`members/${userId}`), { role: 'viewer' })
    expect(demoted.body).toEqual({ user_id: userId, role: 'viewer' })
    expect(codeOf(await server.call(key, 'GET', at('governance')))).toEqual([403, 'insufficient_role'])
    const wanted = { name: 'k', scopes: ['rules:write'], organization_id: id }
    expect(codeOf(await server.call(key, 'POST', '/api-keys', wanted))).toEqual([403, 'insufficient_role'])
    expect((await server.call(owner.key, 'DELETE', at(`members/${userId}`))).status).toBe(204)
    expect(codeOf(await server.call(key, 'GET', at('rules')))).toEqual([404, 'not_found'])
    expect(codeOf(await server.call(key, 'GET', '/runs'))).toEqual([404, 'not_found'])
    expect(codeOf(await server.call(key, 'GET', '/api-keys'))).toEqual([404, 'not_found'])
  })

  test('may leave, and only an owner removes another', async () => {
    const { id, at } = await organization()
    const [one, other] = [
      await addPerson(server.context, id, 'admin'),
      await addPerson(server.context, id, 'viewer'),
    ]
    const refused = await server.call(one.key, 'DELETE', at(`members/${other.userId}`))
    expect(codeOf(refused)).toEqual([403, 'insufficient_role'])
    expect((await server.call(other.key, 'DELETE', at(`members/${other.userId}`))).status).toBe(204)
    const { data } = (await server.call(owner.key, 'GET', at('members'))).body
    const ids = data.map((each: { user_id: string }) => each.user_id)
    expect(ids.sort()).toEqual([owner.userId, one.userId].sort())
  })

  test('always keep an owner, even with simultaneous requests', async () => {
    const { id, at } = await organization()
    const [only, ...rest] = [owner, await addPerson(server.context, id, 'member')]
    const leave = (who: { userId: string; key: string }) =>
      server.call(who.key, 'DELETE', at(`members/${who.userId}`))
    const mine = at(`members/${owner.userId}`)
    expect(codeOf(await leave(only))).toEqual([409, 'conflict'])
    const demoted = await server.call(owner.key, 'PATCH', mine, { role: 'admin' })
    expect(codeOf(demoted)).toEqual([409, 'conflict'])
    expect(rest).toHaveLength(1)

    const second = await addPerson(server.context, id, 'owner')
    const both = await Promise.all([leave(owner), leave(second)])
    expect(statuses(both)).toEqual([204, 409])
    const { rows } = await server.context.pool.query(
      `select count(*)::int as n from memberships where organization_id = $1 and role = 'owner'`,
      [id],
    )
    expect(rows).toEqual([{ n: 1 }])
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
    await server.call(owner.key, 'PATCH', at(`members/${userId}`), { role: 'admin' })
    await server.call(key, 'DELETE', at(`members/${userId}`))
    const rows = await server.context.db
      .selectFrom('audit_events')
      .select('event_type')
      .where('organization_id', '=', id)
      .orderBy('seq')
      .execute()
    expect(rows.map((row) => row.event_type)).toEqual([
      'organization.created',
      'member.invited',
      'member.joined',
      'member.role_changed',
      'member.left',
    ])
  })
})
