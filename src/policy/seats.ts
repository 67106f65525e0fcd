import { exactTime } from './units.ts'
import { list, quote } from './text.ts'

/* Who must approve a call: seats, each filled by different people. */

interface OfRole {
  readonly role: 'admin' | 'owner'
}
/** `group` is the name of a group, whose members fill the seat whatever their role is. */
interface OfGroup {
  readonly group: string
}
/** With the id that the group had when the call was held; null if there was none. */
type OfHeldGroup = OfGroup & { readonly id: string | null }
/** Only of a question: one person, by their mail address. */
interface OfPerson {
  readonly person: string
}
type OfHeldPerson = OfPerson & { readonly id: string }

/** Who may fill a seat too, so many seconds after the call was held. */
export type Later = (OfRole | OfGroup) & { readonly after_seconds: number }
/** From this time on. */
export type HeldLater = (OfRole | OfHeldGroup) & { readonly at: string }

interface Counted<L> {
  readonly count: number
  /** By time. */
  readonly also?: readonly L[] | undefined
}
export type RoleSeat = OfRole & Counted<Later>
type GroupSeat = OfGroup & Counted<Later>
export type Seat = RoleSeat | GroupSeat
export type HeldSeat = (OfRole | OfHeldGroup | OfHeldPerson) & Counted<HeldLater>
type AnySeat = Seat | HeldSeat

/** A rule asks for at most one role, and for each group once. */
export const mostSeats = 5

export const oneAdmin: readonly (OfRole & Counted<never>)[] = [{ role: 'admin', count: 1 }]
/** For what cannot be read: nobody fills it. */
export const nobody: readonly Seat[] = [{ group: '', count: 1 }]

type Approver = OfRole['role'] | OfGroup

interface Approvers {
  readonly approver?: Approver | undefined
  readonly approvals_needed?: number | undefined
  readonly approvers?: readonly ((OfRole | OfGroup) & { readonly count: number })[] | undefined
  readonly escalate?: readonly { readonly after_seconds: number; readonly to: Approver }[] | undefined
}

const named = (approver: Approver): OfRole | OfGroup =>
  typeof approver === 'string' ? { role: approver } : { group: approver.group }

/** Whom `escalate` names may fill each of the seats. */
export function seatsOf({
  approver = 'admin',
  approvals_needed: count = 1,
  approvers,
  escalate = [],
}: Approvers): readonly Seat[] {
  const first = approvers?.map((seat) => ({ ...seat })) ?? [{ ...named(approver), count }]
  if (escalate.length === 0) return first
  const also = escalate.map(({ after_seconds, to }) => ({ after_seconds, ...named(to) }))
  return first.map((seat) => ({ ...seat, also }))
}

export const isRole = <T extends object>(seat: T): seat is Extract<T, OfRole> => 'role' in seat
export const isPerson = <T extends object>(seat: T): seat is Extract<T, OfPerson> => 'person' in seat

/** Null if only groups decide. */
export const roleOf = (seats: readonly AnySeat[]): OfRole['role'] | null => seats.find(isRole)?.role ?? null

/** The organization asks for so many people. Those beyond one for each seat may come from any of the seats. */
export const withThreshold = <S extends AnySeat>(seats: readonly S[], threshold: number): readonly S[] =>
  seats.length === 1 ? seats.map((seat) => ({ ...seat, count: Math.max(seat.count, threshold) })) : seats

/** The least number of people who fill all seats. */
export const peopleFor = (seats: readonly Counted<unknown>[]): number =>
  seats.reduce((sum, { count }) => sum + count, 0)

/**
 * The strictest role seat (an owner before an admin, the highest count), and for each group the highest count. Who may
 * fill a seat later must be allowed by each of those that are merged, and at the latest of their times.
 */
export function strictest<S extends AnySeat>(seats: readonly S[]): S[] {
  const found = new Map<string, S>()
  for (const seat of seats) {
    const known = found.get(keyOf(seat))
    const role = [seat, known].some((each) => each !== undefined && isRole(each) && each.role === 'owner')
    const { also: _, ...rest } = seat
    const also = known === undefined ? (seat.also ?? []) : sharedLater(known.also ?? [], seat.also ?? [])
    found.set(keyOf(seat), {
      ...rest,
      count: Math.max(seat.count, known?.count ?? 0),
      ...(role ? { role: 'owner' } : {}),
      ...(also.length === 0 ? {} : { also }),
    } as S)
  }
  return [...found.values()]
}

type AnyLater = Later | HeldLater

const timeOf = (later: AnyLater): number =>
  'at' in later ? new Date(later.at).getTime() : later.after_seconds

