import type { Context } from '../context.ts'
import { newId } from '../../contract/ids.ts'
import { addKey, emptyOrganization } from './bootstrap.ts'
import { connectEverything } from '../tools/connections.ts'
import { DomainError } from '../errors.ts'
import { newApiKey } from '../access/key-format.ts'
import { hashPassword, newPassword, passwordAccount } from './password.ts'
import { scopesOfRole } from '../access/scopes.ts'

export interface CreatedOwner {
  readonly organization_id: string
  readonly user_id: string
  readonly email: string
  /** The password and the key are shown only once, because the database stores only their hashes. */
  readonly password: string
  readonly api_key: string
}

/**
 * Creates the first organization with one owner. The owner gets a key with every scope of the role. This is for
 * installations without a `bootstrap.json`. Throws `conflict` if an organization has members, because its owners can
 * invite others.
 */
export async function createOwner(
  context: Pick<Context, 'combiner' | 'db'>,
  request: { readonly email: string; readonly organizationName: string },
): Promise<CreatedOwner> {
  const organizationId = await emptyOrganization(context.db, request.organizationName)
  const taken = new DomainError(
    'conflict',
    'an organization with members already exists: ask one of its owners to invite you',
  )
  if (organizationId === null) throw taken
  const password = newPassword()
  const passwordHash = await hashPassword(password)
  const owner = { user_id: newId('user'), email: request.email.toLowerCase(), api_key: newApiKey().secret }
  return context.combiner.run(organizationId, 'org.change', async (tx) => {
    const member = await tx.trx
      .selectFrom('memberships')
      .select('user_id')
      .where('organization_id', '=', organizationId)
      .limit(1)
      .executeTakeFirst()
    if (member !== undefined) throw taken
    await tx.trx
      .insertInto('users')
      .values({ id: owner.user_id, email: owner.email, email_verified: true })
      .execute()
    await tx.trx.insertInto('auth_accounts').values(passwordAccount(owner.user_id, passwordHash)).execute()
    await tx.trx
      .insertInto('memberships')
      .values({ organization_id: organizationId, user_id: owner.user_id, role: 'owner' })
      .execute()
    tx.append({
      eventType: 'organization.created',
      action: 'create',
      status: 'success',
      actor: { type: 'system', id: 'create-owner' },
      metadata: { plan: 'enterprise', owner_id: owner.user_id, ...(await connectEverything(tx)) },
    })
    await addKey(tx, owner, 'first owner', scopesOfRole('owner'), owner.api_key)
    return { organization_id: organizationId, password, ...owner }
  })
}
