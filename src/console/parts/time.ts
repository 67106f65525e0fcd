import { h, type ComponentChild } from 'preact'

const units = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

/**
 * Returns a number of seconds as a count of the largest suitable unit. A few seconds less than 7 days are still `7
 * days`. But one and a half days are `36 hours`, because a number of whole days would be too inexact. From one minute
 * on, the unit is never the second. The script has the same rule (assets/console.js).
 */
function largest(seconds: number): readonly [number, string] {
  const [name, size] = units.find(([name, size]) => fits(seconds / size, name)) ?? ['second', 1]
  return [Math.round(seconds / size), name]
}

const fits = (count: number, unit: string): boolean =>
  count >= 1.9 || Math.abs(count - 1) < 0.02 || (unit === 'minute' && count >= 1)

/** Returns the distance between two times, such as `3 hours`. */
export function distance(milliseconds: number): string {
  const [count, name] = largest(Math.round(Math.abs(milliseconds) / 1_000))
  return `${count} ${name}${count === 1 ? '' : 's'}`
}

/** A duration as text, e.g. `340 ms`, `2.5 s` or `3 minutes`. */
export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${milliseconds} ms`
  return milliseconds < 60_000 ? `${(milliseconds / 1_000).toFixed(1)} s` : distance(milliseconds)
}

/** The format of dates. The script (assets/console.js) has the same format, with the reader's time zone. */
const dates = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  timeZone: 'UTC',
  timeZoneName: 'short',
})

/**
 * Shows a time relative to now. The element's title has the exact time. If `exact` is set, the exact time also stands
 * beside the relative time. The script shows the exact time in the reader's time zone, and updates the relative time.
 */
export function Time({
  at,
  now,
  exact = false,
  isLength = false,
}: {
  readonly at: string
  readonly now: Date
  readonly exact?: boolean
  /** Shows only the time that has passed, without "ago". */
  readonly isLength?: boolean
}): ComponentChild {
  const time = new Date(at)
  const between = time.getTime() - now.getTime()
  const words = isLength
    ? distance(between)
    : between > 0
      ? `in ${distance(between)}`
      : `${distance(between)} ago`
  const date = dates.format(time)
  return h(
    'time',
    {
      datetime: at,
      title: date,
      ...(exact ? { 'data-exact': '' } : {}),
      ...(isLength ? { 'data-length': '' } : {}),
    },
    exact ? `${words} (${date})` : words,
  )
}
