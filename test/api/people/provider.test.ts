import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { providerAnswerPath } from '../../../src/contract/pages.ts'
import { textsOf } from '../../../src/api/routes/sign-in.ts'
import { recordAccountEvents } from '../../../src/governance/people/account-events.ts'
import {
  startCompanyProvider,
  startLyingProvider,
  type CompanyProvider,
  type LyingProvider,
} from '../../support/company-provider.ts'
import { startNameServer, type NameServer } from '../../support/name-server.ts'
import { Browser } from '../browser.ts'
import { addKey, addOrganization, addPerson, enrolPeople, factorCookie, sessionCookie } from '../fixtures.ts'
import type { Answer, TestServer } from '../server.ts'
import { stopped } from '../stopped.ts'
import { codeOf, useServer } from '../use-server.ts'
import { certificates } from '../../support/saml-provider.ts'

/* People sign in with the provider of their company: a real one, and one that lies. */

const publicUrl = 'http://127.0.0.1:9'
const answerPath = (organization: string) => providerAnswerPath.replace(':id', organization)
let server: TestServer
let names: NameServer
let company: CompanyProvider
let organizationId = ''
const { ours, personOf } = useServer(
  async (started) => {
    server = started
    organizationId = server.identities.organization_id
    const logout = `${server.base}/api/v1/organizations/${organizationId}/sign-in/logout`
    company = await startCompanyProvider(`${publicUrl}${answerPath(organizationId)}`, logout)
  },
  { PUBLIC_URL: publicUrl },
  { resolveTxt: (name) => textsOf(names.resolver, name) },
)
beforeAll(async () => {
  names = await startNameServer()
})
afterAll(async () => {
  await company?.close()
  await names?.close()
})

const setting = (more: object = {}) => ({
  issuer: company.url,
  client_id: company.client.id,
  client_secret: company.client.secret,
  domains: ['acme.example'],
  ...more,
})
const save = (more: object = {}) => ours('owner', 'PUT', '/sign-in', setting(more))

/** Puts the record of each domain into DNS, and proves them. */
async function prove(): Promise<Answer> {
  const { body } = await ours('owner', 'GET', '/sign-in')
  let last: Answer | null = null
  for (const { domain, record } of body.provider.domains) {
    names.records.set(record.name, [record.value])
    last = await ours('owner', 'POST', `/sign-in/domains/${domain}/prove`)
    expect(last.status).toBe(200)
  }
  return last as Answer
}

/** The provider is as in a new organization, and nobody has signed in with it. */
beforeEach(async () => {
  const { pool } = server.context
  await pool.query('delete from auth_sessions')
  await pool.query('delete from sign_in_providers')
  await pool.query('delete from auth_rate_limits')
  await pool.query(`update organizations set settings = '{}'`)
  names.records.clear()
  company.people.clear()
})

let people = 0
/** A new person of the company, who signs in at the provider from now on. */
function employ(claims: object = {}): { subject: string; email: string } {
  people += 1
  const subject = `person-${people}`
  const email = `person-${people}@acme.example`
  company.people.set(subject, { email, email_verified: true, name: `Person ${people}`, ...claims })
  company.subject = subject
  return { subject, email }
}

/** Goes through the whole sign-in; returns the last answer. */
async function signIn(
  email: string,
  browser = new Browser(server),
): Promise<{ answer: Answer; browser: Browser }> {
  const begun = await browser.auth('sign-in/provider', { email, place: '/console/runs' })
  expect(begun.status).toBe(200)
  return { answer: await bring(browser, await company.signIn(begun.body.url)), browser }
}

/** As the page does to which the provider sent the browser. */
const answerOf = ({ pathname, searchParams }: URL): string => {
  searchParams.set('organization', pathname.slice(answerPath('').length))
  return `/api/auth/sign-in/provider/answer?${searchParams.toString()}`
}
const bring = (browser: Browser, back: URL) => browser.send('GET', answerOf(back))

const me = async (browser: Browser) => (await browser.send('GET', '/me')).body
const roleOf = async (email: string): Promise<string | null> => {
  const { rows } = await server.context.pool.query<{ role: string }>(
    'select role from memberships m join users u on u.id = m.user_id where u.email = $1 and organization_id = $2',
    [email, organizationId],
  )
  return rows[0]?.role ?? null
}
const lastAudit = async (type: string) => {
  await recordAccountEvents(server.context)
  const { rows } = await server.context.pool.query<{ canonical: string }>(
    'select canonical from audit_events where organization_id = $1 and event_type = $2 order by seq desc limit 1',
    [organizationId, type],
  )
  return rows[0] === undefined ? null : JSON.parse(rows[0].canonical)
}

