import { sql, type Selectable } from 'kysely'
import { newId } from '../../contract/ids.ts'
import type { AuditMetadata } from '../../contract/audit-events.ts'
import { absenceColumn, type Absence } from '../../db/queries/absences.ts'
import { namersOfGroup, waitingForGroup } from '../../db/queries/people.ts'
import type { GroupsTable } from '../../db/schema/identity.ts'
import type { ManagedBy } from '../../db/schema/policy.ts'
import type { Db } from '../../db/schema/index.ts'
import { list, quote } from '../../policy/text.ts'
import { whyLooserMembers, type GroupUse } from '../../policy/strictness-access.ts'
import type { AgentAccess, JsonObject, Role } from '../../policy/types.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { refuseManaged } from '../access/managed.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { isHeld, plainJson, type HeldChange } from '../approvals/change.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { changeAs, type Changer, type Governing, type Prepared } from '../changes/gate.ts'
import type { Actor } from '../audit/entry.ts'
import type { GroupName } from '../access/groups.ts'
import { errorAt, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { readPage, type Page, type PageRequest } from '../page.ts'

export const mostGroups = 200
export const mostGroupMembers = 500

export interface GroupView {
  readonly id: string
  readonly organization_id: string
  readonly name: string
  readonly description: string
  /** With `deny`, a rule must allow each call of an agent of a member. */
  readonly default_agent_access: AgentAccess
  readonly member_count: number
  readonly created_by: string
  readonly created_at: string
  readonly managed_by: ManagedBy | null
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
export function createGroup(
  context: Governing,
  caller: Caller,
  { name, description, members }: GroupInput,
  once: Once | null,
): Promise<GroupDetail | HeldChange> {
  const id = newId('group')
  return changeAs(context, caller, {
    action: 'create',
    once,
    async prepare(tx, changer) {
      const people = await peopleNamed(tx, members)
      const missing = members.findIndex((named) => !people.has(named.toLowerCase()))
      if (missing >= 0) throw errorAt('validation_error', `members.${missing}`, noMember(members[missing]))
      return prepareGroup(tx, changer, { id, name, description, members: [...new Set(people.values())] })
    },
  })
}

/** What a request asks for, with the ids of members. */
export interface NewGroupRequest extends GroupInput {
  readonly id: string
}

/** Validates the change under the lock. */
export async function prepareGroup(
  tx: ChainTx,
  changer: Changer,
  request: NewGroupRequest,
): Promise<Prepared<GroupDetail>> {
  const { id, members, name, description } = request
  await requireNew(tx, name, members)
  return {
    request: { operation: 'group.create', given: plainJson(request) as JsonObject },
    title: `Make the group ${quote(name)}`,
    before: null,
    after: { name, description, members: await addressesOf(tx, members) },
    whyLooser: async () =>
      whyLooserMembers(await tx.send(namersOfGroup(tx.organizationId, name)), {
        comes: members.length > 0,
        goes: false,
      }),
    async save() {
      await insertGroup(tx, request, doerOf(changer))
      return readGroup(tx.trx, tx.organizationId, id)
    },
  }
}

export const doerOf = (changer: Changer): Doer => ({
  by: changer.userId,
  actor: actorOf(changer),
  ...(changer.cause === undefined ? {} : { cause: changer.cause }),
})

interface Doer {
  readonly by: string
  readonly actor: Actor
  readonly cause?: NonNullable<Changer['cause']>
}

/** Throws `conflict` for a taken name, and `validation_error` above a limit. */
export async function requireNew(tx: ChainTx, name: string, members: readonly string[]): Promise<void> {
  await refuseTaken(tx, name)
  const { count } = await tx.trx
    .selectFrom('groups')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('organization_id', '=', tx.organizationId)
    .executeTakeFirstOrThrow()
  if (count >= mostGroups)
    throw errorAt(
      'validation_error',
      '',
      `an organization has at most ${mostGroups} groups: delete one first`,
    )
  requireFits(members.length)
}

/** The caller has called `requireNew`, and has checked that `members` are members of the organization. */
export async function insertGroup(
  tx: ChainTx,
  group: GroupName & { readonly description: string; readonly members: readonly string[] },
  { by, actor, cause }: Doer,
): Promise<void> {
  const { id, name, description, members } = group
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
  appendGroupEvent(tx, actor, 'created', { group_id: id, name, after, ...cause })
}

export interface GroupChange {
  readonly name?: string | undefined
  readonly description?: string | undefined
  readonly default_agent_access?: AgentAccess | undefined
}

/** Throws `not_found`, and `conflict` for a taken name, or for another name of a group that a rule names. */
export const changeGroup = (
  context: Governing,
  caller: Caller,
  id: string,
  change: GroupChange,
): Promise<GroupView | HeldChange> =>
  changeAs(context, caller, {
    action: 'update',
    prepare: (tx, changer) => prepareGroupChange(tx, changer, { ...change, id }),
  })

/** Validates the change under the lock. */
export async function prepareGroupChange(
  tx: ChainTx,
  changer: Changer,
  request: GroupChange & { readonly id: string },
): Promise<Prepared<GroupView>> {
  const { id, ...change } = request
  const row = await groupIn(tx, id)
  const { name, managed_by: managed } = row
  const { before, after } = sidesOf(row, change)
  const isRenamed = after.name !== name
  if (isRenamed) await requireRename(tx, name, after.name)
  return {
    request: { operation: 'group.update', given: plainJson(request) as JsonObject },
    title: `Change the group ${quote(name)}`,
    before,
    after,
    managed,
    groups: [name],
    whyLooser: async () => [
      ...(isRenamed
        ? whyLooserMembers(await tx.send(namersOfGroup(tx.organizationId, after.name)), {
            comes: true,
            goes: false,
          })
        : []),
      ...(row.default_agent_access === 'deny' && after.default_agent_access !== 'deny' ? [agentsFreed] : []),
    ],
    async save() {
      await updateGroup(tx, id, change, doerOf(changer))
      return groupView(
        await groupsIn(tx.trx, tx.organizationId).where('g.id', '=', id).executeTakeFirstOrThrow(),
      )
    },
  }
}

const agentsFreed = 'agents of its members would need no rule that allows a call'

/** The default for agents stands in a change only if it is `deny` before or after. */
function sidesOf(row: Selectable<GroupsTable>, change: GroupChange) {
  const { name, description, default_agent_access: access } = row
  const before = { name, description }
  const after = { name: change.name ?? name, description: change.description ?? description }
  const next = change.default_agent_access ?? access
  if (access === 'allow' && next === 'allow')
    return { before, after: { ...after, default_agent_access: next } }
  return {
    before: { ...before, default_agent_access: access },
    after: { ...after, default_agent_access: next },
  }
}

/** Throws `conflict` for a taken name, or if a rule names the group. */
export async function requireRename(tx: ChainTx, name: string, next: string): Promise<void> {
  await refuseNamed(tx, name)
  await refuseTaken(tx, next)
}

/** For another name, the caller has called `requireRename`. Throws `not_found`. */
export async function updateGroup(
  tx: ChainTx,
  id: string,
  change: GroupChange,
  { actor, cause }: Pick<Doer, 'actor' | 'cause'>,
): Promise<void> {
  const { before, after } = sidesOf(await groupIn(tx, id), change)
  await tx.trx.updateTable('groups').set(after).where('id', '=', id).execute()
  appendGroupEvent(tx, actor, 'updated', { group_id: id, name: after.name, before, after, ...cause })
}

/** Throws `not_found`, and `conflict` if a rule names it or it comes from a file. */
export async function deleteGroup(context: Acting, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    refuseManaged(tx.organizationId, (await groupIn(tx, id)).managed_by)
    await dropGroup(tx, id, { actor: actorOf(caller) })
  })
}

