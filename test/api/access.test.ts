import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { access, accessOf, splitKey, type RouteKey } from '../../src/api/access.ts'
import { routes } from '../../src/api/routes/index.ts'
import { hasRole, scopes } from '../../src/governance/access/scopes.ts'
import { startTestServer, type TestServer } from './server.ts'

const keys = (Object.keys(access) as RouteKey[]).filter((key) => !accessOf(key).public)
const guarded = keys.map(accessOf).filter((entry) => !entry.public)

let server: TestServer

beforeAll(async () => {
  server = await startTestServer()
})
afterAll(async () => {
  await server.close()
})

describe('the access table', () => {
  test('names every mounted route, and all its routes are mounted', () => {
    expect(routes.map((route) => route.key).sort()).toEqual(Object.keys(access).sort())
  })

  test.each(Object.entries(scopes))('%s is useful from role %s on, as its routes say', (scope, minimum) => {
    const roles = guarded.filter((entry) => entry.scope === scope).map((entry) => entry.role)
    for (const role of roles) expect(hasRole(role, minimum)).toBe(true)
    if (roles.length > 0) expect(roles).toContain(minimum)
  })

  test('lets an agent’s key only ask for decisions', async () => {
    const { agent_key } = server.identities
    for (const key of keys) {
      const scope = (accessOf(key) as { scope: string | null }).scope
      const { method, path } = splitKey(key)
      const target = path.replaceAll(/\{\w+\}/g, 'x')
      const answer = await server.call(agent_key, method, target, method === 'GET' ? undefined : {})
      const isRefused = answer.status === 403 && answer.body.error.code === 'missing_scope'
      expect([key, isRefused]).toEqual([key, scope !== 'agents:authorize'])
    }
  })

  test('is the answer of GET /scopes', async () => {
    const answer = await server.call(server.identities.users.viewer.api_key, 'GET', '/scopes')
    expect(answer.body.routes).toHaveLength(Object.keys(access).length)
    expect(answer.body.routes).toContainEqual({
      method: 'PATCH',
      path: '/organizations/{id}/governance',
      public: false,
      scope: 'governance:write',
      further_scopes: [],
      minimum_role: 'owner',
    })
  })
})
