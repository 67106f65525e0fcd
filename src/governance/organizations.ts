import { sql, type Kysely, type Transaction } from 'kysely'
import type { Context } from '../context.ts'
import { newId } from '../contract/ids.ts'
import type { Plan } from '../db/schema/identity.ts'
import type { Database } from '../db/schema/index.ts'
import type { Role } from '../policy/types.ts'
import type { Actor } from './audit.ts'
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
  const id = await reserve(context, caller.userId, name)
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
  const row = { id: newId('organization'), name, personalOf: user.id, createdBy: null }
  const id = await context.db.transaction().execute((trx) => insertRow(trx, row))
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

/**
 * A row for an organization of this person, judged and inserted in one transaction: requests over the limit leave no row. One
 * that an earlier request has left without a member is taken again, so that a crash costs nobody a part of the limit.
 */
async function reserve({ db, config }: Context, userId: string, name: string): Promise<string> {
  const { mustBeConfirmed, organizationsPerPerson: most } = config.people
  return db.transaction().execute(async (trx) => {
    // First: of two that had only shared the row, neither could go on. The second sees what the first has made.
    await sql`select from users where id = ${userId} for no key update`.execute(trx)
    if (mustBeConfirmed) await requireProvenAddress({ trx }, userId)
    const { rows } = await sql<{ id: string }>`
      update organizations set name = ${name}, created_at = clock_timestamp()
      where id = (select o.id from organizations o join chain_head h on h.organization_id = o.id
                  where o.created_by = ${userId} and h.seq = 0
                    and o.created_at < clock_timestamp() - ${unusedAfter}
                    and not exists (select from memberships m where m.organization_id = o.id)
                  limit 1)
      returning id`.execute(trx)
    if (rows[0] !== undefined) return rows[0].id
    await requireFewer(trx, userId, most)
    return insertRow(trx, { id: newId('organization'), name, personalOf: null, createdBy: userId })
  })
}

/** A request is over by then. */
const unusedAfter = sql`interval '1 hour'`

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

interface NewRow {
  readonly id: string
  readonly name: string
  readonly personalOf: string | null
  readonly createdBy: string | null
}

/** Without members nobody can see it, so that a crash right after it leaves nothing but an unused row. */
async function insertRow(
  trx: Transaction<Database>,
  { id, name, personalOf, createdBy }: NewRow,
): Promise<string> {
  const personal = personalOf !== null
  await trx
    .insertInto('organizations')
    .values({ id, name, personal, personal_of: personalOf, created_by: createdBy, settings: '{}' })
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
    if (!personal && context.config.people.mustBeConfirmed) await requireProvenAddress(tx, userId)
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
