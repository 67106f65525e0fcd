import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { addOrganization, sessionCookie } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { codeOf, useServer } from '../use-server.ts'

/* The directory of a company adds and removes people with SCIM 2.0. */

let server: TestServer
let token = ''
const { ours, personOf } = useServer((started) => (server = started), {})
const path = (): string => `/organizations/${server.identities.organization_id}`

beforeAll(async () => {
  const domains = ['acme.example', 'countersign.test']
  await ours('owner', 'PUT', '/sign-in', {
    issuer: 'http://127.0.0.1:9',
    client_id: 'c',
    client_secret: 's',
    domains,
    default_role: 'member',
  })
  for (const domain of domains)
    expect((await ours('owner', 'POST', `/sign-in/domains/${domain}/prove`)).status).toBe(200)
  const made = await ours('owner', 'POST', '/scim-tokens', { name: 'Okta' })
  expect(made.status).toBe(201)
  token = made.body.token
})
beforeEach(() => server.context.pool.query('delete from auth_sessions'))

interface Told {
  readonly text: string
  readonly status: number
  readonly type: string | null
  // Tests read answers as untyped JSON, like a caller.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any
}

async function scim(method: string, of: string, body?: object, bearer = token): Promise<Told> {
  const answer = await fetch(`${server.base}/scim/v2${of}`, {
    method,
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/scim+json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  return {
    text,
    status: answer.status,
    type: answer.headers.get('content-type'),
    body: text === '' ? null : JSON.parse(text),
  }
}

let people = 0
const add = async (more: object = {}): Promise<Told> => {
  people += 1
  const userName = `person-${people}@acme.example`
  return scim('POST', '/Users', {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
    userName,
    externalId: `external-${people}`,
    name: { givenName: 'Ana', familyName: `Number ${people}` },
    emails: [{ value: userName, primary: true }],
    active: true,
    ...more,
  })
}
const patchOf = (...operations: object[]) => ({
  schemas: ['urn:ietf:params:scim:api:messages:2.0:PatchOp'],
  Operations: operations,
})
const lastAudit = async (type: string) => {
  const { rows } = await server.context.pool.query<{ canonical: string }>(
    'select canonical from audit_events where organization_id = $1 and event_type = $2 order by seq desc limit 1',
    [server.identities.organization_id, type],
  )
  const { policy_version: _, ...metadata } = JSON.parse(rows[0]?.canonical ?? '{}').metadata
  return metadata
}
const roleOf = async (id: string): Promise<string | null> => {
  const { rows } = await server.context.pool.query<{ role: string }>(
    'select role from memberships where user_id = $1 and organization_id = $2',
    [id, server.identities.organization_id],
  )
  return rows[0]?.role ?? null
}

describe('a directory', () => {
  test('adds a person, who is a member with the default role', async () => {
    const { status, type, body } = await add()
    expect([status, type]).toEqual([201, 'application/scim+json; charset=utf-8'])
    expect(body).toMatchObject({
      userName: `person-${people}@acme.example`,
      displayName: `Ana Number ${people}`,
      externalId: `external-${people}`,
      active: true,
      meta: { resourceType: 'User', location: expect.stringContaining(`/scim/v2/Users/${body.id}`) },
    })
    expect(await roleOf(body.id)).toBe('member')
  })

  test('finds people by address, as Okta and Entra ID ask', async () => {
    const { body: made } = await add()
    const asked = encodeURIComponent(`userName eq "${made.userName.toUpperCase()}"`)
    const found = await scim('GET', `/Users?filter=${asked}&startIndex=1&count=100`)
    expect(found.body).toMatchObject({ totalResults: 1, startIndex: 1, Resources: [{ id: made.id }] })
    const none = await scim('GET', `/Users?filter=${encodeURIComponent('userName eq "nobody@acme.example"')}`)
    expect(none.body).toMatchObject({ totalResults: 0, Resources: [] })
    const paged = await scim('GET', '/Users?startIndex=2&count=2')
    expect(paged.body).toMatchObject({ startIndex: 2, itemsPerPage: 2 })
    expect((await scim('GET', `/Users?filter=${encodeURIComponent('userName sw "a"')}`)).status).toBe(400)
  })

  test.each([
    ['as Okta does', patchOf({ op: 'replace', value: { active: false } })],
    ['as Entra ID does', patchOf({ op: 'Replace', path: 'active', value: 'False' })],
    ['with the whole path', patchOf({ op: 'replace', path: 'urn:ietf:params:scim:schemas:core:2.0:User:active', value: false })], // prettier-ignore
    ['in another case', patchOf({ op: 'replace', value: { Active: false } })],
  ])('makes a person inactive %s: sessions, keys and membership end at once', async (_, body) => {
    const { body: made } = await add()
    const { id } = made
    const cookie = await sessionCookie(server.context, id)
    await server.context.pool.query(
      `update auth_sessions set opened_with = 'provider', provider_organization = $2, provider_subject = 's' where user_id = $1`,
      [id, server.identities.organization_id],
    )
    const call = (name: string, key: string | null = null) =>
      server.call(key, 'GET', `${path()}${name}`, undefined, key === null ? { cookie } : {})
    const headers = { cookie, origin: server.base }
    const key = await server.call(null, 'POST', '/api-keys', { name: 'k', scopes: ['rules:read'] }, headers)
    const secret: string = key.body.api_key
    expect([(await call('/rules')).status, (await call('/rules', secret)).status]).toEqual([200, 200])
    const changed = await scim('PATCH', `/Users/${id}`, body)
    expect(changed.body).toMatchObject({ id, active: false })
    expect([(await call('/rules')).status, (await call('/rules', secret)).status]).toEqual([401, 401])
    expect(await roleOf(id)).toBeNull()
    // It still sees the person, and can bring them back. The key stays revoked.
    expect((await scim('GET', `/Users/${id}`)).body.active).toBe(false)
    // A PUT that does not name the state leaves it, and the state cannot be taken away.
    await scim('PUT', `/Users/${id}`, { ...made, active: undefined })
    expect((await scim('GET', `/Users/${id}`)).body.active).toBe(false)
    expect((await scim('PATCH', `/Users/${id}`, patchOf({ op: 'remove', path: 'active' }))).status).toBe(400)
    await scim('PUT', `/Users/${id}`, { ...made, active: true })
    expect(await roleOf(id)).toBe('member')
    expect((await call('/rules', secret)).status).toBe(401)
  })

  test('adds nobody over `storage_mb`, and says so', async () => {
    const { pool } = server.context
    const set = async (limits: object) =>
      expect((await ours('owner', 'PATCH', '/quota', limits)).status).toBe(200)
    await pool.query('update chain_head set stored_bytes = stored_bytes + 1048576')
    await set({ storage_mb: 1 })
    const over = await add()
    expect(over).toMatchObject({ status: 429, body: { detail: expect.stringContaining('storage_mb') } })
    await pool.query('update chain_head set stored_bytes = stored_bytes - 1048576')
    await set({ storage_mb: null })
    const { rowCount } = await pool.query('select from users where email = $1', [
      `person-${people}@acme.example`,
    ])
    expect([rowCount, (await lastAudit('quota.exceeded')).limit]).toEqual([0, 'storage_mb'])
  })

  test('leaves in the audit log whom it adds inactive, and each id that it gives', async () => {
    const { body: made } = await add({ active: false, externalId: undefined })
    expect([made.active, await lastAudit('scim_user.changed')]).toEqual([
      false,
      { member_id: made.id, after: { external_id: null } },
    ])
    await scim('PATCH', `/Users/${made.id}`, patchOf({ op: 'add', path: 'externalId', value: 'e-1' }))
    const change = { member_id: made.id, before: { external_id: null }, after: { external_id: 'e-1' } }
    expect(await lastAudit('scim_user.changed')).toEqual(change)
    await scim('PUT', `/Users/${made.id}`, { ...made, externalId: 'e-1' })
    expect(await lastAudit('scim_user.changed')).toEqual(change)
    await scim('PATCH', `/Users/${made.id}`, patchOf({ op: 'Remove', path: 'externalId' }))
    expect(await lastAudit('scim_user.changed')).toMatchObject({ after: { external_id: null } })
    await scim('PUT', `/Users/${made.id}`, { ...made, externalId: 'e-1' })
    await scim('DELETE', `/Users/${made.id}`)
    expect(await lastAudit('scim_user.changed')).toEqual({
      member_id: made.id,
      before: { external_id: 'e-1' },
    })
  })

  test('deletes a person', async () => {
    const { body } = await add()
    expect((await scim('DELETE', `/Users/${body.id}`)).status).toBe(204)
    const gone = await scim('GET', `/Users/${body.id}`)
    expect(gone.body).toMatchObject({
      status: '404',
      schemas: ['urn:ietf:params:scim:api:messages:2.0:Error'],
    })
  })

  test('never removes the last owner', async () => {
    const { userId } = personOf('owner')
    const refused = await scim(
      'PATCH',
      `/Users/${userId}`,
      patchOf({ op: 'replace', value: { active: false } }),
    )
    expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('last owner')])
    expect(await roleOf(userId)).toBe('owner')
  })

  test('takes no account that exists, no foreign domain, and no second of a name', async () => {
    const { body: made } = await add()
    expect(await add({ userName: made.userName })).toMatchObject({
      status: 409,
      body: { scimType: 'uniqueness' },
    })
    expect(await add({ userName: 'ana@rival.example' })).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining('not proven') },
    })
    expect((await add({ externalId: made.externalId })).status).toBe(409)
    expect((await scim('PUT', `/Users/${made.id}`, { ...made, userName: 'other@acme.example' })).status).toBe(
      400,
    )
  })

  test('does not see service accounts', async () => {
    const made = await ours('owner', 'POST', '/service-accounts', { name: 'ci', role: 'member' })
    expect(made.status).toBe(201)
    expect((await scim('DELETE', `/Users/${made.body.id}`)).status).toBe(404)
    expect(await roleOf(made.body.id)).toBe('member')
  })

  test('sees nobody of another organization', async () => {
    const { rows } = await server.context.pool.query(
      'select user_id from memberships where organization_id <> $1 limit 1',
      [server.identities.organization_id],
    )
    const stranger = rows[0]?.user_id ?? 'usr_01M84JRMXWJCN4SAPKWPR67K5S'
    for (const method of ['GET', 'DELETE'])
      expect((await scim(method, `/Users/${stranger}`)).status).toBe(404)
  })
})