/** Throws `not_found`, and `conflict` if a rule names it. */
export async function dropGroup(
  tx: ChainTx,
  id: string,
  { actor, cause }: Pick<Doer, 'actor' | 'cause'>,
): Promise<void> {
  const { name, description } = await groupIn(tx, id)
  await refuseNamed(tx, name)
  const { members } = await readGroup(tx.trx, tx.organizationId, id)
  await tx.trx.deleteFrom('groups').where('id', '=', id).execute()
  const before = { name, description, members: members.map(({ user_id }) => user_id) }
  appendGroupEvent(tx, actor, 'deleted', { group_id: id, name, before, ...cause })
}

interface Membership {
  readonly group: string
  /** The id or mail address of a member of the organization. */
  readonly user: string
}

/** Changes nothing if they are in the group. Throws `not_found`, and `validation_error` for a full group. */
export const addGroupMember = (
  context: Governing,
  caller: Caller,
  given: Membership,
): Promise<GroupDetail | HeldChange> =>
  changeAs(context, caller, {
    action: 'update',
    prepare: (tx, changer) => prepareMembership(tx, changer, { ...given, is_in: true }),
  })

/** From then on, their votes for the group no longer count. Throws `not_found`. */
export async function removeGroupMember(
  context: Governing,
  caller: Caller,
  given: Membership,
): Promise<HeldChange | undefined> {
  const answer = await changeAs(context, caller, {
    action: 'update',
    prepare: (tx, changer) => prepareMembership(tx, changer, { ...given, is_in: false }),
  })
  return isHeld(answer) ? answer : undefined
}