describe('the setting', () => {
  test('is shown without its secret, which is sealed, and the audit log has what was and what is', async () => {
    const saved = await save({ default_role: 'viewer' })
    expect(saved.status).toBe(200)
    expect(saved.text).not.toContain(company.client.secret)
    const changed = await save({
      client_secret: undefined,
      default_role: 'member',
      role_map: { it: 'admin' },
    })
    expect(changed.body).toMatchObject({ default_role: 'member', role_map: { it: 'admin' } })
    const entry = await lastAudit('sign_in.provider_saved')
    expect(entry.metadata).toMatchObject({
      before: { default_role: 'viewer', role_map: {} },
      after: { default_role: 'member', role_map: { it: 'admin' } },
    })
    expect(JSON.stringify(entry)).not.toContain(company.client.secret)
    const { rows } = await server.context.pool.query('select * from sign_in_providers')
    expect(Buffer.from(rows[0].client_secret_sealed).includes(company.client.secret)).toBe(false)
  })

  test('does not send the stored secret to another issuer or client', async () => {
    await save()
    const other = await save({ client_secret: undefined, issuer: 'https://elsewhere.example' })
    expect([codeOf(other), other.body.error.details[0].path]).toEqual([
      '422 validation_error',
      'client_secret',
    ])
    expect(codeOf(await save({ client_secret: undefined, client_id: 'another' }))).toBe(
      '422 validation_error',
    )
  })

  test('takes no address of the operator’s network, and no plain http', async () => {
    expect(codeOf(await save({ issuer: 'http://login.acme.example' }))).toBe('422 validation_error')
    const inside = await save({ issuer: 'https://10.0.0.1' })
    expect(inside.status).toBe(200)
    const tested = await ours('owner', 'POST', '/sign-in/test')
    expect(tested.body).toMatchObject({ ok: false, message: expect.stringContaining('cannot be reached') })
  })

  test('is for owners', async () => {
    expect(codeOf(await ours('admin', 'GET', '/sign-in'))).toBe('403 insufficient_role')
  })

  test('is tested: the answer says what is wrong', async () => {
    await save()
    expect((await ours('owner', 'POST', '/sign-in/test')).body.ok).toBe(true)
    await save({ issuer: `${company.url}/nothing` })
    const { body } = await ours('owner', 'POST', '/sign-in/test')
    expect(body).toMatchObject({ ok: false, message: expect.stringContaining('check `issuer`') })
  })
})

test('another kind of provider with the same issuer forgets who its people were', async () => {
  await save({ default_role: 'viewer' })
  await prove()
  const { email } = employ()
  expect((await signIn(email)).answer.status).toBe(200)
  const linked = async () =>
    (await ours('owner', 'GET', '/members')).body.data.find((each: { email: string }) => each.email === email)
      .company_sign_in
  expect((await save({ default_role: 'member' })).status).toBe(200)
  expect(await linked()).toBe(true)
  const { client_id: _, client_secret: __, ...rest } = setting()
  const saml = { ...rest, kind: 'saml', sso_url: `${company.url}/sso`, certificates: [certificates.own] }
  expect((await ours('owner', 'PUT', '/sign-in', saml)).status).toBe(200)
  expect(await linked()).toBe(false)
  // Also if the provider was removed in between.
  await save({ default_role: 'viewer' })
  expect((await signIn(email)).answer.status).toBe(200)
  await ours('owner', 'DELETE', '/sign-in')
  await ours('owner', 'PUT', '/sign-in', saml)
  expect(await linked()).toBe(false)
})

