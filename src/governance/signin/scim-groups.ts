import { sql } from 'kysely'
import { newId } from '../../contract/ids.ts'
import type { Db } from '../../db/schema/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Context } from '../context.ts'
import { errorAt, notFound } from '../errors.ts'
import {
  dropGroup,
  insertGroup,
  putIntoGroup,
  requireFits,
  requireNew,
  requireRename,
  takeOutOfGroup,
  updateGroup,
} from '../people/groups.ts'
import { asDirectory, directoryActor as actor, type Directory } from './scim.ts'

/*
 * Groups that the directory of a company has made. It neither sees nor changes others. Each is a group of the organization,
 * whose name comes from the name in the directory.
 */

export interface ScimGroup {
  readonly id: string
  readonly name: string
  readonly displayName: string
  readonly externalId: string | null
  readonly members: readonly { readonly id: string; readonly email: string }[]
  readonly createdAt: Date
}

export interface ScimGroupFilter {
  readonly by: 'displayName' | 'externalId' | 'id'
  readonly value: string
}

interface Row {
  readonly id: string
  readonly name: string
  readonly display_name: string
  readonly external_id: string | null
  readonly created_at: Date
  readonly members: { id: string; email: string }[]
}

const groupOf = (row: Row): ScimGroup => ({
  id: row.id,
  name: row.name,
  displayName: row.display_name,
  externalId: row.external_id,
  members: row.members,
  createdAt: row.created_at,
})

/** Without `withMembers`, their lists are empty. */
export async function listScimGroups(
  db: Db,
  organizationId: string,
  asked: {
    readonly filter: ScimGroupFilter | null
    readonly offset: number
    readonly limit: number
    readonly withMembers: boolean
  },
): Promise<{ readonly total: number; readonly groups: readonly ScimGroup[] }> {
  const { filter } = asked
  const value = filter?.value ?? ''
  const where = {
    displayName: sql`and lower(s.display_name) = lower(${value})`,
    externalId: sql`and s.external_id = ${value}`,
    id: sql`and g.id = ${value}`,
  }
  const from = sql`from scim_groups s join groups g on g.id = s.group_id
    where g.organization_id = ${organizationId} ${filter === null ? sql`` : where[filter.by]}`
  const members = asked.withMembers
    ? sql`(select coalesce(jsonb_agg(jsonb_build_object('id', u.id, 'email', u.email) order by u.email), '[]')
        from group_members m join users u on u.id = m.user_id where m.group_id = g.id)`
    : sql`'[]'::jsonb`
  const { rows } =
    await sql<Row>`select g.id, g.name, s.display_name, s.external_id, g.created_at, ${members} as members
    ${from} order by g.id offset ${asked.offset} limit ${asked.limit}`.execute(db)
  const { rows: counted } = await sql<{ total: number }>`select count(*)::int as total ${from}`.execute(db)
  return { total: counted[0]?.total ?? 0, groups: rows.map(groupOf) }
}

/** Throws `not_found`. */
export async function readScimGroup(
  db: Db,
  organizationId: string,
  id: string,
  withMembers = true,
): Promise<ScimGroup> {
  const filter = { by: 'id', value: id } as const
  const { groups } = await listScimGroups(db, organizationId, { filter, offset: 0, limit: 1, withMembers })
  if (groups[0] === undefined) throw notFound('group of the directory', id)
  return groups[0]
}

/** Throws `conflict` for a taken name or `externalId`, `validation_error` above a limit or for somebody who is no member. */
export async function addScimGroup(
  context: Pick<Context, 'combiner'>,
  directory: Directory,
  given: {
    readonly displayName: string
    readonly externalId: string | null
    readonly members: readonly string[]
  },
): Promise<ScimGroup> {
  const name = nameFrom(given.displayName)
  return asDirectory(context, directory, async (tx, by) => {
    await requireMembers(tx, given.members)
    const members = [...new Set(given.members)]
    await requireNew(tx, name, members)
    const group = { id: newId('group'), name, description: '', members }
    await insertGroup(tx, group, { by, actor })
    await keep(tx, group.id, null, given)
    return readScimGroup(tx.trx, tx.organizationId, group.id)
  })
}

export interface ScimGroupChange {
  readonly displayName?: string
  readonly externalId?: string | null
  /** The members afterwards, from the present ones. */
  readonly members?: (present: ReadonlySet<string>) => ReadonlySet<string>
}