describe('groups of a directory', () => {
  const schemas = ['urn:ietf:params:scim:schemas:core:2.0:Group']
  let groups = 0
  const addGroup = (more: object = {}) => {
    groups += 1
    return scim('POST', '/Groups', {
      schemas,
      displayName: `Team Number ${groups}`,
      externalId: `group-${groups}`,
      ...more,
    })
  }
  const someone = async (): Promise<string> => (await add()).body.id
  const inside = async (id: string): Promise<string[]> => {
    const { members } = (await scim('GET', `/Groups/${id}`)).body
    return members.map((each: { value: string }) => each.value).toSorted()
  }
  const patched = (id: string, ...operations: object[]) =>
    scim('PATCH', `/Groups/${id}`, patchOf(...operations))

  test('become groups here, with their members', async () => {
    const [ana, bo] = [await someone(), await someone()]
    const { status, body } = await addGroup({ members: [{ value: ana, display: 'Ana' }, { value: bo }] })
    expect([status, body.displayName, body.meta.location]).toEqual([
      201,
      `Team Number ${groups}`,
      expect.stringContaining(`/scim/v2/Groups/${body.id}`),
    ])
    expect(body.members).toContainEqual(expect.objectContaining({ value: ana, type: 'User' }))
    expect((await ours('owner', 'GET', `/groups/${body.id}`)).body).toMatchObject({
      name: `team-number-${groups}`,
      member_count: 2,
    })
    expect(await lastAudit('scim_group.changed')).toMatchObject({ group_id: body.id })
    const asked = `filter=${encodeURIComponent(`displayName eq "${body.displayName}"`)}`
    const found = await scim('GET', `/Groups?excludedAttributes=members&${asked}`)
    expect(found.body).toMatchObject({ totalResults: 1, Resources: [{ id: body.id }] })
    expect(found.body.Resources[0].members).toBeUndefined()
    expect((await scim('GET', `/Groups/${body.id}?excludedAttributes=members`)).body.members).toBeUndefined()
    // Who is made inactive leaves its groups.
    await scim('PATCH', `/Users/${bo}`, patchOf({ op: 'replace', value: { active: false } }))
    expect(await inside(body.id)).toEqual([ana])
  })

  type Shape = (id: string) => object
  const whole = `${schemas[0]}:members`
  const both: readonly [string, Shape, Shape][] = [
    [
      'as Okta does',
      (value) => ({ op: 'add', path: 'members', value: [{ value, display: 'ana@acme.example' }] }),
      (value) => ({ op: 'remove', path: `members[value eq "${value}"]` }),
    ],
    [
      'as Entra ID does',
      (value) => ({ op: 'Add', path: 'members', value: [{ $ref: null, value }] }),
      (value) => ({ op: 'Remove', path: 'members', value: [{ $ref: null, value }] }),
    ],
    [
      'without a path, and in another case',
      (value) => ({ op: 'ADD', value: { Members: [{ value }] } }),
      (value) => ({ op: 'REMOVE', path: `Members[Value EQ "${value}"]` }),
    ],
    [
      'with the whole path, and one value',
      (value) => ({ op: 'add', path: whole, value: { value } }),
      (value) => ({ op: 'remove', path: `${whole}[value eq "${value}"]` }),
    ],
  ]
  test.each(both)('take members and lose them %s', async (_, putIn, takeOut) => {
    const [ana, bo] = [await someone(), await someone()]
    const { id } = (await addGroup({ members: [{ value: bo }] })).body
    expect((await patched(id, putIn(ana))).status).toBe(200)
    expect((await patched(id, putIn(ana))).status).toBe(200)
    expect(await inside(id)).toEqual([ana, bo].toSorted())
    expect(await lastAudit('group.member_added')).toMatchObject({ group_id: id, member_id: ana })
    expect((await patched(id, takeOut(ana))).status).toBe(200)
    expect(await inside(id)).toEqual([bo])
    expect(await lastAudit('group.member_removed')).toMatchObject({ group_id: id, member_id: ana })
  })

  test('are replaced, by PUT and PATCH, and get another name', async () => {
    const [ana, bo] = [await someone(), await someone()]
    const { id, externalId } = (await addGroup({ members: [{ value: ana }] })).body
    await patched(id, { op: 'replace', path: 'members', value: [{ value: bo }] })
    expect(await inside(id)).toEqual([bo])
    await patched(id, { op: 'replace', value: { id, displayName: 'The Lawyers' } })
    expect((await ours('owner', 'GET', `/groups/${id}`)).body.name).toBe('the-lawyers')
    const put = { schemas, displayName: 'The Lawyers', externalId, members: [{ value: ana }, { value: bo }] }
    expect((await scim('PUT', `/Groups/${id}`, put)).body.members).toHaveLength(2)
    await patched(id, { op: 'remove', path: 'members' })
    expect(await inside(id)).toEqual([])
  })

  test.each([
    ['a path that is not understood', { op: 'remove', path: 'members[display eq "Ana"]' }],
    ['an operation without a path', { op: 'remove', value: { members: [] } }],
    ['another operation', { op: 'move', path: 'members' }],
    ['members that are none', { op: 'add', path: 'members', value: ['usr_1'] }],
    ['somebody who is no active user', { op: 'add', path: 'members', value: [{ value: 'usr_1' }] }],
    ['a name that cannot be one here', { op: 'replace', path: 'displayName', value: '財務' }],
    ['a part of a filter', { op: 'replace', path: 'members[value eq "a"]', value: [] }],
  ])('refuse %s, and nothing changes', async (_, operation) => {
    const ana = await someone()
    const { id } = (await addGroup({ members: [{ value: ana }] })).body
    const refused = await patched(id, { op: 'remove', path: 'members' }, operation)
    expect([refused.status, refused.body.scimType, await inside(id)]).toEqual([400, 'invalidValue', [ana]])
  })

  test('are only those that the directory has made, and stay while a rule names them', async () => {
    const own = await ours('owner', 'POST', '/groups', { name: 'own' })
    for (const method of ['GET', 'DELETE'])
      expect((await scim(method, `/Groups/${own.body.id}`)).status).toBe(404)
    expect((await patched(own.body.id, { op: 'remove', path: 'members' })).status).toBe(404)
    expect((await scim('GET', '/Groups?count=100')).text).not.toContain(own.body.id)
    const taken = await addGroup({ displayName: 'Own' })
    expect(taken).toMatchObject({ status: 409, body: { scimType: 'uniqueness' } })
    const { body: group } = await addGroup()
    expect((await addGroup({ externalId: group.externalId })).status).toBe(409)
    const rule = await ours('owner', 'POST', '/rules', {
      name: 'the team decides',
      verdict: 'require_approval',
      tools: ['Write'],
      approver: { group: `team-number-${groups - 1}` },
    })
    expect(rule.status).toBe(201)
    for (const refused of [
      await scim('DELETE', `/Groups/${group.id}`),
      await patched(group.id, { op: 'replace', path: 'displayName', value: 'Another' }),
    ]) {
      expect([refused.status, refused.body.scimType]).toEqual([409, undefined])
      expect(refused.body.detail).toContain('the team decides')
    }
    await ours('owner', 'DELETE', `/rules/${rule.body.id}`)
    expect((await scim('DELETE', `/Groups/${group.id}`)).status).toBe(204)
    expect((await scim('GET', `/Groups/${group.id}`)).status).toBe(404)
  })

  test('are not those of another organization', async () => {
    const other = await addOrganization(server.context)
    const { body } = await addGroup()
    const { pool } = server.context
    await pool.query('update scim_tokens set organization_id = $1', [other.id])
    expect((await scim('GET', `/Groups/${body.id}`)).status).toBe(404)
    expect((await patched(body.id, { op: 'remove', path: 'members' })).status).toBe(404)
    expect((await scim('DELETE', `/Groups/${body.id}`)).status).toBe(404)
    await pool.query('update scim_tokens set organization_id = $1', [server.identities.organization_id])
    expect((await scim('GET', `/Groups/${body.id}`)).status).toBe(200)
  })
})