describe('while `loosening` is `second_person`', () => {
  let second: { userId: string; key: string }
  beforeAll(async () => {
    second = await addPerson(server.context, organizationId, 'owner')
  })
  afterAll(() => ours('owner', 'PATCH', `/members/${second.userId}`, { role: 'member' }))
  const loosening = (how: string) => ours('owner', 'PATCH', '/governance', { loosening: how })
  const protect = () => loosening('second_person')
  afterEach(async () => {
    await approve(await held(loosening('free')))
  })
  const held = async (asked: Promise<Answer>): Promise<string> => {
    const { status, body } = await asked
    expect([status, body]).toMatchObject([202, { change: { status: 'pending' } }])
    return body.change.id
  }
  const approve = (id: string, key = second.key) => server.call(key, 'POST', `/approvals/${id}/approve`, {})

  test('a provider waits with its secret, which nobody sees, and works once another owner approved it', async () => {
    await protect()
    const id = await held(save({ default_role: 'viewer' }))
    expect((await ours('owner', 'GET', '/sign-in')).body.provider).toBeNull()
    expect(codeOf(await approve(id, (await addPerson(server.context, organizationId, 'admin')).key))).toBe('403 not_an_approver') // prettier-ignore
    const { text, body } = await server.call(second.key, 'GET', `/approvals/${id}`)
    expect(text).not.toContain(company.client.secret)
    expect(body).toMatchObject({ summary: 'Set up the company sign-in', params: { before: null, after: { issuer: company.url, default_role: 'viewer' } } }) // prettier-ignore
    expect((await approve(id)).body).toMatchObject({ status: 'approved' })
    expect((await lastAudit('sign_in.provider_saved')).metadata).toMatchObject({ approved_by: second.userId })
    await prove()
    const { email } = employ()
    expect((await signIn(email)).answer.status).toBe(200)
    expect(await roleOf(email)).toBe('viewer')
  })

  test('more for a role or a group waits, and less holds at once', async () => {
    const map = { groups_claim: 'groups', role_map: { it: 'admin' }, default_role: 'viewer' }
    await save(map)
    await protect()
    await held(save({ ...map, role_map: { it: 'admin', interns: 'admin' } }))
    await held(save({ ...map, default_role: 'admin' }))
    await held(save({ ...map, group_map: { interns: 'finance' } }))
    // An owner who runs another provider could sign in there as the other one.
    const id = await held(save({ ...map, issuer: `${company.url}/other` }))
    expect((await save({ ...map, client_secret: undefined, role_map: { it: 'member' } })).body).toMatchObject({ role_map: { it: 'member' } }) // prettier-ignore
    expect((await approve(id)).body.error.message).toMatch(/was changed meanwhile/)
    expect((await ours('owner', 'DELETE', '/sign-in')).status).toBe(204)
  })

  test('a SCIM token counts once another owner approved it', async () => {
    await save()
    await prove()
    await protect()
    const { status, body } = await ours('owner', 'POST', '/scim-tokens', { name: 'Okta' })
    expect([status, body.change.token]).toEqual([202, expect.stringMatching(/^csm_/)])
    const { origin } = new URL(server.base)
    const listed = () =>
      fetch(`${origin}/scim/v2/Users`, { headers: { authorization: `Bearer ${body.change.token}` } })
    expect((await listed()).status).toBe(401)
    const shown = await server.call(second.key, 'GET', `/approvals/${body.change.id}`)
    expect(shown.text).not.toContain('csm_')
    expect(shown.body.params.after).toEqual({ name: 'Okta', days: 180 })
    expect((await approve(body.change.id)).status).toBe(200)
    expect((await listed()).status).toBe(200)
  })
})

describe('a domain', () => {
  test('counts only after its TXT record was found', async () => {
    await save({ default_role: 'viewer' })
    const { email } = employ()
    const early = await new Browser(server).auth('sign-in/provider', { email })
    expect(early.status).toBe(404)
    const missing = await ours('owner', 'POST', '/sign-in/domains/acme.example/prove')
    expect(codeOf(missing)).toBe('409 conflict')
    expect(missing.body.error.message).toMatch(/TXT record of `_countersign\.acme\.example`/)
    expect((await prove()).body.domains).toMatchObject([{ domain: 'acme.example', proven_by: 'dns' }])
    expect((await lastAudit('sign_in.domain_proven')).metadata).toMatchObject({ domain: 'acme.example' })
    expect((await signIn(email)).answer.status).toBe(200)
  })

  test('belongs to one organization', async () => {
    await save()
    await prove()
    const other = await addOrganization(server.context)
    const path = `/organizations/${other.id}/sign-in`
    const { body } = await server.call(other.owner.key, 'PUT', path, setting())
    const [{ record }] = body.domains
    names.records.set(record.name, [record.value])
    const second = await server.call(other.owner.key, 'POST', `${path}/domains/acme.example/prove`)
    expect(codeOf(second)).toBe('409 conflict')
    expect(second.body.error.message).toContain('ask the operator')
  })

  test('of another organization admits nobody, whatever the provider says', async () => {
    await save({ default_role: 'viewer' })
    await prove()
    const { email, subject } = employ()
    company.people.set(subject, { email: 'ana@rival.example', email_verified: true })
    const { answer } = await signIn(email)
    expect([answer.status, answer.body.message]).toEqual([403, expect.stringContaining('not proven')])
    expect(await roleOf('ana@rival.example')).toBeNull()
  })
})

