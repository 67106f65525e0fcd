import { sql, type Selectable } from 'kysely'
import { newId } from '../../contract/ids.ts'
import type { AuditMetadata } from '../../contract/audit-events.ts'
import { violates } from '../../db/errors.ts'
import { absenceColumn, type Absence } from '../../db/queries/absences.ts'
import { namersOfGroup } from '../../db/queries/people.ts'
import type { GroupsTable } from '../../db/schema/identity.ts'
import type { Db } from '../../db/schema/index.ts'
import { list, quote } from '../../policy/text.ts'
import type { Role } from '../../policy/types.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Actor } from '../audit/entry.ts'
import type { GroupName } from '../access/groups.ts'
import { errorAt, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { readPage, type Page, type PageRequest } from '../page.ts'

export const mostGroups = 200
export const mostGroupMembers = 500

export interface GroupView {
  readonly id: string
  readonly organization_id: string
  readonly name: string
  readonly description: string
  readonly member_count: number
  readonly created_by: string
  readonly created_at: string
}

interface GroupMember {
  readonly user_id: string
  readonly email: string
  readonly role: Role
  readonly added_by: string
  readonly added_at: string
  readonly absence: Absence | null
}

export type GroupDetail = GroupView & { readonly members: readonly GroupMember[] }

export interface GroupInput {
  readonly name: string
  readonly description: string
  /** Ids or mail addresses of members of the organization. */
  readonly members: readonly string[]
}

const groupsIn = (db: Db, organizationId: string) =>
  db
    .selectFrom('groups as g')
    .selectAll('g')
    .select(sql<number>`(select count(*)::int from group_members where group_id = g.id)`.as('member_count'))
    .where('g.organization_id', '=', organizationId)

export async function listGroups(
  { db }: { readonly db: Db },
  { organizationId }: Caller,
  page: PageRequest,
): Promise<Page<GroupView>> {
  const { data, next_cursor } = await readPage(db, groupsIn(db, organizationId), 'group', page, 'g.id')
  return { data: data.map(groupView), next_cursor }
}

/** Members by mail address. Throws `not_found`. */
export async function readGroup(db: Db, organizationId: string, id: string): Promise<GroupDetail> {
  const row = await groupsIn(db, organizationId).where('g.id', '=', id).executeTakeFirst()
  if (row === undefined) throw notFound('group', id)
  const members = await db
    .selectFrom('group_members as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .innerJoin('memberships as s', (join) =>
      join.onRef('s.organization_id', '=', 'm.organization_id').onRef('s.user_id', '=', 'm.user_id'),
    )
    .select(['m.user_id', 'u.email', 's.role', 'm.added_by', 'm.added_at'])
    .select(absenceColumn.as('absence'))
    .where('m.group_id', '=', id)
    .orderBy('u.email')
    .execute()
  return {
    ...groupView(row),
    members: members.map(({ added_at, ...member }) => ({ ...member, added_at: added_at.toISOString() })),
  }
}

/** Throws `conflict` for a taken name, and `validation_error` above a limit or for somebody who is no member. */
export async function createGroup(
  context: Acting,
  caller: Caller,
  { name, description, members }: GroupInput,
  once: Once | null,
): Promise<GroupDetail> {
  const id = newId('group')
  return changeNamed(name, () =>
    runAs(context, caller, 'org.change', async (tx) => {
      const people = await peopleNamed(tx, members)
      const missing = members.findIndex((named) => !people.has(named.toLowerCase()))
      if (missing >= 0) throw errorAt('validation_error', `members.${missing}`, noMember(members[missing]))
      const group = { id, name, description, members: [...new Set(people.values())] }
      await insertGroup(tx, group, { by: caller.userId, actor: actorOf(caller) })
      return keepMade(once, tx, await readGroup(tx.trx, tx.organizationId, id))
    }),
  )
}

interface Doer {
  readonly by: string
  readonly actor: Actor
}

/** The caller has checked that `members` are members of the organization. Throws `validation_error` above a limit. */
export async function insertGroup(
  tx: ChainTx,
  group: GroupName & { readonly description: string; readonly members: readonly string[] },
  { by, actor }: Doer,
): Promise<void> {
  const { id, name, description, members } = group
  await requireRoom(tx)
  requireFits(members.length)
  await tx.trx
    .insertInto('groups')
    .values({
      id,
      organization_id: tx.organizationId,
      name,
      description,
      created_by: by,
      created_at: tx.now,
    })
    .execute()
  if (members.length > 0) await insertMembers(tx, by, id, members)
  const after = { name, description, members: [...members] }
  appendGroupEvent(tx, actor, 'created', { group_id: id, name, after })
}

interface GroupChange {
  readonly name?: string | undefined
  readonly description?: string | undefined
}

/** Throws `not_found`, and `conflict` for a taken name, or for another name of a group that a rule names. */
export async function changeGroup(
  context: Acting,
  caller: Caller,
  id: string,
  change: GroupChange,
): Promise<GroupView> {
  return changeNamed(change.name ?? '', () =>
    runAs(context, caller, 'org.change', async (tx) => {
      await updateGroup(tx, id, change, actorOf(caller))
      return groupView(
        await groupsIn(tx.trx, tx.organizationId).where('g.id', '=', id).executeTakeFirstOrThrow(),
      )
    }),
  )
}

/** As `changeGroup`. */
export async function updateGroup(tx: ChainTx, id: string, change: GroupChange, actor: Actor): Promise<void> {
  const { name, description } = await groupIn(tx, id)
  const before = { name, description }
  if (change.name !== undefined && change.name !== name) await refuseNamed(tx, name)
  const after = { name: change.name ?? name, description: change.description ?? description }
  await tx.trx.updateTable('groups').set(after).where('id', '=', id).execute()
  appendGroupEvent(tx, actor, 'updated', { group_id: id, name: after.name, before, after })
}

/** Throws `not_found`, and `conflict` if a rule names it. */
export async function deleteGroup(context: Acting, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', (tx) => dropGroup(tx, id, actorOf(caller)))
}

/** As `deleteGroup`. */
export async function dropGroup(tx: ChainTx, id: string, actor: Actor): Promise<void> {
  const { name, description } = await groupIn(tx, id)
  await refuseNamed(tx, name)
  const { members } = await readGroup(tx.trx, tx.organizationId, id)
  await tx.trx.deleteFrom('groups').where('id', '=', id).execute()
  const before = { name, description, members: members.map(({ user_id }) => user_id) }
  appendGroupEvent(tx, actor, 'deleted', { group_id: id, name, before })
}

interface Membership {
  readonly group: string
  /** The id or mail address of a member of the organization. */
  readonly user: string
}

/** Changes nothing if they are in the group. Throws `not_found`, and `validation_error` for a full group. */
export async function addGroupMember(
  context: Acting,
  caller: Caller,
  { group: id, user }: Membership,
): Promise<GroupDetail> {
  return runAs(context, caller, 'org.change', async (tx) => {
    const { name } = await groupIn(tx, id)
    const userId = await personNamed(tx, user)
    const { members } = await readGroup(tx.trx, tx.organizationId, id)
    if (!members.some(({ user_id }) => user_id === userId)) {
      requireFits(members.length + 1)
      await putIntoGroup(tx, { id, name }, userId, { by: caller.userId, actor: actorOf(caller) })
    }
    return readGroup(tx.trx, tx.organizationId, id)
  })
}

/** From then on, their votes for the group no longer count. Throws `not_found`. */
export async function removeGroupMember(
  context: Acting,
  caller: Caller,
  { group: id, user }: Membership,
): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const { name } = await groupIn(tx, id)
    const userId = await personNamed(tx, user)
    if (!(await takeOutOfGroup(tx, { id, name }, userId, actorOf(caller))))
      throw notFound('member of the group', user)
  })
}

