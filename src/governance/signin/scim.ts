import { randomBytes } from 'node:crypto'
import { sql, type Selectable } from 'kysely'
import type { AuditMetadata } from '../../contract/audit-events.ts'
import { newId } from '../../contract/ids.ts'
import { effectiveLimits, type Plan } from '../../contract/plan-limits.ts'
import type { Db } from '../../db/schema/index.ts'
import type { ScimTokensTable } from '../../db/schema/sign-in.ts'
import { quote } from '../../policy/text.ts'
import { sha256 } from '../../shared/canonical-json.ts'
import { isOfDomain } from '../../shared/sign-up-setting.ts'
import { actorOf, type Caller, type Charged } from '../access/identity.ts'
import { requireProvenCaller } from '../access/address-proof.ts'
import { roleUnderLock, runAs, type Acting } from '../access/recheck.ts'
import { isHeld, type HeldChange } from '../approvals/change.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Actor } from '../audit/entry.ts'
import { changeAs, type Changer, type Governing, type Prepared } from '../changes/gate.ts'
import type { Context } from '../context.ts'
import { DomainError, errorAt, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { exceededEntry, quotaExceeded, type Exceeded } from '../limits/run-quota.ts'
import { storageOver } from '../limits/storage.ts'
import { owned } from '../page.ts'
import { endMembership, isLastOwner, joinWithoutInvitation, noteRemoval } from '../people/members.ts'
import { addConfirmedPerson } from '../people/sign-up.ts'
import { findProvider, provenDomains } from './provider.ts'

/* The directory of a company adds and removes people (SCIM 2.0), with a token of the organization. */

export const mostScimTokens = 5
export const scimTokenDays = { usual: 180, most: 365 } as const

interface TokenView {
  readonly id: string
  readonly organization_id: string
  readonly name: string
  readonly created_by: string
  readonly created_by_email: string
  readonly created_at: string
  readonly expires_at: string
  readonly last_used_at: string | null
}

export const scimTokenRows = owned({
  table: 'scim_tokens',
  kind: 'scimToken',
  word: 'SCIM token',
  // There are at most five.
  async view(row: Selectable<ScimTokensTable>, { db }: Pick<Context, 'db'>) {
    const { email } = await db
      .selectFrom('users')
      .select('email')
      .where('id', '=', row.created_by)
      .executeTakeFirstOrThrow()
    return tokenView(row, email)
  },
})

const tokenView = (row: Omit<Selectable<ScimTokensTable>, 'hash'>, email: string): TokenView => ({
  id: row.id,
  organization_id: row.organization_id,
  name: row.name,
  created_by: row.created_by,
  created_by_email: email,
  created_at: row.created_at.toISOString(),
  expires_at: row.expires_at.toISOString(),
  last_used_at: row.last_used_at?.toISOString() ?? null,
})

type NewToken = TokenView & { readonly token?: string }

/** Only this call returns the token. Throws `conflict` above the limit, without a proven domain, and as `changeAs`. */
export async function createScimToken(
  context: Governing,
  caller: Caller,
  { name, days }: { readonly name: string; readonly days: number },
  once: Once | null,
): Promise<NewToken | HeldChange> {
  const token = `csm_${randomBytes(32).toString('base64url')}`
  const request = { id: newId('scimToken'), name, days, hash: sha256(token) }
  return changeAs<NewToken>(context, caller, {
    action: 'create',
    once,
    async prepare(tx, changer, now) {
      await requireProvenCaller(tx, await now())
      return prepareScimToken(tx, changer, request)
    },
    show: (made) => (isHeld(made) ? { change: { ...made.change, token } } : { ...made, token }),
  })
}

/** What a request asks for. The token itself is with the requester alone. */
export interface ScimTokenRequest {
  readonly id: string
  readonly name: string
  readonly days: number
  readonly hash: string
}

/** Validates the change under the lock. */
export async function prepareScimToken(
  tx: ChainTx,
  changer: Changer,
  request: ScimTokenRequest,
): Promise<Prepared<TokenView>> {
  const { id, name, days, hash } = request
  if ((await provenDomains(tx)).length === 0)
    throw errorAt(
      'conflict',
      'domains',
      'prove a domain of the sign-in first: the directory manages its people',
    )
  const { count } = await tx.trx
    .selectFrom('scim_tokens')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('organization_id', '=', tx.organizationId)
    .executeTakeFirstOrThrow()
  if (count >= mostScimTokens)
    throw errorAt('conflict', 'name', `there are ${mostScimTokens} tokens: delete one first`)
  return {
    request: { operation: 'scim_token', given: { ...request } },
    title: `Make the token ${quote(name)} for the directory`,
    before: null,
    after: { name, days },
    over: () => Promise.resolve(storageOver(tx, 0)),
    whyLooser: () => ['whoever has the token could add people, and fill the groups that it makes'],
    async save() {
      const row = {
        id,
        organization_id: tx.organizationId,
        name,
        created_by: changer.userId,
        created_at: tx.now,
        expires_at: new Date(tx.now.getTime() + days * 86_400_000),
        last_used_at: null,
      }
      await tx.trx
        .insertInto('scim_tokens')
        .values({ ...row, hash })
        .execute()
      appendTokenEvent(tx, changer, 'created', row)
      return tokenView(row, changer.email)
    },
  }
}

/** Throws `not_found`. */
export async function deleteScimToken(context: Acting, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const row = await tx.trx
      .deleteFrom('scim_tokens')
      .where('id', '=', id)
      .where('organization_id', '=', tx.organizationId)
      .returning(['id', 'name'])
      .executeTakeFirst()
    if (row === undefined) throw notFound('SCIM token', id)
    appendTokenEvent(tx, caller, 'deleted', row)
  })
}