/** Throws `not_found`, and as `addScimGroup`; also `conflict` for another name of a group that a rule names. */
export async function changeScimGroup(
  context: Pick<Context, 'combiner'>,
  directory: Directory,
  id: string,
  { displayName, externalId, members }: ScimGroupChange,
): Promise<ScimGroup> {
  const wanted = displayName === undefined ? '' : nameFrom(displayName)
  return asDirectory(context, directory, async (tx, by) => {
    const before = await readScimGroup(tx.trx, tx.organizationId, id)
    // An owner may have given it another name here, which stays until the directory gives one.
    const isRenamed = displayName !== undefined && displayName !== before.displayName
    const name = isRenamed ? wanted : before.name
    if (name !== before.name) {
      await requireRename(tx, before.name, name)
      await updateGroup(tx, id, { name }, { actor })
    }
    await keep(tx, id, before, {
      displayName: displayName ?? before.displayName,
      externalId: externalId === undefined ? before.externalId : externalId,
    })
    const inside = new Set(before.members.map((each) => each.id))
    const after = members?.(inside) ?? inside
    const added = [...after].filter((each) => !inside.has(each))
    await requireMembers(tx, added)
    requireFits(after.size)
    const group = { id, name }
    for (const each of inside) if (!after.has(each)) await takeOutOfGroup(tx, group, each, actor)
    for (const each of added) await putIntoGroup(tx, group, each, { by, actor })
    return readScimGroup(tx.trx, tx.organizationId, id)
  })
}

/** Throws `not_found`, and `conflict` if a rule names it. */
export async function removeScimGroup(
  context: Pick<Context, 'combiner'>,
  directory: Directory,
  id: string,
): Promise<void> {
  await asDirectory(context, directory, async (tx) => {
    await readScimGroup(tx.trx, tx.organizationId, id, false)
    await dropGroup(tx, id, { actor })
  })
}

/** `Finance Team` is `finance-team` here. Throws `validation_error`. */
function nameFrom(displayName: string): string {
  const name = displayName
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, '-')
    .replaceAll(/^[^a-z]+|-+$/g, '')
  if (name !== '' && name.length <= 64) return name
  throw errorAt(
    'validation_error',
    'displayName',
    'a group here has a name of 1 to 64 Latin letters, digits, `-` and `_`: give the group another name in the directory',
  )
}

/** Only members of the organization can be in its groups. */
async function requireMembers(tx: ChainTx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  const { rows } = await sql<{ id: string }>`select m.user_id as id from memberships m
    where m.organization_id = ${tx.organizationId} and m.user_id = any(${[...ids]}::text[])
      and not exists (select from service_accounts where id = m.user_id)`.execute(tx.trx)
  const found = new Set(rows.map(({ id }) => id))
  const missing = ids.find((id) => !found.has(id))
  if (missing !== undefined)
    throw errorAt(
      'validation_error',
      'members',
      `\`${missing.slice(0, 100)}\` is no active user of the directory here: add the user first`,
    )
}

type Known = Pick<ScimGroup, 'displayName' | 'externalId'>

async function keep(
  tx: ChainTx,
  groupId: string,
  before: Known | null,
  { displayName, externalId }: Known,
): Promise<void> {
  const { rows } = await sql`select from scim_groups where organization_id = ${tx.organizationId}
    and external_id = ${externalId} and group_id <> ${groupId}`.execute(tx.trx)
  if (rows.length > 0) throw errorAt('conflict', 'externalId', 'another group has this `externalId`')
  const values = { display_name: displayName, external_id: externalId }
  await tx.trx
    .insertInto('scim_groups')
    .values({ group_id: groupId, organization_id: tx.organizationId, ...values })
    .onConflict((conflict) => conflict.column('group_id').doUpdateSet(values))
    .execute()
  if (before?.displayName === displayName && before.externalId === externalId) return
  const shown = (known: Known) => ({ display_name: known.displayName, external_id: known.externalId })
  tx.append({
    eventType: 'scim_group.changed',
    action: 'change',
    actor,
    metadata: {
      group_id: groupId,
      ...(before === null ? {} : { before: shown(before) }),
      after: shown({ displayName, externalId }),
    },
  })
}