/** The caller has checked that the person is a member of the organization, and that the group is not full. */
export async function putIntoGroup(
  tx: ChainTx,
  { id, name }: GroupName,
  userId: string,
  { by, actor }: Doer,
): Promise<void> {
  await insertMembers(tx, by, id, [userId])
  appendGroupEvent(tx, actor, 'member_added', { group_id: id, name, member_id: userId })
}

/** false if the person is not in the group. */
export async function takeOutOfGroup(
  tx: ChainTx,
  { id, name }: GroupName,
  userId: string,
  actor: Actor,
): Promise<boolean> {
  const { numDeletedRows } = await tx.trx
    .deleteFrom('group_members')
    .where('group_id', '=', id)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  if (numDeletedRows === 0n) return false
  appendGroupEvent(tx, actor, 'member_removed', { group_id: id, name, member_id: userId })
  return true
}

async function groupIn(tx: ChainTx, id: string): Promise<Selectable<GroupsTable>> {
  const row = await tx.trx
    .selectFrom('groups')
    .selectAll()
    .where('organization_id', '=', tx.organizationId)
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) throw notFound('group', id)
  return row
}

/** A refusal names at most this many. */
const mostNamed = 3

/** What names the group would mean nobody without it, or another group that gets its name. */
async function refuseNamed(tx: ChainTx, name: string): Promise<void> {
  const rows = await tx.send(namersOfGroup(tx.organizationId, name))
  if (rows.length === 0) return
  const named = list(
    rows.map((row) => `the ${row.kind} ${quote(row.name)}`),
    'and',
    mostNamed,
  )
  const them = rows.length === 1 ? 'it' : 'them'
  throw errorAt('conflict', '', `\`${name}\` is named by ${named}: change or delete ${them} first`)
}