function appendTokenEvent(
  tx: ChainTx,
  changer: Changer,
  verb: 'created' | 'deleted',
  { id, name }: { readonly id: string; readonly name: string },
): void {
  tx.append({
    eventType: `scim_token.${verb}`,
    action: verb,
    actor: actorOf(changer),
    metadata: { token_id: id, name, ...changer.cause },
  })
}

/** The directory that a request comes from. */
export interface Directory {
  readonly organizationId: string
  readonly tokenId: string
  readonly charged: Charged
}

/** null for no valid token. Notes the use at most once a minute. */
export async function directoryOf(db: Db, header: string | undefined): Promise<Directory | null> {
  const token = /^Bearer (csm_[\w-]{43})$/i.exec(header ?? '')?.[1]
  if (token === undefined) return null
  const { rows } = await sql<{ id: string; organization_id: string; plan: Plan; quota_overrides: object }>`
    select t.id, t.organization_id, o.plan, o.quota_overrides
    from scim_tokens t join organizations o on o.id = t.organization_id
    where t.hash = ${sha256(token)} and t.expires_at > clock_timestamp()`.execute(db)
  const [row] = rows
  if (row === undefined) return null
  await sql`update scim_tokens set last_used_at = clock_timestamp() where id = ${row.id}
    and coalesce(last_used_at < clock_timestamp() - interval '1 minute', true)`.execute(db)
  const limits = effectiveLimits(row.plan, row.quota_overrides)
  return {
    organizationId: row.organization_id,
    tokenId: row.id,
    charged: { holderId: row.organization_id, limits },
  }
}

export interface ScimUser {
  readonly id: string
  readonly userName: string
  readonly name: string
  readonly externalId: string | null
  readonly active: boolean
  readonly createdAt: Date
}

interface UserRow {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly external_id: string | null
  readonly active: boolean
  readonly created_at: Date
}

/** Service accounts belong to the organization, and not to its directory. */
const managed = (organizationId: string) => sql`
  from users u
  left join memberships m on m.user_id = u.id and m.organization_id = ${organizationId}
  left join scim_users s on s.user_id = u.id and s.organization_id = ${organizationId}
  where (m.user_id is not null or s.user_id is not null)
    and not exists (select from service_accounts a where a.id = u.id)`

const columns = sql`u.id, u.email, u.name, s.external_id, m.user_id is not null as active,
  coalesce(s.created_at, m.created_at) as created_at`

