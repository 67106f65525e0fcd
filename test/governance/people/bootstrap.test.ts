import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import {
  bootstrapIdentities,
  bootstrapRoles,
  type BootstrapName,
} from '../../../src/governance/people/bootstrap.ts'
import { authenticate, roleIn } from '../../../src/governance/access/identity.ts'
import { scopesOfRole } from '../../../src/governance/access/scopes.ts'
import { testContext, type TestContext } from '../support.ts'

let running: TestContext
beforeEach(async () => {
  running = await testContext()
})
afterEach(() => running.close())

describe('bootstrapIdentities', () => {
  test('makes the organization, five people with keys of their role, and the agent key', async () => {
    const { context } = running
    const made = await bootstrapIdentities(context)
    if (made === null) throw new Error('nothing was made')
    for (const name of Object.keys(bootstrapRoles) as BootstrapName[]) {
      const { user_id: userId, api_key: key, password } = made.users[name]
      const identity = await authenticate(context.keys, `Bearer ${key}`)
      expect(identity).toMatchObject({ user: { id: userId }, organizationId: made.organization_id })
      expect(identity?.scopes).toEqual(scopesOfRole(bootstrapRoles[name]))
      expect(await roleIn(context.db, userId, made.organization_id)).toBe(bootstrapRoles[name])
      expect(password.length).toBeGreaterThanOrEqual(20)
    }
    const agent = await authenticate(context.keys, `Bearer ${made.agent_key}`)
    expect(agent).toMatchObject({ user: { id: made.users.member.user_id }, scopes: ['agents:authorize'] })
    const organization = await context.db.selectFrom('organizations').selectAll().executeTakeFirstOrThrow()
    expect(organization).toMatchObject({ id: made.organization_id, plan: 'enterprise', personal: false })
  })

  test('its first entry in the chain is organization.created, and no entry holds a secret', async () => {
    const made = await bootstrapIdentities(running.context)
    const rows = await running.context.db.selectFrom('audit_events').selectAll().orderBy('seq').execute()
    expect(rows[0]).toMatchObject({ seq: 1, event_type: 'organization.created' })
    expect(rows.slice(1).map((row) => row.event_type)).toEqual(Array(6).fill('api_key.created'))
    const text = rows.map((row) => row.canonical).join()
    for (const { api_key: key, password } of Object.values(made?.users ?? {})) {
      expect(text).not.toContain(key)
      expect(text).not.toContain(password)
    }
  })

  test('happens once, also if two processes start together', async () => {
    const made = await Promise.all([
      bootstrapIdentities(running.context),
      bootstrapIdentities(running.another()),
    ])
    expect(made.filter((identities) => identities !== null)).toHaveLength(1)
    expect(await bootstrapIdentities(running.context)).toBeNull()
    const { rows } = await running.context.pool.query('select count(*)::int as n from organizations')
    expect(rows[0].n).toBe(1)
  })

  test('a first start that cannot save the secrets creates no people, and the next one succeeds', async () => {
    const full = new Error('the disk is full')
    await expect(bootstrapIdentities(running.context, () => Promise.reject(full))).rejects.toBe(full)
    const { rows } = await running.context.pool.query('select count(*)::int as n from users')
    expect(rows[0].n).toBe(0)
    let saved: unknown
    const made = await bootstrapIdentities(running.context, (identities) => {
      saved = identities
      return Promise.resolve()
    })
    expect(made).not.toBeNull()
    expect(saved).toBe(made)
  })
})
