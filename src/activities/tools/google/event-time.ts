import { builtins } from '../../../policy/builtins.ts'
import { invalidParams } from '../executor.ts'

/*
 * Times of events. Local times are `YYYY-MM-DDTHH:MM:SS`, instants are milliseconds since 1970.
 */

const day = 86_400_000
const firstHour = '10:00:00'

/** The local time at an instant. */
export const localAt = (instant: number, timeZone: string): string =>
  builtins(new Date(instant), timeZone).now.slice(0, 19)

/**
 * Returns the instant of a local time. If the local time comes twice, because clocks are set back, returns the first
 * instant. If the local time is skipped, because clocks are set forward, the result is later by the length of the change.
 */
function instantOf(local: string, timeZone: string): number {
  const asUtc = Date.parse(`${local}Z`)
  const aheadAt = (instant: number) => Date.parse(`${localAt(instant, timeZone)}Z`) - instant
  // The clocks change at most once in these two days.
  const [before, after] = [asUtc - aheadAt(asUtc - day), asUtc - aheadAt(asUtc + day)]
  return localAt(before, timeZone) !== local && localAt(after, timeZone) === local ? after : before
}

/** The next day from Monday to Friday after `now`, at 10:00 in the time zone. Public holidays are ignored. */
export function nextBusinessDay(now: number, timeZone: string): number {
  const today = Date.parse(`${localAt(now, timeZone).slice(0, 10)}T00:00:00Z`)
  let next = today + day
  while ([0, 6].includes(new Date(next).getUTCDay())) next += day
  return instantOf(`${new Date(next).toISOString().slice(0, 10)}T${firstHour}`, timeZone)
}

const form = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2})?(?:\.\d{1,9})?(Z|[+-]\d{2}:\d{2})?$/

/**
 * Reads the parameter `start`. A time without an offset is a local time in the calendar’s time zone. Throws ToolError
 * `invalid_params`.
 */
export function startAt(text: string, timeZone: string): number {
  const [, date = '', minutes = '', seconds = ':00', offset] = form.exec(text.trim()) ?? []
  const local = `${date}T${minutes}${seconds}`
  const asUtc = Date.parse(`${local}Z`)
  const read = offset === undefined ? () => instantOf(local, timeZone) : () => Date.parse(`${local}${offset}`)
  const instant = isTime(asUtc, local) ? read() : Number.NaN
  if (!Number.isNaN(instant)) return instant
  throw invalidParams(
    '`start` must be a date and a time, such as `2026-12-01T15:00` or `2026-12-01T15:00+01:00`',
  )
}

/** Whether the date and the time of day exist. JavaScript reads February 30 as March 2. */
const isTime = (asUtc: number, local: string): boolean =>
  !Number.isNaN(asUtc) && new Date(asUtc).toISOString().slice(0, 19) === local

/** Whether this program knows the time zone. */
export function isTimeZone(name: string): boolean {
  try {
    builtins(new Date(0), name)
    return true
  } catch {
    return false
  }
}
