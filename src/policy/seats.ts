import { list, quote } from './text.ts'

/* Who must approve a call: seats, each filled by different people. */

export interface RoleSeat {
  readonly role: 'admin' | 'owner'
  readonly count: number
}
/** `group` is the name of a group, whose members fill the seat whatever their role is. */
export interface GroupSeat {
  readonly group: string
  readonly count: number
}
export type Seat = RoleSeat | GroupSeat
/** With the id that the group had when the call was held; null if there was none. */
export type HeldSeat = RoleSeat | (GroupSeat & { readonly id: string | null })

/** A rule asks for at most one role, and for each group once. */
export const mostSeats = 5

export const oneAdmin: readonly RoleSeat[] = [{ role: 'admin', count: 1 }]
/** For what cannot be read: nobody fills it. */
export const nobody: readonly Seat[] = [{ group: '', count: 1 }]

interface Approvers {
  readonly approver?: RoleSeat['role'] | { readonly group: string } | undefined
  readonly approvals_needed?: number | undefined
  readonly approvers?: readonly Seat[] | undefined
}

export function seatsOf({
  approver = 'admin',
  approvals_needed: count = 1,
  approvers,
}: Approvers): readonly Seat[] {
  if (approvers !== undefined) return approvers.map((seat) => ({ ...seat }))
  return [typeof approver === 'string' ? { role: approver, count } : { group: approver.group, count }]
}

export const isRole = (seat: Seat): seat is RoleSeat => 'role' in seat

/** Null if only groups decide. */
export const roleOf = (seats: readonly Seat[]): RoleSeat['role'] | null => seats.find(isRole)?.role ?? null

/** The organization asks for so many people. Those beyond one for each seat may come from any of the seats. */
export const withThreshold = <S extends Seat>(seats: readonly S[], threshold: number): readonly S[] =>
  seats.length === 1 ? seats.map((seat) => ({ ...seat, count: Math.max(seat.count, threshold) })) : seats

/** The least number of people who fill all seats. */
export const peopleFor = (seats: readonly Seat[]): number => seats.reduce((sum, { count }) => sum + count, 0)

/** The strictest role seat (an owner before an admin, the highest count), and for each group the highest count. */
export function strictest<S extends Seat>(seats: readonly S[]): S[] {
  const found = new Map<string, S>()
  for (const seat of seats) {
    const known = found.get(keyOf(seat))
    const role = [seat, known].some((each) => each !== undefined && isRole(each) && each.role === 'owner')
    found.set(keyOf(seat), {
      ...seat,
      count: Math.max(seat.count, known?.count ?? 0),
      ...(role ? { role: 'owner' } : {}),
    })
  }
  return [...found.values()]
}

/** A group that was deleted and one that was made under its name are different seats. */
const keyOf = (seat: Seat & { readonly id?: string | null }): string =>
  isRole(seat) ? '' : `${seat.group} ${seat.id ?? ''}`

/** Whether people who fill `seats` surely fill `others` too. */
export const coverSeats = (seats: readonly Seat[], others: readonly Seat[]): boolean =>
  others.every((other) => {
    const own = seats.find((seat) => keyOf(seat) === keyOf(other))
    if (own === undefined || own.count < other.count) return false
    return !isRole(other) || !isRole(own) || other.role === 'admin' || own.role === 'owner'
  })

/** "an admin or owner", "2 members of `finance` and 1 member of `legal`". A role alone is not counted, unless asked. */
export function seatWords(seats: readonly Seat[], form: 'short' | 'counted' = 'short'): string {
  const [first] = seats
  if (form === 'short' && seats.length === 1 && first !== undefined && isRole(first))
    return first.role === 'owner' ? 'an owner' : 'an admin or owner'
  return list(seats.map(oneSeat), 'and', seats.length)
}

function oneSeat(seat: Seat): string {
  const { count } = seat
  if (isRole(seat)) {
    const [one, more] = seat.role === 'owner' ? ['owner', 'owners'] : ['admin or owner', 'admins or owners']
    return `${count} ${count === 1 ? one : more}`
  }
  return `${count} ${count === 1 ? 'member' : 'members'} of ${quote(seat.group)}`
}

/** As the API shows them. */
export const shownSeats = (seats: readonly Seat[]): Seat[] =>
  seats.map((seat) =>
    isRole(seat) ? { role: seat.role, count: seat.count } : { group: seat.group, count: seat.count },
  )