/** Ids of members, by the id or the address in lower case that names them. */
export async function peopleNamed(
  tx: ChainTx,
  named: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const wanted = new Set(named.map((each) => each.toLowerCase()))
  const rows = await tx.trx
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['u.id', 'u.email'])
    .where('m.organization_id', '=', tx.organizationId)
    .where(sql<boolean>`(lower(u.id) = any(${[...wanted]}) or lower(u.email) = any(${[...wanted]}))`)
    .execute()
  return new Map(
    rows.flatMap(({ id, email }) =>
      [id.toLowerCase(), email.toLowerCase()].flatMap((name) =>
        wanted.has(name) ? [[name, id] as const] : [],
      ),
    ),
  )
}

async function personNamed(tx: ChainTx, named: string): Promise<string> {
  const found = (await peopleNamed(tx, [named])).get(named.toLowerCase())
  if (found === undefined) throw notFound('member', named)
  return found
}

export const noMember = (named = ''): string =>
  `\`${named}\` is not a member of the organization: give the id or mail address of a member, or invite the person first`

const insertMembers = (tx: ChainTx, by: string, id: string, people: readonly string[]) =>
  tx.trx
    .insertInto('group_members')
    .values(
      people.map((user_id) => ({
        group_id: id,
        organization_id: tx.organizationId,
        user_id,
        added_by: by,
        added_at: tx.now,
      })),
    )
    .execute()

export function requireFits(members: number): void {
  if (members <= mostGroupMembers) return
  const message = `a group has at most ${mostGroupMembers} members: make another one`
  throw errorAt('validation_error', 'members', message)
}

async function requireRoom(tx: ChainTx): Promise<void> {
  const { count } = await tx.trx
    .selectFrom('groups')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('organization_id', '=', tx.organizationId)
    .executeTakeFirstOrThrow()
  if (count < mostGroups) return
  throw errorAt('validation_error', '', `an organization has at most ${mostGroups} groups: delete one first`)
}

/** Gives a taken name its sentence. */
export async function changeNamed<R>(name: string, change: () => Promise<R>): Promise<R> {
  try {
    return await change()
  } catch (error) {
    if (!violates(error, 'groups_name')) throw error
    throw errorAt('conflict', 'name', `there is a group called \`${name}\` already: take another name`)
  }
}

type GroupEvent = 'created' | 'updated' | 'deleted' | 'member_added' | 'member_removed'

/** Policies name groups, so each change makes a new version of the policy. */
function appendGroupEvent(
  tx: ChainTx,
  actor: Actor,
  verb: GroupEvent,
  metadata: AuditMetadata<`group.${GroupEvent}`>,
): void {
  tx.policyChanged()
  tx.append({ eventType: `group.${verb}`, action: verb, actor, metadata })
}

const groupView = (row: Selectable<GroupsTable> & { readonly member_count: number }): GroupView => ({
  id: row.id,
  organization_id: row.organization_id,
  name: row.name,
  description: row.description,
  member_count: row.member_count,
  created_by: row.created_by,
  created_at: row.created_at.toISOString(),
})
