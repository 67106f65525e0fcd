import { h, type ComponentChild } from 'preact'

const units = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

/**
 * Returns a number of seconds as a count of the largest unit that is exact enough. Examples: a few seconds less than 7
 * days are `7 days`, but one and a half days are `36 hours`. A time of at least one minute is never given in seconds.
 * The script has the same rule (assets/console.js).
 */
function largest(seconds: number): readonly [number, string] {
  const [name, size] = units.find(([name, size]) => fits(seconds / size, name)) ?? ['second', 1]
  return [Math.round(seconds / size), name]
}

const fits = (count: number, unit: string): boolean =>
  count >= 1.9 || Math.abs(count - 1) < 0.02 || (unit === 'minute' && count >= 1)

/** Returns a length of time as text, such as `3 hours`. A negative number of milliseconds gives the same text. */
export function distance(milliseconds: number): string {
  const [count, name] = largest(Math.round(Math.abs(milliseconds) / 1_000))
  return `${count} ${name}${count === 1 ? '' : 's'}`
}

/** Returns a duration as text, for example `340 ms`, `2.5 s` or `3 minutes`. */
export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${milliseconds} ms`
  return milliseconds < 60_000 ? `${(milliseconds / 1_000).toFixed(1)} s` : distance(milliseconds)
}

/** The format of dates. The script (assets/console.js) uses the same format in the reader's time zone. */
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
 * Shows a time relative to now. The element's title has the exact time. If `exact` is true, the exact time also stands
 * behind the relative time. The script shows the exact time in the reader's time zone, and updates the relative time.
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
  /** Whether only the length of time is shown. Example: `3 hours` instead of `3 hours ago`. */
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
