import { sql, type Kysely } from 'kysely'
import type { Context } from '../context.ts'
import { newId } from '../contract/ids.ts'
import type { Plan } from '../db/schema/identity.ts'
import type { Database } from '../db/schema/index.ts'
import type { Role } from '../policy/types.ts'
import type { Actor } from './audit.ts'
import type { ChainTx } from './chain-tx.ts'
import { DomainError } from './errors.ts'
import type { Once } from './idempotency.ts'
import { actorOf, type Caller, type Sender } from './identity.ts'
import { requireProvenAddress } from './people/address-proof.ts'
import { requireStillValid } from './standing.ts'

/** An organization as its member sees it. */
export interface OrganizationView {
  readonly id: string
  readonly name: string
  readonly personal: boolean
  readonly plan: Plan
  readonly role: Role
}

/**
 * A new organization on plan `free`, of which the caller becomes owner. Throws `quota_exceeded` for who has made as many as one
 * person may, and, where addresses must be confirmed, `conflict` for who has not confirmed theirs.
 */
export async function createOrganization(
  context: Context,
  caller: Caller,
  name: string,
  once: Once | null = null,
): Promise<OrganizationView> {
  const most = context.config.people.organizationsPerPerson
  // Asked again under the lock; before it so that who is over the limit leaves no rows.
  await requireFewer(context.db, caller.userId, most)
  const id = newId('organization')
  await insert(context, { id, name, personalOf: null })
  return fill(context, id, {
    name,
    personal: false,
    userId: caller.userId,
    sender: caller,
    actor: actorOf(caller),
    once,
  })
}

/** The organization that comes with a sign-up; whoever has it already keeps it. */
export async function createPersonalOrganization(
  context: Context,
  user: { readonly id: string; readonly name: string; readonly email: string },
): Promise<void> {
  const name = user.name.trim() || (user.email.split('@', 1)[0] as string)
  const id = await insert(context, { id: newId('organization'), name, personalOf: user.id })
  const actor: Actor = { type: 'user', id: user.id }
  await fill(context, id, { name, personal: true, userId: user.id, sender: null, actor, once: null })
}

/** For a person whose sign-up was cut off before their organization was there. */
export async function healPersonalOrganization(context: Context, userId: string): Promise<void> {
  const user = await context.db
    .selectFrom('users as u')
    .leftJoin('memberships as m', 'm.user_id', 'u.id')
    .select(['u.id', 'u.name', 'u.email', 'm.organization_id'])
    .where('u.id', '=', userId)
    .limit(1)
    .executeTakeFirst()
  if (user !== undefined && user.organization_id === null) await createPersonalOrganization(context, user)
}

/** Judged with the person's row locked, so that of two requests at once the second sees what the first has made. */
async function requireMayMake({ config }: Context, tx: ChainTx, userId: string): Promise<void> {
  // First: of two that had only shared the row, neither could go on.
  await sql`select from users where id = ${userId} for no key update`.execute(tx.trx)
  if (config.people.mustBeConfirmed) await requireProvenAddress(tx, userId)
  await requireFewer(tx.trx, userId, config.people.organizationsPerPerson)
  await tx.trx
    .updateTable('organizations')
    .set({ created_by: userId })
    .where('id', '=', tx.organizationId)
    .execute()
}

/** Those that a person has made count for ever, also once they have left: else making and leaving would go on and on. */
async function requireFewer(db: Kysely<Database>, userId: string, most: number | null): Promise<void> {
  if (most === null) return
  const { made } = await db
    .selectFrom('organizations')
    .select((eb) => eb.fn.countAll<number>().as('made'))
    .where('created_by', '=', userId)
    .executeTakeFirstOrThrow()
  if (made < most) return
  throw new DomainError(
    'quota_exceeded',
    `one person may make ${most} organizations here, and you have made ${made}: ask who runs the installation`,
    [{ path: 'organizations_per_person', message: `the limit is ${most}` }],
    secondsUntilAsked,
  )
}

/** Only an operator can raise the limit, so that to ask again soon is useless. */
const secondsUntilAsked = 24 * 3600

/** Without members nobody can see it, so that a crash right after it leaves nothing but an unused row. */
async function insert(
  context: Context,
  { id, name, personalOf }: { id: string; name: string; personalOf: string | null },
): Promise<string> {
  return context.db.transaction().execute(async (trx) => {
    await trx
      .insertInto('organizations')
      .values({ id, name, personal: personalOf !== null, personal_of: personalOf, settings: '{}' })
      .onConflict((conflict) => conflict.column('personal_of').doNothing())
      .execute()
    const { id: found } = await trx
      .selectFrom('organizations')
      .select('id')
      .where((eb) => (personalOf === null ? eb('id', '=', id) : eb('personal_of', '=', personalOf)))
      .executeTakeFirstOrThrow()
    await trx
      .insertInto('chain_head')
      .values({ organization_id: found, frozen: null })
      .onConflict((conflict) => conflict.column('organization_id').doNothing())
      .execute()
    return found
  })
}

async function fill(
  context: Context,
  id: string,
  {
    name,
    personal,
    userId,
    sender,
    actor,
    once,
  }: {
    readonly name: string
    readonly personal: boolean
    readonly userId: string
    /** null: the service itself. */
    readonly sender: Sender | null
    readonly actor: Actor
    readonly once: Once | null
  },
): Promise<OrganizationView> {
  return context.combiner.run(id, 'org.change', async (tx) => {
    if (sender !== null) await requireStillValid(context, tx, sender)
    if (!personal) await requireMayMake(context, tx, userId)
    const { numInsertedOrUpdatedRows } = await tx.trx
      .insertInto('memberships')
      .values({ organization_id: id, user_id: userId, role: 'owner' })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirstOrThrow()
    const made: OrganizationView = { id, name, personal, plan: 'free', role: 'owner' }
    if (numInsertedOrUpdatedRows === 0n) return made
    tx.append({
      eventType: 'organization.created',
      action: 'create',
      status: 'success',
      actor,
      metadata: { plan: 'free', owner_id: userId, personal },
    })
    await once?.markActed(tx.trx, made)
    return made
  })
}
