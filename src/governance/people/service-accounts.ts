import { sql, type RawBuilder } from 'kysely'
import type { AuditMetadata } from '../../contract/audit-events.ts'
import { newId, serviceDomain } from '../../contract/ids.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { covers, hasRole, type Scope } from '../access/scopes.ts'
import { endAllOf } from '../agents/end.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { errorAt, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
import { readPage, type Page, type PageRequest } from '../page.ts'

/*
 * A service account is a program: a row of `users` that cannot sign in, vote, or have personal credentials. Triggers of
 * the database hold it to that (src/db/migrations/0006-service-accounts.ts).
 */

/** In one organization. */
export const mostServiceAccounts = 100

export type ServiceRole = Extract<Role, 'viewer' | 'member'>

export interface ServiceAccountView {
  readonly id: string
  readonly organization_id: string
  readonly name: string
  readonly role: Role
  /** Nobody receives mail there. It stands where people's addresses stand. */
  readonly email: string
  readonly created_by: string
  readonly created_by_email: string
  readonly created_at: string
  readonly active_keys: number
  readonly last_used_at: string | null
}

/** SQL: whether the user is a service account. */
export const isServiceAccount = (userId: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`exists (select from service_accounts where id = ${userId})`

/** Scopes for acts that need a person. */
const scopesOfPeople: readonly Scope[] = [
  'approvals:decide',
  'tools:connect',
  'api_keys:*',
  'organizations:*',
]

/** Throws `validation_error` for a scope that lets a key act in a person's place. */
export function refuseScopesOfPeople(given: readonly string[]): void {
  const refused = given.find((scope) => scopesOfPeople.some((each) => covers([scope], each)))
  if (refused === undefined) return
  throw errorAt(
    'validation_error',
    'scopes',
    `a service account cannot have \`${refused}\`: it does not vote, connect accounts, make keys or invite; leave the scope out`,
  )
}

const slugOf = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 40)

/** Throws `validation_error` for a taken name, and above `mostServiceAccounts`. */
export async function createServiceAccount(
  context: Acting,
  caller: Caller,
  { name, role }: { readonly name: string; readonly role: ServiceRole },
  once: Once | null = null,
): Promise<ServiceAccountView> {
  return growAs(context, caller, 'org.change', {
    action: 'create',
    async work(tx) {
      await refuseMoreAccounts(tx)
      await refuseTakenName(tx, name, null)
      const id = newId('user')
      const email = `${slugOf(name) || 'account'}-${id.slice(-8).toLowerCase()}@${serviceDomain}`
      const at = { created_at: tx.now, updated_at: tx.now }
      await tx.trx
        .insertInto('users')
        .values({ id, email, name, email_verified: true, ...at })
        .execute()
      await tx.trx
        .insertInto('service_accounts')
        .values({
          id,
          organization_id: tx.organizationId,
          name,
          created_by: caller.userId,
          created_at: tx.now,
        })
        .execute()
      await tx.trx
        .insertInto('memberships')
        .values({ organization_id: tx.organizationId, user_id: id, role })
        .execute()
      append(tx, caller, 'created', { account_id: id, name, role })
      return keepMade(once, tx, await readUnderLock(tx, id))
    },
  })
}

/** Newest first. */
export async function listServiceAccounts(
  { db }: { readonly db: Db },
  { organizationId }: Caller,
  page: PageRequest,
): Promise<Page<ServiceAccountView>> {
  const { data, next_cursor } = await readPage(db, accountsIn(db, organizationId), 'user', page, 'a.id')
  return { data: data.map(viewOf), next_cursor }
}

/** Throws `not_found`. */
export async function readServiceAccount(
  db: Db,
  organizationId: string,
  id: string,
): Promise<ServiceAccountView> {
  const row = await accountsIn(db, organizationId).where('a.id', '=', id).executeTakeFirst()
  if (row === undefined) throw notFound('service account', id)
  return viewOf(row)
}

const readUnderLock = (tx: ChainTx, id: string) => readServiceAccount(tx.trx, tx.organizationId, id)

