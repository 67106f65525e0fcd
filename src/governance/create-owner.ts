import type { Context } from '../context.ts'
import { newId } from '../contract/ids.ts'
import { addKey, emptyOrganization } from './bootstrap.ts'
import { connectEverything } from './connections.ts'
import { DomainError } from './errors.ts'
import { newApiKey } from './key-format.ts'
import { hashPassword, newPassword, passwordAccount } from './password.ts'
import { scopesOfRole } from './scopes.ts'

export interface CreatedOwner {
  readonly organization_id: string
  readonly user_id: string
  readonly email: string
  /** Shown this once, like the key: only hashes are kept. */
  readonly password: string
  readonly api_key: string
}

/**
 * Makes the first organization with one owner and a key that carries every scope of the role (contract section 9: where
 * no `bootstrap.json` is written). Throws `conflict` when an organization has members already: its owners add others.
 */
export async function createOwner(
  context: Context,
  request: { readonly email: string; readonly organizationName: string },
): Promise<CreatedOwner> {
  const organizationId = await emptyOrganization(context, request.organizationName)
  const taken = new DomainError(
    'conflict',
    'there is an organization with members already: its owners add others',
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