const userOf = (row: UserRow): ScimUser => ({
  id: row.id,
  userName: row.email,
  name: row.name,
  externalId: row.external_id,
  active: row.active,
  createdAt: row.created_at,
})

export interface UserFilter {
  readonly by: 'userName' | 'externalId' | 'id'
  readonly value: string
}

/** Members, and people whom the directory has made inactive. */
export async function listScimUsers(
  db: Db,
  organizationId: string,
  {
    filter,
    offset,
    limit,
  }: { readonly filter: UserFilter | null; readonly offset: number; readonly limit: number },
): Promise<{ readonly total: number; readonly users: readonly ScimUser[] }> {
  const value = filter?.value ?? ''
  const where = {
    userName: sql`and lower(u.email) = lower(${value})`,
    externalId: sql`and s.external_id = ${value}`,
    id: sql`and u.id = ${value}`,
  }
  const from = sql`${managed(organizationId)} ${filter === null ? sql`` : where[filter.by]}`
  const { rows } = await sql<UserRow>`
    select ${columns} ${from} order by u.id offset ${offset} limit ${limit}`.execute(db)
  const { rows: counted } = await sql<{ total: number }>`select count(*)::int as total ${from}`.execute(db)
  return { total: counted[0]?.total ?? 0, users: rows.map(userOf) }
}

/** Throws `not_found`. */
export async function readScimUser(db: Db, organizationId: string, id: string): Promise<ScimUser> {
  const filter = { by: 'id', value: id } as const
  const { users } = await listScimUsers(db, organizationId, { filter, offset: 0, limit: 1 })
  if (users[0] === undefined) throw notFound('user', id)
  return users[0]
}

export const directoryActor: Actor = { type: 'system', id: 'directory (SCIM)' }

/** Under the lock, where the token is checked again: a deleted one changes nothing. `by`: who made it. */
export async function asDirectory<T>(
  { combiner }: Pick<Context, 'combiner'>,
  { organizationId, tokenId }: Directory,
  work: (tx: ChainTx, by: string) => Promise<T>,
): Promise<T> {
  return combiner.run(organizationId, 'org.change', async (tx) => {
    const { rows } = await sql<{ by: string }>`select created_by as by from scim_tokens
      where id = ${tokenId} and expires_at > clock_timestamp() for share`.execute(tx.trx)
    if (rows[0] === undefined)
      throw new DomainError('unauthenticated', 'the token has ended: send a valid one')
    return work(tx, rows[0].by)
  })
}

type Added = { readonly user: ScimUser } | { readonly over: Exceeded }

export interface ScimInput {
  readonly userName: string
  readonly name: string
  readonly externalId: string | null
  readonly active: boolean
}

/**
 * Adds a person with an address of a proven domain, with the default role of the sign-in or as viewer. An account that
 * exists is somebody’s: they are invited, or sign in with the provider. Throws `conflict`, `validation_error`,
 * `quota_exceeded`.
 */
export async function addScimUser(
  context: Pick<Context, 'combiner' | 'config'>,
  directory: Directory,
  { userName, name, externalId, active }: ScimInput,
): Promise<ScimUser> {
  const email = userName.toLowerCase()
  const added = await asDirectory(context, directory, async (tx): Promise<Added> => {
    if (!isOfDomain(email, await provenDomains(tx)))
      throw errorAt(
        'validation_error',
        'userName',
        'the domain of this address is not proven: add it to the sign-in of the organization',
      )
    const known = await tx.trx
      .selectFrom('users')
      .select('id')
      .where((eb) => eb(eb.fn<string>('lower', ['email']), '=', email))
      .executeTakeFirst()
    if (known !== undefined)
      throw errorAt(
        'conflict',
        'userName',
        'an account with this address exists: the person joins by an invitation, or by a sign-in with the provider',
      )
    const over = storageOver(tx)
    if (over !== null) {
      tx.append(exceededEntry(over, 'create', directoryActor))
      return { over }
    }
    const id = await addConfirmedPerson(tx, context.config.people, { email, name })
    await keep(tx, id, null, externalId)
    if (active) await join(tx, id)
    else await noteRemoval(tx, id, true)
    return { user: await readScimUser(tx.trx, tx.organizationId, id) }
  })
  // After the commit, so that the entry of the refusal is saved.
  if ('over' in added) throw quotaExceeded(added.over)
  return added.user
}

