import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { access, accessOf, splitKey, type RouteKey, type Subject } from '../../src/api/access.ts'
import { routes } from '../../src/api/routes/index.ts'
import { hasRole, scopes } from '../../src/governance/scopes.ts'
import type { Role } from '../../src/policy/types.ts'
import { addKey, addOrganization, everyScope } from './fixtures.ts'
import { resourcesOf, type Resources } from './resources.ts'
import { startTestServer, type TestServer } from './server.ts'

type Guarded = { key: RouteKey; scope: string | null; role: Role; subject: Subject }

const guarded: Guarded[] = (Object.keys(access) as RouteKey[]).flatMap((key) => {
  const entry = accessOf(key)
  return entry.public ? [] : [{ key, scope: entry.scope, role: entry.role, subject: entry.subject }]
})
const named = (list: Guarded[]) => list.map((entry) => [entry.key, entry] as const)
const below: Partial<Record<Role, Role>> = { member: 'viewer', admin: 'member', owner: 'admin' }

let server: TestServer
let ours: Resources
let theirs: Resources
let stranger: string

beforeAll(async () => {
  server = await startTestServer()
  const { context, identities } = server
  const other = await addOrganization(context)
  stranger = other.owner.key
  ours = await resourcesOf(server, identities.organization_id, identities.users.owner.user_id)
  theirs = await resourcesOf(server, other.id, other.owner.userId)
})
afterAll(async () => {
  await server.close()
})

/** The route's path with ids of these resources; `own` names their organization in the query. */
function pathOf({ key, subject }: Guarded, { ids, organizationId }: Resources): string {
  const path = splitKey(key).path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    if (name === 'rule') return subject === 'label_rule' ? ids.labelRule : ids.rule
    if (name !== 'id') return 'x'
    const byId = { workflow: ids.workflow, run: ids.run, approval: ids.approval, api_key: ids.key }
    return byId[subject as keyof typeof byId] ?? organizationId
  })
  return subject === 'own' ? `${path}?organization_id=${organizationId}` : path
}

/** A key of the organization's person with this role. */
function keyOf(role: Role, keyScopes: readonly string[]): Promise<string> {
  const { context, identities } = server
  return addKey(context, identities.organization_id, identities.users[role].user_id, keyScopes).then(
    (key) => key.secret,
  )
}

const send = (key: string | null, entry: Guarded, path: string) => {
  const { method } = splitKey(entry.key)
  return server.call(key, method, path, method === 'GET' || method === 'DELETE' ? undefined : { nonsense: 1 })
}

describe('the access table', () => {
  test('names every mounted route, and every route in it is mounted', () => {
    expect(routes.map((route) => route.key).sort()).toEqual(Object.keys(access).sort())
  })

  test.each(Object.entries(scopes))('%s is of use from %s on, as its routes say', (scope, minimum) => {
    const roles = guarded.filter((entry) => entry.scope === scope).map((entry) => entry.role)
    for (const role of roles) expect(hasRole(role, minimum)).toBe(true)
    if (roles.length > 0) expect(roles).toContain(minimum)
  })

  test('is what GET /scopes answers', async () => {
    const answer = await server.call(await keyOf('viewer', []), 'GET', '/scopes')
    expect(answer.body.routes).toHaveLength(Object.keys(access).length)
    expect(answer.body.routes).toContainEqual({
      method: 'PATCH',
      path: '/organizations/{id}/governance',
      public: false,
      scope: 'governance:write',
      minimum_role: 'owner',
    })
  })
})

describe('every route that needs a key', () => {
  test.each(named(guarded))('%s: no key is 401', async (_, entry) => {
    const answer = await send(null, entry, pathOf(entry, ours))
    expect(answer.status).toBe(401)
    expect(answer.body.error.code).toBe('unauthenticated')
  })

  test.each(named(guarded.filter((entry) => entry.scope !== null)))(
    '%s: a key with all scopes but its own is 403 and names it, also for what belongs to others',
    async (_, entry) => {
      const key = await keyOf(
        'owner',
        everyScope.filter((scope) => scope !== entry.scope),
      )
      for (const resources of [ours, theirs]) {
        const answer = await send(key, entry, pathOf(entry, resources))
        expect(answer.status).toBe(403)
        expect(answer.body.error.code).toBe('missing_scope')
        expect(answer.body.error.details[0].path).toBe(entry.scope)
      }
    },
  )

  test.each(named(guarded.filter((entry) => entry.subject !== 'nothing')))(
    '%s: what belongs to another organization is 404 for every role, as if it did not exist',
    async (_, entry) => {
      const answer = await send(await keyOf('owner', everyScope), entry, pathOf(entry, theirs))
      expect([answer.status, answer.body.error.code]).toEqual([404, 'not_found'])
      const low = await send(await keyOf('viewer', everyScope), entry, pathOf(entry, theirs))
      expect([low.status, low.body.error.code]).toEqual([404, 'not_found'])
      const nowhere = { ...theirs, organizationId: 'org_x', ids: { ...theirs.ids, ...nothing } }
      const unknown = await send(stranger, entry, pathOf(entry, nowhere))
      expect([unknown.status, unknown.body.error.code]).toEqual([404, 'not_found'])
    },
  )

  test.each(named(guarded.filter((entry) => below[entry.role] !== undefined)))(
    '%s: a role below the lowest is 403 and names the one it needs, before any 422',
    async (_, entry) => {
      const key = await keyOf(below[entry.role] as Role, everyScope)
      const answer = await send(key, entry, pathOf(entry, ours))
      expect(answer.status).toBe(403)
      expect(answer.body.error.code).toBe('insufficient_role')
      expect(answer.body.error.details[0].path).toBe(entry.role)
    },
  )

  test.each(named(guarded))('%s: the lowest role with the one scope gets in', async (_, entry) => {
    const key = await keyOf(entry.role, entry.scope === null ? [] : [entry.scope])
    // Nothing is changed: bodies are nonsense, and what would be deleted has no such name.
    const path = splitKey(entry.key).method === 'DELETE' ? null : pathOf(entry, ours)
    if (path === null) return
    const answer = await send(key, entry, path)
    expect([200, 404, 409, 422]).toContain(answer.status)
  })
})

const nothing = {
  workflow: 'wf_x',
  rule: 'rule_x',
  labelRule: 'lrule_x',
  run: 'run_x',
  approval: 'apr_x',
  key: 'key_x',
}