describe('its token', () => {
  test('is for owners, is shown once, and ends', async () => {
    expect(codeOf(await ours('admin', 'POST', '/scim-tokens', { name: 'x' }))).toBe('403 insufficient_role')
    const made = await ours('owner', 'POST', '/scim-tokens', { name: 'Entra', days: 1 })
    const { id, token: second } = made.body
    const listed = await ours('owner', 'GET', '/scim-tokens')
    expect(listed.text).not.toContain(second)
    const maker = (await server.call(personOf('owner').key, 'GET', '/me')).body.user.email
    expect(listed.body.data[0]).toMatchObject({ name: 'Entra', created_by_email: maker, last_used_at: null })
    const { rows } = await server.context.pool.query('select * from scim_tokens where id = $1', [id])
    expect(JSON.stringify(rows)).not.toContain(second)
    expect((await scim('GET', '/Users', undefined, second)).status).toBe(200)
    await server.context.pool.query(`update scim_tokens set expires_at = now() where id = $1`, [id])
    expect((await scim('GET', '/Users', undefined, second)).status).toBe(401)
    expect((await ours('owner', 'DELETE', `/scim-tokens/${id}`)).status).toBe(204)
  })

  test('is not an API key, nor an API key a token', async () => {
    expect((await scim('GET', '/Users', undefined, personOf('owner').key)).status).toBe(401)
    expect((await server.call(token, 'GET', '/me')).status).toBe(401)
  })
})