describe('a first sign-in', () => {
  beforeEach(async () => {
    await save({ default_role: 'member' })
    await prove()
  })

  test('makes an account, joins with the role, and opens a session', async () => {
    const { email } = employ()
    const { answer, browser } = await signIn(email)
    expect(answer.body).toEqual({ place: '/console/runs', organization_id: organizationId })
    expect(await me(browser)).toMatchObject({
      user: { email, name: `Person ${people}`, email_verified: true },
      organizations: [{ id: organizationId, role: 'member' }],
      session_opened_with: 'provider',
      has_second_factor: false,
    })
    const joined = await lastAudit('member.joined')
    expect(joined).toMatchObject({
      actor: { type: 'system', id: 'sign-in provider' },
      metadata: { role: 'member' },
    })
    const linked = await lastAudit('member.identity_linked')
    expect(linked.metadata).toMatchObject({ member_id: joined.metadata.member_id, issuer: company.url })
    expect(await lastAudit('session.started')).not.toBeNull()
  })

  test('needs a role', async () => {
    await save({ default_role: null })
    const { answer } = await signIn(employ().email)
    expect([answer.status, answer.body.message]).toEqual([403, expect.stringContaining('give you no role')])
  })

  test('needs an address that the provider does not call unconfirmed', async () => {
    const { answer } = await signIn(employ({ email_verified: false }).email)
    expect([answer.status, answer.body.message]).toEqual([403, expect.stringContaining('not confirmed')])
  })

  test('links a member with a confirmed address of the domain, once', async () => {
    const { email } = employ()
    const { userId } = await addPerson(server.context, organizationId, 'admin')
    await server.context.pool.query('update users set email = $1 where id = $2', [email, userId])
    const { browser } = await signIn(email)
    expect((await me(browser)).user.id).toBe(userId)
    expect(await roleOf(email)).toBe('admin')
    expect((await lastAudit('member.identity_linked')).metadata).toMatchObject({ member_id: userId })
    // Another subject with the same address is another person.
    const { email: _, subject } = employ({ email })
    const second = await signIn(email)
    expect([subject, second.answer.status]).toEqual([company.subject, 409])
    expect(second.answer.body.message).toContain('another person of your provider')
  })

  test('never takes an account of somebody who is no member', async () => {
    const { email } = employ()
    const other = await addOrganization(server.context)
    await server.context.pool.query('update users set email = $1 where id = $2', [email, other.owner.userId])
    const { answer } = await signIn(email)
    expect([answer.status, answer.body.message]).toEqual([409, expect.stringContaining('sign in to it')])
    expect(await roleOf(email)).toBeNull()
    // Who is signed in to it in the same browser has proven both.
    const cookie = await factorCookie(server.context, other.owner.userId)
    const browser = new Browser(server)
    const begun = await browser.auth('sign-in/provider', { email })
    const back = await company.signIn(begun.body.url)
    const linked = await server.call(null, 'GET', answerOf(back), undefined, {
      cookie: `${browser.cookie}; ${cookie}`,
      origin: server.base,
    })
    expect(linked.status).toBe(200)
    expect(await roleOf(email)).toBe('member')
  })

  test('the subject stays the person when the address there changes', async () => {
    const { email, subject } = employ()
    await signIn(email)
    company.people.set(subject, { email: `new-${email}`, email_verified: true })
    const { browser } = await signIn(email)
    expect((await me(browser)).user.email).toBe(email)
  })
})

describe('a person who was removed', () => {
  beforeEach(async () => {
    await save({ default_role: 'member' })
    await prove()
  })
  const gone = async (way: 'removed' | 'left') => {
    const { email } = employ()
    const { browser } = await signIn(email)
    const { id } = (await me(browser)).user
    const path = `/members/${id}`
    if (way === 'removed') expect((await ours('owner', 'DELETE', path)).status).toBe(204)
    else expect((await browser.send('DELETE', `/organizations/${organizationId}${path}`)).status).toBe(204)
    return { email, id }
  }

  test('does not come back by a sign-in, but by an invitation', async () => {
    const { email, id } = await gone('removed')
    const { answer } = await signIn(email)
    expect([answer.status, answer.body.message]).toEqual([403, expect.stringContaining('an invitation')])
    expect(await roleOf(email)).toBeNull()
    const invited = await ours('owner', 'POST', '/invitations', { email, role: 'viewer', send_mail: false })
    const { token } = invited.body
    const cookie = await sessionCookie(server.context, id)
    const headers = { cookie, origin: server.base }
    const joined = await server.call(null, 'POST', '/invitations/accept', { token }, headers)
    expect(joined.status).toBe(200)
    expect((await signIn(email)).answer.status).toBe(200)
  })

  test('who has left may come back', async () => {
    const { email } = await gone('left')
    expect((await signIn(email)).answer.status).toBe(200)
  })

  test.each([
    ['is removed', (id: string) => ours('owner', 'DELETE', `/members/${id}`)],
    ['is unlinked', (id: string) => ours('owner', 'DELETE', `/members/${id}/sign-in`)],
    ['loses the provider', () => save({ client_id: 'another' })],
  ])('has no session if the person %s while it is made', async (_, end) => {
    const { email } = employ()
    const { browser } = await signIn(email)
    const { id } = (await me(browser)).user
    const newSession = { table: 'auth_sessions', kind: 'insert', when: `new.opened_with = 'provider'` }
    const { answer } = await stopped(
      server,
      newSession,
      () => signIn(email),
      async () => expect((await end(id)).status).toBeLessThan(300),
    )
    expect(answer.status).toBe(404)
    const { rows } = await server.context.pool.query('select from auth_sessions where user_id = $1', [id])
    expect(rows).toEqual([])
  })
})

