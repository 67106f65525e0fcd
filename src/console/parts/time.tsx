import { counted, units } from '../../policy/units.ts'

/**
 * In the largest unit that is exact enough: a few seconds less than 7 days are `7 days`, but one and a half days are
 * `36 hours`. A minute or more is never given in seconds.
 */
function largest(seconds: number): readonly [number, string] {
  const [name, size] = units.find(([name, size]) => fits(seconds / size, name)) ?? ['second', 1]
  return [Math.round(seconds / size), name]
}

const fits = (count: number, unit: string): boolean =>
  count >= 1.9 || Math.abs(count - 1) < 0.02 || (unit === 'minute' && count >= 1)

/** `3 hours`, also for a negative number. */
export function distance(milliseconds: number): string {
  return counted(...largest(Math.round(Math.abs(milliseconds) / 1_000)))
}

export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${milliseconds} ms`
  return milliseconds < 60_000 ? `${(milliseconds / 1_000).toFixed(1)} s` : distance(milliseconds)
}

/** Without a zone, in that of this machine. */
export const dateFormat = (timeZone?: string) =>
  new Intl.DateTimeFormat('en-GB', {
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    timeZoneName: 'short',
    ...(timeZone === undefined ? {} : { timeZone }),
  })
const dates = dateFormat('UTC')

/** `isLength`: `3 hours` instead of `in 3 hours` or `3 hours ago`. */
export function timeWords(between: number, isLength: boolean): string {
  const words = distance(between)
  if (isLength) return words
  return between > 0 ? `in ${words}` : `${words} ago`
}

/** Relative to now, with the exact time in the title. The script updates it, in the reader's time zone. */
export function Time(props: {
  readonly at: string
  readonly now: Date
  readonly exact?: boolean
  readonly isLength?: boolean
}) {
  const { at, now, exact = false, isLength = false } = props
  const time = new Date(at)
  const words = timeWords(time.getTime() - now.getTime(), isLength)
  const date = dates.format(time)
  return (
    <time
      datetime={at}
      title={date}
      {...(exact ? { 'data-exact': '' } : {})}
      {...(isLength ? { 'data-length': '' } : {})}
    >
      {exact ? `${words} (${date})` : words}
    </time>
  )
}