function sharedLater(ones: readonly AnyLater[], others: readonly AnyLater[]): AnyLater[] {
  const shared = ones.flatMap((one) => {
    const other = others.find((each) => whoOf(each) === whoOf(one))
    return other === undefined ? [] : [timeOf(other) > timeOf(one) ? other : one]
  })
  return shared.toSorted((a, b) => timeOf(a) - timeOf(b))
}

/** A group that was deleted and one that was made under its name are different. */
const whoOf = (who: OfRole | ((OfGroup | OfPerson) & { readonly id?: string | null })): string =>
  isRole(who) ? who.role : `${isPerson(who) ? who.person : who.group} ${who.id ?? ''}`

/** All roles share one seat. */
const keyOf = (seat: AnySeat): string => (isRole(seat) ? '' : whoOf(seat))

/** Whether people who fill `seats` surely fill `others` too. */
export const coverSeats = (seats: readonly AnySeat[], others: readonly AnySeat[]): boolean =>
  others.every((other) => {
    const own = seats.find((seat) => keyOf(seat) === keyOf(other))
    if (own === undefined || own.count < other.count || !coversLater(own, other)) return false
    return !isRole(other) || !isRole(own) || other.role === 'admin' || own.role === 'owner'
  })

/** As `coverSeats`, with the people beyond one for each seat that the threshold asks for. */
export function coverPeople(
  seats: readonly AnySeat[],
  others: readonly AnySeat[],
  threshold: number,
): boolean {
  const [own, asked] = [withThreshold(seats, threshold), withThreshold(others, threshold)]
  // A seat that the others do not have would let more people be those beyond the seats.
  const isClosed =
    peopleFor(asked) >= threshold || own.every((seat) => asked.some((other) => keyOf(other) === keyOf(seat)))
  return isClosed && coverSeats(own, asked)
}

/** `other` lets each of them in too, no later. */
const coversLater = ({ also = [] }: AnySeat, other: AnySeat): boolean =>
  also.every((later) =>
    (other.also ?? []).some((each) => whoOf(each) === whoOf(later) && timeOf(each) <= timeOf(later)),
  )

/** "an admin or owner", "2 members of `finance` and 1 member of `legal`". A role alone is not counted, unless asked. */
export function seatWords(seats: readonly ShownSeat[], form: 'short' | 'counted' = 'short'): string {
  const [first] = seats
  if (form === 'short' && seats.length === 1 && first !== undefined && isRole(first))
    return first.role === 'owner' ? 'an owner' : 'an admin or owner'
  return list(seats.map(oneSeat), 'and', seats.length)
}

function oneSeat(seat: ShownSeat): string {
  const { count } = seat
  if (isRole(seat)) {
    const [one, more] = seat.role === 'owner' ? ['owner', 'owners'] : ['admin or owner', 'admins or owners']
    return `${count} ${count === 1 ? one : more}`
  }
  if (isPerson(seat)) return quote(seat.person)
  return `${count} ${count === 1 ? 'member' : 'members'} of ${quote(seat.group)}`
}

/** "a member of `legal`", "an owner". */
export const laterWords = (later: ShownLater): string =>
  isRole(later) ? seatWords([{ role: later.role, count: 1 }]) : `a member of ${quote(later.group)}`

/** "after 1 hour also a member of `legal`" */
export const escalationWords = (also: readonly Later[]): string =>
  list(
    also.map((later) => `after ${exactTime(later.after_seconds)} also ${laterWords(later)}`),
    'and',
    also.length,
  )

/** As `seatWords`, with who is asked later: "1 member of `sales` (after 1 hour also a member of `legal`)". */
export function askedWords(seats: readonly Seat[], form: 'short' | 'counted' = 'short'): string {
  const words = seats.map((seat) => {
    const { also = [] } = seat
    const first = seatWords([seat], seats.length === 1 ? form : 'counted')
    return also.length === 0 ? first : `${first} (${escalationWords(also)})`
  })
  return list(words, 'and', words.length)
}

type ShownLater = (OfRole | OfGroup) & {
  readonly after_seconds?: number | undefined
  readonly at?: string | undefined
}
/** A seat of the API's answers, without ids of groups. */
export type ShownSeat = (OfRole | OfGroup | OfPerson) & Counted<ShownLater>

/** As the API shows them. */
export const shownSeats = (seats: readonly AnySeat[]): ShownSeat[] =>
  seats.map(({ count, also = [], ...seat }) => ({
    ...(isPerson(seat) ? { person: seat.person } : shownWho(seat)),
    count,
    ...(also.length === 0 ? {} : { also: also.map(shownLater) }),
  }))

const shownWho = (who: OfRole | OfGroup): OfRole | OfGroup =>
  isRole(who) ? { role: who.role } : { group: who.group }

const shownLater = (later: AnyLater): ShownLater => ({
  ...shownWho(later),
  ...('at' in later ? { at: later.at } : { after_seconds: later.after_seconds }),
})