describe('an owner unlinks a sign-in', () => {
  test('which ends its sessions; the next person with the address is linked', async () => {
    await save({ default_role: 'member' })
    await prove()
    const { email } = employ()
    const { browser } = await signIn(email)
    const { id } = (await me(browser)).user
    const linked = async () => {
      const { data } = (await ours('owner', 'GET', '/members?limit=200')).body
      return data.find((each: { user_id: string }) => each.user_id === id).company_sign_in
    }
    expect(await linked()).toBe(true)
    const path = `/members/${id}/sign-in`
    expect(codeOf(await ours('admin', 'DELETE', path))).toBe('403 insufficient_role')
    expect((await ours('owner', 'DELETE', path)).status).toBe(204)
    expect((await lastAudit('member.identity_unlinked')).metadata).toMatchObject({
      member_id: id,
      issuer: company.url,
      ended_sessions: 1,
    })
    expect((await browser.send('GET', '/me')).status).toBe(401)
    expect([await linked(), codeOf(await ours('owner', 'DELETE', path))]).toEqual([false, '404 not_found'])
    employ({ email })
    expect((await signIn(email)).answer.status).toBe(200)
  })
})

describe('one person has one account here', () => {
  const insert = (table: string, row: object) =>
    server.context.pool.query(
      `insert into ${table} select * from jsonb_populate_record(null::${table}, $1)`,
      [JSON.stringify(row)],
    )

  test('no two accounts have one subject, or one address in two spellings', async () => {
    await save({ default_role: 'member' })
    await prove()
    const { email } = employ()
    await signIn(email)
    const { pool } = server.context
    const { rows: users } = await pool.query('select * from users where email = $1', [email])
    const twin = { ...users[0], id: 'usr_01M84JRMXWJCN4SAPKWPR67K5T', email: email.toUpperCase() }
    await expect(insert('users', twin)).rejects.toThrow('users_email')
    const { rows } = await pool.query('select * from sign_in_identities')
    const { userId } = personOf('member')
    await expect(insert('sign_in_identities', { ...rows[0], user_id: userId })).rejects.toThrow('_pkey')
    await expect(insert('sign_in_identities', { ...rows[0], subject: 'another' })).rejects.toThrow('user_id')
  })
})

describe('groups of the provider', () => {
  const map = { groups_claim: 'groups', role_map: { finance: 'member', 'it-admins': 'admin' } }
  beforeEach(async () => {
    await save(map)
    await prove()
  })

  test('set the role at each sign-in, and end the membership', async () => {
    const { email, subject } = employ({ groups: ['finance', 'it-admins'] })
    await signIn(email)
    expect(await roleOf(email)).toBe('admin')
    company.people.get(subject)!['groups'] = ['finance']
    const { browser } = await signIn(email)
    expect(await roleOf(email)).toBe('member')
    expect((await lastAudit('member.role_changed')).metadata).toMatchObject({ from: 'admin', to: 'member' })
    company.people.get(subject)!['groups'] = ['others']
    expect((await signIn(email)).answer.status).toBe(403)
    expect(await roleOf(email)).toBeNull()
    expect((await browser.send('GET', `/organizations/${organizationId}/rules`)).status).toBe(401)
    // The same subject comes back as the same person.
    company.people.get(subject)!['groups'] = ['finance']
    expect((await signIn(email)).answer.status).toBe(200)
  })

  test.each([
    ['a text', 'it-admins'],
    ['missing', undefined],
    ['huge', Array.from({ length: 1_001 }, () => 'it-admins')],
    ['an object', { 'it-admins': true }],
    ['a list of objects', [{ name: 'it-admins' }]],
  ])('are refused if the claim is %s, and nothing changes', async (_, groups) => {
    const { email, subject } = employ({ groups: ['finance'] })
    await signIn(email)
    company.people.get(subject)!['groups'] = groups
    const { answer } = await signIn(email)
    expect([answer.status, answer.body.message]).toEqual([403, expect.stringContaining('no usable list')])
    expect(await roleOf(email)).toBe('member')
  })

  test('put people into the groups that the map names, and take them out', async () => {
    for (const name of ['finance', 'legal', 'other'])
      expect([201, 409]).toContain((await ours('owner', 'POST', '/groups', { name })).status)
    await save({ ...map, group_map: { finance: 'finance', lawyers: 'legal', gone: 'never-made' } })
    const { email, subject } = employ({ groups: ['finance', 'gone'] })
    await signIn(email)
    const groupsNow = async () => {
      const { rows } = await server.context.pool.query(
        'select g.name from group_members m join groups g on g.id = m.group_id join users u on u.id = m.user_id where u.email = $1 order by 1',
        [email],
      )
      return rows.map(({ name }) => name)
    }
    expect(await groupsNow()).toEqual(['finance'])
    expect(await lastAudit('group.member_added')).toMatchObject({
      actor: { type: 'system' },
      metadata: { name: 'finance' },
    })
    const { data } = (await ours('owner', 'GET', '/groups')).body
    const { id } = data.find(({ name }: { name: string }) => name === 'other')
    await ours('owner', 'PUT', `/groups/${id}/members/${email}`)
    company.people.get(subject)!['groups'] = ['finance-before', 'lawyers', 'it-admins']
    await signIn(email)
    expect(await groupsNow()).toEqual(['legal', 'other'])
    expect((await lastAudit('group.member_removed')).metadata).toMatchObject({ name: 'finance' })
    // In a group of a file, the file says who is.
    const legal = { kind: 'group', name: 'legal', members: [] }
    expect((await ours('owner', 'POST', '/apply', { objects: [legal] })).status).toBe(200)
    await signIn(email)
    expect(await groupsNow()).toEqual(['other'])
  })

  test('never take the last owner', async () => {
    const { email } = employ({ groups: ['others'] })
    const { userId } = personOf('owner')
    const { pool } = server.context
    const before = await pool.query('select email from users where id = $1', [userId])
    await pool.query('update users set email = $1 where id = $2', [email, userId])
    const { browser } = await signIn(email)
    expect(await roleOf(email)).toBe('owner')
    // The sign-in is linked, so another person there with this address is refused.
    employ({ email, groups: ['it-admins'] })
    expect((await signIn(email)).answer.status).toBe(409)
    expect((await browser.send('GET', '/me')).status).toBe(200)
    await pool.query('update users set email = $1 where id = $2', [before.rows[0].email, userId])
  })
})