/** Ends its agents' sessions if the new role may not use them. Throws `not_found`, `validation_error` for a taken name. */
export async function changeServiceAccount(
  context: Acting,
  caller: Caller,
  id: string,
  change: { readonly name?: string | undefined; readonly role?: ServiceRole | undefined },
): Promise<ServiceAccountView> {
  return runAs(context, caller, 'org.change', async (tx) => {
    const before = await readUnderLock(tx, id)
    const { name = before.name, role = before.role } = change
    if (name === before.name && role === before.role) return before
    if (name !== before.name) {
      await refuseTakenName(tx, name, id)
      await tx.trx.updateTable('service_accounts').set({ name }).where('id', '=', id).execute()
      await tx.trx.updateTable('users').set({ name, updated_at: tx.now }).where('id', '=', id).execute()
    }
    if (role !== before.role)
      await tx.trx
        .updateTable('memberships')
        .set({ role })
        .where('organization_id', '=', tx.organizationId)
        .where('user_id', '=', id)
        .execute()
    const ended = hasRole(role, 'member') ? {} : await endAllOf(tx, id)
    const former = { name_before: before.name, role_before: before.role }
    append(tx, caller, 'updated', { account_id: id, name, role, ...former, ...ended })
    return readUnderLock(tx, id)
  })
}

/** For ever: its keys are revoked, and its agents' sessions end. Throws `not_found`. */
export async function deleteServiceAccount(context: Acting, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const { name, role } = await readUnderLock(tx, id)
    const { numUpdatedRows } = await tx.trx
      .updateTable('api_keys')
      .set({ revoked_at: sql`coalesce(revoked_at, ${tx.now})`, deleted_at: tx.now })
      .where('user_id', '=', id)
      .where('deleted_at', 'is', null)
      .executeTakeFirst()
    const ended = await endAllOf(tx, id)
    await tx.trx.deleteFrom('memberships').where('user_id', '=', id).execute()
    await tx.trx.updateTable('service_accounts').set({ deleted_at: tx.now }).where('id', '=', id).execute()
    append(tx, caller, 'deleted', {
      account_id: id,
      name,
      role,
      revoked_keys: Number(numUpdatedRows),
      ...ended,
    })
  })
}

/** For a key of the account. null if there is no such account. Call it under the chain's lock. */
export async function roleOfAccount(tx: ChainTx, id: string): Promise<Role | null> {
  const row = await accountsIn(tx.trx, tx.organizationId).where('a.id', '=', id).executeTakeFirst()
  return row?.role ?? null
}

const accountsIn = (db: Db, organizationId: string) =>
  db
    .selectFrom('service_accounts as a')
    .innerJoin('memberships as m', (join) =>
      join.onRef('m.user_id', '=', 'a.id').onRef('m.organization_id', '=', 'a.organization_id'),
    )
    .innerJoin('users as u', 'u.id', 'a.id')
    .innerJoin('users as by', 'by.id', 'a.created_by')
    .select(['a.id', 'a.organization_id', 'a.name', 'm.role', 'u.email', 'a.created_by', 'a.created_at'])
    .select('by.email as created_by_email')
    .select([
      sql<number>`(select count(*)::int from api_keys k where k.user_id = a.id and k.organization_id = a.organization_id
        and k.revoked_at is null and coalesce(k.expires_at > clock_timestamp(), true))`.as('active_keys'),
      sql<Date | null>`(select max(last_used_at) from api_keys k
        where k.user_id = a.id and k.organization_id = a.organization_id)`.as('last_used_at'),
    ])
    .where('a.organization_id', '=', organizationId)
    .where('a.deleted_at', 'is', null)

const viewOf = ({
  created_at,
  last_used_at,
  ...row
}: Omit<ServiceAccountView, 'created_at' | 'last_used_at'> & {
  readonly created_at: Date
  readonly last_used_at: Date | null
}): ServiceAccountView => ({
  ...row,
  created_at: created_at.toISOString(),
  last_used_at: last_used_at?.toISOString() ?? null,
})

async function refuseMoreAccounts(tx: ChainTx): Promise<void> {
  const [row] = await tx.send(sql<{ count: number }>`
    select count(*)::int as count from service_accounts
    where organization_id = ${tx.organizationId} and deleted_at is null`)
  if ((row?.count ?? 0) < mostServiceAccounts) return
  throw errorAt(
    'validation_error',
    '',
    `an organization has at most ${mostServiceAccounts} service accounts: delete one that nothing uses`,
  )
}

async function refuseTakenName(tx: ChainTx, name: string, id: string | null): Promise<void> {
  const [other] = await tx.send(sql<{ id: string }>`
    select id from service_accounts where organization_id = ${tx.organizationId} and name = ${name}
      and deleted_at is null and id is distinct from ${id}`)
  if (other === undefined) return
  throw errorAt('validation_error', 'name', 'a service account has this name already: take another one')
}

function append(
  tx: ChainTx,
  caller: Caller,
  verb: 'created' | 'updated' | 'deleted',
  metadata: AuditMetadata<'service_account.updated' | 'service_account.deleted'>,
): void {
  tx.append({
    eventType: `service_account.${verb}`,
    action: verb.slice(0, -1),
    actor: actorOf(caller),
    metadata,
  })
}
