import { sql, type Transaction } from 'kysely'
import type { Changing, Configured } from '../context.ts'
import { newId } from '../../contract/ids.ts'
import type { Plan } from '../../contract/plan-limits.ts'
import { takeUnusedOrganization } from '../../db/queries/people.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import type { Actor } from '../audit/entry.ts'
import { DomainError } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller, type Sender } from '../access/identity.ts'
import { requireProvenAddress } from '../access/address-proof.ts'
import { requireStillValid, type Acting } from '../access/recheck.ts'

export interface OrganizationView {
  readonly id: string
  readonly name: string
  readonly personal: boolean
  readonly plan: Plan
  readonly role: Role
}

/** On plan `free`. Throws `quota_exceeded` above the person's limit, and `conflict` for an unconfirmed address. */
export async function createOrganization(
  context: Changing,
  caller: Caller,
  name: string,
  once: Once | null = null,
): Promise<OrganizationView> {
  const id = await reserve(context, caller.userId, name)
  return addOwner(context, id, {
    name,
    personal: false,
    userId: caller.userId,
    sender: caller,
    actor: actorOf(caller),
    once,
  })
}

/** At sign-up, unless it exists. */
export async function createPersonalOrganization(
  context: Changing,
  user: { readonly id: string; readonly name: string; readonly email: string },
): Promise<void> {
  const name = user.name.trim() || (user.email.split('@', 1)[0] as string)
  const row = { id: newId('organization'), name, personalOf: user.id, createdBy: null }
  const id = await context.db.transaction().execute((trx) => insertRow(trx, row))
  const actor: Actor = { type: 'user', id: user.id }
  await addOwner(context, id, { name, personal: true, userId: user.id, sender: null, actor, once: null })
}

/** For a person whose sign-up was interrupted before the organization was complete. */
export async function healPersonalOrganization(context: Changing, userId: string): Promise<void> {
  const user = await context.db
    .selectFrom('users as u')
    .leftJoin('memberships as m', 'm.user_id', 'u.id')
    .select(['u.id', 'u.name', 'u.email', 'm.organization_id'])
    .where('u.id', '=', userId)
    .limit(1)
    .executeTakeFirst()
  if (user !== undefined && user.organization_id === null) await createPersonalOrganization(context, user)
}

/** A row without members of an interrupted request is used again, so a crash does not count. */
async function reserve({ db, config }: Configured, userId: string, name: string): Promise<string> {
  const { mustBeConfirmed, organizationsPerPerson: most } = config.people
  return db.transaction().execute(async (trx) => {
    // The exclusive lock at once: of two transactions with the shared one (`requireProvenAddress`), neither could take
    // it. The second one waits here, and then sees the organization of the first.
    await sql`select from users where id = ${userId} for no key update`.execute(trx)
    if (mustBeConfirmed) await requireProvenAddress({ trx }, userId)
    const { rows } = await takeUnusedOrganization({ userId, name, unusedAfter }).execute(trx)
    if (rows[0] !== undefined) return rows[0].id
    await requireFewer(trx, userId, most)
    return insertRow(trx, { id: newId('organization'), name, personalOf: null, createdBy: userId })
  })
}

/** When a row without members may be used again. No request takes so long. */
const unusedAfter = sql`interval '1 hour'`

/** It counts for ever, even after its creator has left. Otherwise one could make and leave them without end. */
async function requireFewer(db: Db, userId: string, most: number | null): Promise<void> {
  if (most === null) return
  const { made } = await db
    .selectFrom('organizations')
    .select((eb) => eb.fn.countAll<number>().as('made'))
    .where('created_by', '=', userId)
    .executeTakeFirstOrThrow()
  if (made < most) return
  throw new DomainError(
    'quota_exceeded',
    `one person may make ${most} organizations here, and you have made ${made}: ask the operator of this installation`,
    [{ path: 'organizations_per_person', message: `the limit is ${most}` }],
    secondsUntilAsked,
  )
}

/** `Retry-After`. Only an operator can raise the limit. */
const secondsUntilAsked = 24 * 3600

interface NewRow {
  readonly id: string
  readonly name: string
  readonly personalOf: string | null
  readonly createdBy: string | null
}

/** Without members, nobody can see it, so a crash only leaves an unused row. */
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

async function addOwner(
  context: Acting,
  id: string,
  given: {
    readonly name: string
    readonly personal: boolean
    readonly userId: string
    /** Whose rights are checked again; null if Countersign makes the organization by itself. */
    readonly sender: Sender | null
    readonly actor: Actor
    readonly once: Once | null
  },
): Promise<OrganizationView> {
  const { name, personal, userId, sender, actor, once } = given
  return context.combiner.run(id, 'org.change', async (tx) => {
    // First, because it locks the person's row: a concurrent first `proveAddress`, which ends sessions and keys, has
    // committed before the next check, or waits for this transaction.
    if (!personal && context.config.people.mustBeConfirmed) await requireProvenAddress(tx, userId)
    if (sender !== null) await requireStillValid(context, tx, sender)
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
      actor,
      metadata: { plan: 'free', owner_id: userId, personal },
    })
    await once?.markActed(tx.trx, made)
    return made
  })
}