describe('a session of the provider', () => {
  let email = ''
  let browser: Browser
  beforeEach(async () => {
    await save({ default_role: 'admin' })
    await prove()
    email = employ().email
    browser = (await signIn(email)).browser
  })

  test('acts only in its organization, and so do the keys that it makes', async () => {
    const { user } = await me(browser)
    const other = await addOrganization(server.context)
    await server.context.db
      .insertInto('memberships')
      .values({ organization_id: other.id, user_id: user.id, role: 'owner' })
      .execute()
    const there = `/organizations/${other.id}/members`
    expect(codeOf(await browser.send('GET', there))).toBe('403 sso_required')
    expect((await me(browser)).organizations.map(({ id }: { id: string }) => id)).toEqual([organizationId])
    const scopes = ['rules:read', 'organizations:*', 'api_keys:*', 'agents:authorize']
    const made = await browser.send('POST', '/api-keys', { name: 'k', scopes })
    expect(made.status).toBe(201)
    const key = made.body.api_key
    expect((await server.call(key, 'GET', `/organizations/${organizationId}/rules`)).status).toBe(200)
    expect(codeOf(await server.call(key, 'GET', there))).toBe('403 sso_required')
    const inherited = await server.call(key, 'POST', '/api-keys', { name: 'k2', scopes: ['organizations:*'] })
    expect(codeOf(await server.call(inherited.body.api_key, 'GET', there))).toBe('403 sso_required')
    expect(codeOf(await server.call(key, 'POST', '/organizations', { name: 'Mine' }))).toBe(
      '403 sso_required',
    )
    const asked = await server.call(key, 'POST', '/authorize', {
      agent: { name: 'Claude Code', kind: 'claude-code' },
      session_id: 's-bound',
      tool_name: 'Read',
      tool_input: { file_path: '/a' },
      organization_id: other.id,
    })
    expect(asked.body).toMatchObject({ decision: 'deny', reason: 'another organization' })
    // A key of the person that no provider had a part in is not bound.
    const free = await addKey(server.context, organizationId, user.id, scopes)
    expect((await server.call(free.secret, 'GET', there)).status).toBe(200)
  })

  test('does not change the account', async () => {
    for (const [path, body] of [
      ['change-password', { currentPassword: 'x', newPassword: 'y'.repeat(12) }],
      ['two-factor/enable', { password: 'x' }],
      ['two-factor/verify-totp', { code: '123456' }],
      ['update-user', { name: 'Eve' }],
      ['revoke-sessions', {}],
    ] as const)
      expect([path, (await browser.auth(path, body)).status]).toEqual([path, 403])
  })

  test('ends after twelve hours, in every check', async () => {
    const { pool } = server.context
    await pool.query(`update auth_sessions set created_at = now() - interval '12 hours 1 minute'`)
    expect((await browser.send('GET', '/me')).status).toBe(401)
  })

  test('ends when the person signs out at the provider', async () => {
    const other = await signIn(email)
    await company.signOut()
    expect((await other.browser.send('GET', '/me')).status).toBe(401)
    // This one belongs to another session there.
    expect((await browser.send('GET', '/me')).status).toBe(200)
    expect(await lastAudit('session.ended')).not.toBeNull()
  })

  test('ends when the owner removes the provider or sets another client', async () => {
    await save({ default_role: 'admin', client_id: 'another' })
    expect((await browser.send('GET', '/me')).status).toBe(401)
    expect((await ours('owner', 'DELETE', '/sign-in')).status).toBe(204)
    expect((await lastAudit('sign_in.provider_removed')).metadata.before.client_id).toBe('another')
  })

  test('counts as one with a second factor only if the provider says so, or the owner', async () => {
    await server.context.pool.query(`update organizations set settings = '{"require_mfa": true}'`)
    const path = `/organizations/${organizationId}/rules`
    const refused = await browser.send('GET', path)
    expect([codeOf(refused), refused.body.error.message]).toEqual([
      '403 mfa_required',
      expect.stringContaining('checks_factor'),
    ])
    await server.context.pool.query('update sign_in_providers set checks_factor = true')
    const again = await signIn(email)
    expect((await again.browser.send('GET', path)).status).toBe(200)
    expect(await me(again.browser)).toMatchObject({
      session_opened_with: 'provider+factor',
      has_second_factor: true,
    })
  })
})

