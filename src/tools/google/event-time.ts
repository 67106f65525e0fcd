import { builtins } from '../../policy/builtins.ts'
import { invalidParams } from '../kit/executor.ts'

/*
 * A local time is a text of the form `YYYY-MM-DDTHH:MM:SS`. An instant is a number of milliseconds since 1970.
 */

const day = 86_400_000
const firstHour = '10:00:00'

/** Returns the local time at an instant. */
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

/**
 * Returns the instant of 10:00 on the next day after `now` that is not a Saturday or Sunday. The day and the time are
 * in the time zone. Public holidays are ignored.
 */
export function nextBusinessDay(now: number, timeZone: string): number {
  const today = Date.parse(`${localAt(now, timeZone).slice(0, 10)}T00:00:00Z`)
  let next = today + day
  while ([0, 6].includes(new Date(next).getUTCDay())) next += day
  return instantOf(`${new Date(next).toISOString().slice(0, 10)}T${firstHour}`, timeZone)
}

const form = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2})?(?:\.\d{1,9})?(Z|[+-]\d{2}:\d{2})?$/

/**
 * Returns the instant of the parameter `start`. A time without an offset is a local time in the calendar’s time zone.
 * Throws ToolError `invalid_params` if the text is no date with a time.
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

/** Returns whether the date and the time of day exist. JavaScript reads February 30 as March 2. */
const isTime = (asUtc: number, local: string): boolean =>
  !Number.isNaN(asUtc) && new Date(asUtc).toISOString().slice(0, 19) === local

/** Returns whether this program knows the time zone. */
export function isTimeZone(name: string): boolean {
  try {
    builtins(new Date(0), name)
    return true
  } catch {
    return false
  }
}