/** Throws `not_found`, `conflict` for the last owner. */
export async function changeScimUser(
  context: Pick<Context, 'combiner'>,
  directory: Directory,
  id: string,
  { active, externalId }: { readonly active?: boolean; readonly externalId?: string | null },
): Promise<ScimUser> {
  return asDirectory(context, directory, async (tx) => {
    const before = await readScimUser(tx.trx, tx.organizationId, id)
    await keep(tx, id, before, externalId === undefined ? before.externalId : externalId)
    if (active === true && !before.active) await join(tx, id)
    if (active === false && before.active) await endAll(tx, id)
    return readScimUser(tx.trx, tx.organizationId, id)
  })
}

/** As inactive, and forgotten. Throws `not_found`, `conflict` for the last owner. */
export async function removeScimUser(
  context: Pick<Context, 'combiner'>,
  directory: Directory,
  id: string,
): Promise<void> {
  await asDirectory(context, directory, async (tx) => {
    const { active, externalId } = await readScimUser(tx.trx, tx.organizationId, id)
    if (active) await endAll(tx, id)
    await tx.trx
      .deleteFrom('scim_users')
      .where('organization_id', '=', tx.organizationId)
      .where('user_id', '=', id)
      .execute()
    appendPersonEvent(tx, { member_id: id, before: { external_id: externalId } })
  })
}

const appendPersonEvent = (tx: ChainTx, metadata: AuditMetadata<'scim_user.changed'>): void =>
  tx.append({ eventType: 'scim_user.changed', action: 'change', actor: directoryActor, metadata })

/** `before` is null for a person who is new. */
async function keep(
  tx: ChainTx,
  userId: string,
  before: ScimUser | null,
  externalId: string | null,
): Promise<void> {
  const other =
    externalId === null
      ? undefined
      : await tx.trx
          .selectFrom('scim_users')
          .select('user_id')
          .where('organization_id', '=', tx.organizationId)
          .where('external_id', '=', externalId)
          .where('user_id', '<>', userId)
          .executeTakeFirst()
  if (other !== undefined) throw errorAt('conflict', 'externalId', 'another person has this `externalId`')
  await tx.trx
    .insertInto('scim_users')
    .values({
      organization_id: tx.organizationId,
      user_id: userId,
      external_id: externalId,
      created_at: tx.now,
    })
    .onConflict((conflict) =>
      conflict.columns(['organization_id', 'user_id']).doUpdateSet({ external_id: externalId }),
    )
    .execute()
  if (before === null || before.externalId !== externalId)
    appendPersonEvent(tx, {
      member_id: userId,
      ...(before === null ? {} : { before: { external_id: before.externalId } }),
      after: { external_id: externalId },
    })
}

async function join(tx: ChainTx, userId: string): Promise<void> {
  const role = (await findProvider(tx.trx, tx.organizationId))?.default_role ?? 'viewer'
  await joinWithoutInvitation(tx, userId, role, directoryActor)
}

/** The membership, and with it the weight of votes, and the keys of this organization. */
async function endAll(tx: ChainTx, userId: string): Promise<void> {
  if ((await roleUnderLock(tx, userId)) === 'owner' && (await isLastOwner(tx, userId)))
    throw errorAt(
      'conflict',
      'active',
      'the last owner cannot be removed: make another member an owner first',
    )
  await endMembership(tx, userId, 'removed', directoryActor)
  const keys = await tx.trx
    .updateTable('api_keys')
    .set({ revoked_at: tx.now })
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', userId)
    .where('revoked_at', 'is', null)
    .returning(['id', 'scopes'])
    .execute()
  for (const { id, scopes } of keys)
    tx.append({
      eventType: 'api_key.revoked',
      action: 'revoke',
      actor: directoryActor,
      metadata: { key_id: id, key_user_id: userId, scopes },
    })
}
