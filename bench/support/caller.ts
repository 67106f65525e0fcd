import type { Context } from '../../src/governance/context.ts'
import type { Caller } from '../../src/governance/access/identity.ts'
import { bootstrapIdentities } from '../../src/governance/people/bootstrap.ts'

/** Creates an organization in an empty database. Returns its owner. */
export async function newCaller(context: Context): Promise<Caller> {
  const made = await bootstrapIdentities(context)
  if (made === null) throw new Error('the benchmark database is not empty')
  const { owner } = made.users
  const key = await context.db
    .selectFrom('api_keys')
    .select('id')
    .where('user_id', '=', owner.user_id)
    .executeTakeFirstOrThrow()
  return {
    userId: owner.user_id,
    email: owner.email,
    organizationId: made.organization_id,
    role: 'owner',
    keyId: key.id,
    sessionId: null,
    boundTo: null,
    scopes: [],
    needs: { scope: 'runs:write', role: 'member' },
    ip: null,
  }
}