describe('`require_sso`', () => {
  const require = () => ours('owner', 'PATCH', '/governance', { require_sso: true })

  test('needs a provider that somebody has used, and an owner with a way past it', async () => {
    expect(codeOf(await require())).toBe('409 conflict')
    await save({ default_role: 'member' })
    await prove()
    expect((await require()).body.error.message).toContain('sign in once')
    await signIn(employ().email)
    expect((await require()).body.error.message).toContain('second factor')
    await enrolPeople(server.context, [personOf('owner').userId])
    expect((await require()).status).toBe(200)
    expect(codeOf(await ours('owner', 'DELETE', '/sign-in'))).toBe('409 conflict')
  })

  test('no password session counts, but an owner’s with a second factor, which is audited', async () => {
    await save({ default_role: 'member' })
    await prove()
    const { browser } = await signIn(employ().email)
    await server.context.pool.query(
      `update organizations set settings = '{"require_sso": true}' where id = $1`,
      [organizationId],
    )
    const { pool } = server.context
    const path = `/organizations/${organizationId}/rules`
    const send = async (who: 'owner' | 'admin', factor: boolean) => {
      await pool.query('update users set two_factor_enabled = $2 where id = $1', [
        personOf(who).userId,
        factor,
      ])
      const cookie = await factorCookie(server.context, personOf(who).userId)
      if (!factor)
        await pool.query(`update auth_sessions set opened_with = 'password' where user_id = $1`, [
          personOf(who).userId,
        ])
      return server.call(null, 'GET', path, undefined, { cookie })
    }
    expect((await browser.send('GET', path)).status).toBe(200)
    expect(codeOf(await send('admin', true))).toBe('403 sso_required')
    expect(codeOf(await send('owner', false))).toBe('403 sso_required')
    expect((await send('owner', true)).status).toBe(200)
    expect(await lastAudit('session.beside_provider')).toMatchObject({ user_id: personOf('owner').userId })
  })

  test('a key counts if it was made here: one of another organization could be made with a password', async () => {
    await save({ default_role: 'member' })
    await prove()
    await server.context.pool.query(
      `update organizations set settings = '{"require_sso": true}' where id = $1`,
      [organizationId],
    )
    const path = `/organizations/${organizationId}/rules`
    const admin = personOf('admin')
    expect((await server.call(admin.key, 'GET', path)).status).toBe(200)
    const { id: other } = await addOrganization(server.context)
    await server.context.db
      .insertInto('memberships')
      .values({ organization_id: other, user_id: admin.userId, role: 'owner' })
      .execute()
    const { secret: foreign } = await addKey(server.context, other, admin.userId, ['rules:read'])
    expect(codeOf(await server.call(foreign, 'GET', path))).toBe('403 sso_required')
  })
})