/** What a request asks for: whether the person is to be in the group. */
export interface MembershipRequest extends Membership {
  readonly is_in: boolean
}

/** Validates the change under the lock. */
export async function prepareMembership(
  tx: ChainTx,
  changer: Changer,
  { group: id, user, is_in: isIn }: MembershipRequest,
): Promise<Prepared<GroupDetail>> {
  const { name, managed_by: managed, default_agent_access: access } = await groupIn(tx, id)
  const userId = await personNamed(tx, user)
  const { members } = await readGroup(tx.trx, tx.organizationId, id)
  const wasIn = members.some(({ user_id }) => user_id === userId)
  if (!isIn && !wasIn) throw notFound('member of the group', user)
  if (isIn && !wasIn) requireFits(members.length + 1)
  const [address = userId] = await addressesOf(tx, [userId])
  const whyMember = (uses: readonly GroupUse[]) =>
    isIn === wasIn ? [] : whyLooserMembers(uses, { comes: isIn, goes: !isIn })
  const side = (is: boolean) => ({ group: name, member: address, member_id: userId, is_in: is })
  return {
    request: { operation: 'group.member', given: { group: id, user: userId, is_in: isIn } },
    title: isIn
      ? `Add a member to the group ${quote(name)}`
      : `Take a member out of the group ${quote(name)}`,
    sealedTitle: isIn
      ? `Add ${quote(address)} to the group ${quote(name)}`
      : `Take ${quote(address)} out of the group ${quote(name)}`,
    before: side(wasIn),
    after: side(isIn),
    managed,
    whyLooser: async () => [
      ...whyMember(await tx.send(namersOfGroup(tx.organizationId, name))),
      ...(access === 'deny' && wasIn && !isIn ? [agentsFreed] : []),
    ],
    whyForNow: async () => whyMember(await tx.send(waitingForGroup(tx.organizationId, id))),
    async save() {
      const group = { id, name }
      const doer = doerOf(changer)
      if (isIn && !wasIn) await putIntoGroup(tx, group, userId, doer)
      if (!isIn) await takeOutOfGroup(tx, group, userId, doer.actor, doer.cause)
      return readGroup(tx.trx, tx.organizationId, id)
    },
  }
}

/** The caller has checked that the person is a member of the organization, and that the group is not full. */
export async function putIntoGroup(
  tx: ChainTx,
  { id, name }: GroupName,
  userId: string,
  { by, actor, cause }: Doer,
): Promise<void> {
  await insertMembers(tx, by, id, [userId])
  appendGroupEvent(tx, actor, 'member_added', { group_id: id, name, member_id: userId, ...cause })
}

/** false if the person is not in the group. */
export async function takeOutOfGroup(
  tx: ChainTx,
  { id, name }: GroupName,
  userId: string,
  actor: Actor,
  cause?: Doer['cause'],
): Promise<boolean> {
  const { numDeletedRows } = await tx.trx
    .deleteFrom('group_members')
    .where('group_id', '=', id)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  if (numDeletedRows === 0n) return false
  appendGroupEvent(tx, actor, 'member_removed', { group_id: id, name, member_id: userId, ...cause })
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
const refuseNamed = async (tx: ChainTx, name: string): Promise<void> =>
  refuseNamers(name, await tx.send(namersOfGroup(tx.organizationId, name)))

/** Throws `conflict` if there are any. */
export function refuseNamers(name: string, rows: readonly GroupUse[]): void {
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

async function addressesOf(tx: ChainTx, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.trx
    .selectFrom('users')
    .select('email')
    .where('id', 'in', ['', ...ids])
    .orderBy('email')
    .execute()
  return rows.map(({ email }) => email)
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

/** Changes of an organization's groups run one after another, so no other one can take the name after this check. */
async function refuseTaken(tx: ChainTx, name: string): Promise<void> {
  const other = await tx.trx
    .selectFrom('groups')
    .select('id')
    .where('organization_id', '=', tx.organizationId)
    .where('name', '=', name)
    .executeTakeFirst()
  if (other !== undefined)
    throw errorAt('conflict', 'name', `there is a group called \`${name}\` already: take another name`)
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
  default_agent_access: row.default_agent_access,
  member_count: row.member_count,
  created_by: row.created_by,
  created_at: row.created_at.toISOString(),
  managed_by: row.managed_by,
})
