import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { groupsOfPerson } from '../../db/queries/approvals.ts'
import { isPerson, isRole, laterWords, seatWords, type HeldLater, type HeldSeat } from '../../policy/seats.ts'
import { list, quote } from '../../policy/text.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'
import type { Role } from '../../policy/types.ts'
import type { ApprovalKind } from '../../contract/status.ts'
import { readGovernance } from '../audit/policy-cache.ts'
import {
  approving,
  canFillOne,
  fillSeats,
  laterTimes,
  onceEach,
  requirementOf,
  voteRefusal,
  type Requirement,
  type TermsOfKind,
  type Voted,
  type Voter,
} from './requirement.ts'

export interface PossibleVoter extends Voter {
  readonly email: string
  readonly role: Role
}

/** Everybody of the organization who could fill one of the seats by their own right, now or later, by mail address. */
export async function readVoters(
  db: Db,
  organizationId: string,
  seats: readonly HeldSeat[],
): Promise<readonly PossibleVoter[]> {
  const asked = seats.flatMap((seat) => [seat, ...(seat.also ?? [])])
  const ids = asked.flatMap((who) => (isRole(who) || who.id === null ? [] : [who.id]))
  const rows = await db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select(['m.user_id', 'u.email', 'm.role', sql<null>`null`.as('for_user')])
    .select(sql<Date>`clock_timestamp()`.as('at'))
    .select(groupsOfPerson(sql`m.organization_id`, sql`m.user_id`).as('groups'))
    .where('m.organization_id', '=', organizationId)
    .where(sql<boolean>`not exists (select from service_accounts where id = m.user_id)`)
    .where((eb) =>
      eb.or([
        sql<boolean>`${asked.some(isRole)} and m.role in ('admin', 'owner')`,
        eb('m.user_id', 'in', ['', ...ids]),
        eb.exists(
          eb
            .selectFrom('group_members as g')
            .select('g.user_id')
            .whereRef('g.organization_id', '=', 'm.organization_id')
            .whereRef('g.user_id', '=', 'm.user_id')
            .where('g.group_id', 'in', ['', ...ids]),
        ),
      ]),
    )
    .orderBy('u.email')
    .execute()
  return rows.filter((person) => canFillOne({ ...person, at: atLast }, seats))
}

/** The ids of groups of these seats that were deleted since the call was held. */
export async function readDeletedGroups(db: Db, seats: readonly HeldSeat[]): Promise<ReadonlySet<string>> {
  const ids = seats.flatMap((seat) => (isRole(seat) || isPerson(seat) || seat.id === null ? [] : [seat.id]))
  if (ids.length === 0) return new Set()
  const rows = await db.selectFrom('groups').select('id').where('id', 'in', ids).execute()
  const present = new Set(rows.map(({ id }) => id))
  return new Set(ids.filter((id) => !present.has(id)))
}

/** When everybody who is asked later is asked too. */
const atLast = new Date(8.64e15)

interface Expiring {
  readonly kind: ApprovalKind
  readonly expires_at: Date | null
}

/**
 * Null if these people can still give the approval together with the votes that count. Else one sentence that says
 * which seats stay empty and what to do.
 */
export function whyNobodyCan(
  people: readonly Voter[],
  approval: Voted & Expiring,
  required: Requirement,
  deletedGroups: ReadonlySet<string> = new Set(),
): string | null {
  const lacking = lackingNow(people, approval, required, deletedGroups)
  if (lacking === null) return null
  for (const at of laterTimes(required.seats))
    if (
      (approval.expires_at === null || at < approval.expires_at) &&
      lackingNow(
        people.map((person) => ({ ...person, at })),
        approval,
        required,
        deletedGroups,
      ) === null
    )
      return `nobody can ${approval.kind === 'ask' ? 'answer' : 'give'} it before ${shownTime(at)}, when ${nextWords(required, at)} is asked too`
  return lacking
}

const shownTime = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`

const nextWords = ({ seats }: Requirement, at: Date): string => {
  const isNext = (later: HeldLater): boolean => new Date(later.at).getTime() === at.getTime()
  const next = seats.flatMap(({ also = [] }) => also.filter(isNext))
  return list([...new Set(next.map(laterWords))], 'and')
}

function lackingNow(
  people: readonly Voter[],
  approval: Voted & Expiring,
  required: Requirement,
  deletedGroups: ReadonlySet<string>,
): string | null {
  const voted = new Set(approval.votes.map(({ user_id }) => user_id))
  const able = people.filter(
    (person) => !voted.has(person.user_id) && voteRefusal(person, approval, required) === null,
  )
  const all = onceEach([...approving(approval.votes, approval, required), ...able])
  const filled = fillSeats(required.seats, all)
  const empty = required.seats.flatMap((seat, index) => {
    const missing = seat.count - (filled[index] ?? 0)
    return missing > 0 ? [{ ...seat, count: missing }] : []
  })
  if (empty.length === 0 && all.length >= required.needed) return null
  const lacks = empty.length === 0 ? `${required.needed - all.length} more` : seatWords(empty)
  const groups = empty.flatMap((seat) => (isRole(seat) || isPerson(seat) ? [] : [seat]))
  const deleted = groups.find(({ id }) => id !== null && deletedGroups.has(id))
  const missing = groups.flatMap(({ id, group }) => (id === null ? [group] : []))
  const remedies = [
    ...(empty.every(isRole) ? ['give more people a role that decides'] : []),
    ...missing.map((name) => `make the group ${quote(name)} for the next time`),
    ...(groups.length > missing.length ? ['add members to the group'] : []),
    ...(empty.some(isPerson) ? ['invite this person again'] : []),
  ]
  if (approval.kind === 'ask')
    return `nobody who is asked can answer now: it lacks ${lacks}. An owner can ${list(remedies, 'or')}`
  const tooFew = `too few people can still vote, so it cannot be approved now: it lacks ${lacks}`
  if (deleted === undefined) return `${tooFew}. An owner can ${list(remedies, 'or')}`
  const hasRun = approval.kind !== 'agent_call' && approval.kind !== 'change'
  const instead = hasRun ? 'cancel the run, and run it again' : 'ask for it again'
  return `${tooFew}. The group ${quote(deleted.group)} was deleted, and a new one of this name is another group: ${instead}`
}

export interface Chance {
  readonly required: Requirement
  readonly cannotBeGiven: string | null
}

/** For many pending approvals: people and settings are read once for each organization and set of seats. */
export class Chances {
  readonly #db: Db
  readonly #settings = new Map<string, Promise<GovernanceSettings>>()
  readonly #people = new Map<string, Promise<readonly PossibleVoter[]>>()
  readonly #deleted = new Map<string, Promise<ReadonlySet<string>>>()

  constructor(db: Db) {
    this.#db = db
  }

  async of(approval: Voted & Expiring & TermsOfKind & { readonly organization_id: string }): Promise<Chance> {
    const { organization_id: id } = approval
    const settings = this.#settings.get(id) ?? readGovernance(this.#db, id)
    this.#settings.set(id, settings)
    const required = requirementOf(approval, await settings)
    const key = JSON.stringify([id, required.seats])
    const people = this.#people.get(key) ?? readVoters(this.#db, id, required.seats)
    this.#people.set(key, people)
    const deleted = this.#deleted.get(key) ?? readDeletedGroups(this.#db, required.seats)
    this.#deleted.set(key, deleted)
    return { required, cannotBeGiven: whyNobodyCan(await people, approval, required, await deleted) }
  }
}