describe('an answer of the provider is refused', () => {
  let liar: LyingProvider
  const email = 'liar@acme.example'
  beforeEach(async () => {
    liar ??= await startLyingProvider(company.client, { sub: 'liar', email, email_verified: true })
    Object.assign(liar, { claims: {}, signedWith: 'own', secrets: [], sendsIssuer: true })
    await save({ issuer: liar.url, default_role: 'member' })
    await prove()
  })
  afterAll(() => liar?.close())

  const begin = async (browser: Browser) =>
    (await browser.auth('sign-in/provider', { email })).body.url as string
  const whole = async (): Promise<Answer> => {
    const browser = new Browser(server)
    return bring(browser, liar.answerTo(await begin(browser)))
  }

  test('unless it is honest', async () => {
    expect((await whole()).status).toBe(200)
  })

  test.each([
    ['for another client', { aud: 'another' }],
    ['for several clients without `azp`', { aud: ['countersign', 'another'] }],
    ['of another issuer', { iss: 'https://elsewhere.example' }],
    ['with another nonce', { nonce: 'another' }],
    ['without a nonce', { nonce: undefined }],
    ['that has ended', { exp: 1 }],
    ['of nobody', { sub: undefined }],
    ['with a huge subject', { sub: 's'.repeat(300) }],
    ['with a huge name of its session', { sid: 's'.repeat(300) }],
    ['with a name of its session that cannot be stored', { sid: 's\u0000' }],
  ])('with a token %s', async (_, claims) => {
    liar.claims = claims
    expect([403, 409]).toContain((await whole()).status)
    expect((await server.context.pool.query('select from auth_sessions')).rowCount).toBe(0)
  })

  test.each(['other', 'secret'] as const)(
    'with a token signed with the wrong key: %s',
    async (signedWith) => {
      liar.signedWith = signedWith
      expect((await whole()).status).toBe(409)
    },
  )

  test('with a state that was used, is of another browser, or of nobody', async () => {
    const browser = new Browser(server)
    const back = liar.answerTo(await begin(browser))
    const stranger = new Browser(server)
    await begin(stranger)
    expect((await bring(stranger, back)).status).toBe(404)
    const again = liar.answerTo(await begin(browser))
    const { cookie } = browser
    expect((await bring(browser, again)).status).toBe(200)
    const replayed = await server.call(null, 'GET', answerOf(again), undefined, { cookie })
    expect(replayed.status).toBe(404)
    expect((await bring(new Browser(server), back)).status).toBe(404)
  })

  test('with a code that another provider had sent to the address of its own organization', async () => {
    const browser = new Browser(server)
    const back = liar.answerTo(await begin(browser))
    back.searchParams.delete('iss')
    liar.sendsIssuer = false
    const { id } = await addOrganization(server.context)
    const theirs = new URL(back)
    theirs.pathname = answerPath(id)
    expect([(await bring(browser, theirs)).status, liar.secrets]).toEqual([404, []])
  })

  test('with the `iss` of another provider', async () => {
    const browser = new Browser(server)
    const back = liar.answerTo(await begin(browser))
    back.searchParams.set('iss', 'https://elsewhere.example')
    expect((await bring(browser, back)).status).toBe(409)
  })

  test('after the owner has changed the provider', async () => {
    const browser = new Browser(server)
    const back = liar.answerTo(await begin(browser))
    await save({ default_role: 'member' })
    expect((await bring(browser, back)).status).toBe(404)
  })

  test('and a provider that is down signs nobody in, and says what to do', async () => {
    const browser = new Browser(server)
    const back = liar.answerTo(await begin(browser))
    await server.context.pool.query(`update sign_in_providers set issuer = 'http://127.0.0.1:1'`)
    await server.context.pool.query(`update sign_in_attempts set issuer = 'http://127.0.0.1:1'`)
    const answer = await bring(browser, back)
    expect([answer.status, answer.body.message]).toEqual([
      503,
      expect.stringContaining('an owner can sign in'),
    ])
  })

  test('a logout token must be signed, for this client, and name a session', async () => {
    const browser = new Browser(server)
    await bring(browser, liar.answerTo(await begin(browser)))
    const events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
    const send = (token: string) =>
      fetch(`${server.base}/organizations/${organizationId}/sign-in/logout`, {
        method: 'POST',
        body: new URLSearchParams({ logout_token: token }),
      })
    const isIn = async () => (await browser.send('GET', '/me')).status
    expect((await send('nonsense')).status).toBe(400)
    for (const claims of [
      { events, aud: 'another' },
      { events, nonce: 'n' },
      {},
      { events, iss: 'https://elsewhere.example' },
    ]) {
      expect((await send(await liar.logoutToken({ sub: 'liar', ...claims }))).status).toBe(400)
      expect(await isIn()).toBe(200)
    }
    liar.signedWith = 'other'
    expect((await send(await liar.logoutToken({ sub: 'liar', events }))).status).toBe(400)
    liar.signedWith = 'own'
    expect((await send(await liar.logoutToken({ sub: 'another', events }))).status).toBe(200)
    expect(await isIn()).toBe(200)
    // The provider named no session at the sign-in, so the person ends it.
    expect((await send(await liar.logoutToken({ sid: 'its-session', events }))).status).toBe(200)
    expect(await isIn()).toBe(200)
    expect((await send(await liar.logoutToken({ sub: 'liar', sid: 'its-session', events }))).status).toBe(200)
    expect(await isIn()).toBe(401)
  })

  test('logout tokens of strangers are counted, and make it read its keys once', async () => {
    await bring(new Browser(server), liar.answerTo(await begin(new Browser(server))))
    const browser = new Browser(server)
    await bring(browser, liar.answerTo(await begin(browser)))
    liar.keysRead = 0
    liar.signedWith = 'other'
    const events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
    const body = new URLSearchParams({ logout_token: await liar.logoutToken({ sub: 'liar', events }) })
    const send = () =>
      fetch(`${server.base}/organizations/${organizationId}/sign-in/logout`, { method: 'POST', body })
    expect([(await send()).status, (await send()).status]).toEqual([400, 400])
    expect(liar.keysRead).toBeLessThanOrEqual(1)
    const { pool } = server.context
    const now = Date.now()
    await pool.query(
      `update auth_rate_limits set count = 300, last_request = $1 where key like '%provider/logout'`,
      [now],
    )
    const over = await send()
    expect([over.status, over.headers.get('retry-after')]).toEqual([429, expect.stringMatching(/^\d+$/)])
  })
})
