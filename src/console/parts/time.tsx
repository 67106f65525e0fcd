const units = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

/**
 * In the largest unit that is exact enough: a few seconds less than 7 days are `7 days`, but one and a half days are
 * `36 hours`. A minute or more is never given in seconds. The script has the same rule (assets/console.js).
 */
function largest(seconds: number): readonly [number, string] {
  const [name, size] = units.find(([name, size]) => fits(seconds / size, name)) ?? ['second', 1]
  return [Math.round(seconds / size), name]
}

const fits = (count: number, unit: string): boolean =>
  count >= 1.9 || Math.abs(count - 1) < 0.02 || (unit === 'minute' && count >= 1)

/** `3 hours`, also for a negative number. */
export function distance(milliseconds: number): string {
  const [count, name] = largest(Math.round(Math.abs(milliseconds) / 1_000))
  return `${count} ${name}${count === 1 ? '' : 's'}`
}

export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${milliseconds} ms`
  return milliseconds < 60_000 ? `${(milliseconds / 1_000).toFixed(1)} s` : distance(milliseconds)
}

/** The script (assets/console.js) has the same format in the reader's time zone. */
const dates = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  timeZone: 'UTC',
  timeZoneName: 'short',
})

/** Relative to now, with the exact time in the title. The script updates it, in the reader's time zone. */
export function Time(props: {
  readonly at: string
  readonly now: Date
  readonly exact?: boolean
  /** `3 hours` instead of `3 hours ago` */
  readonly isLength?: boolean
}) {
  const { at, now, exact = false, isLength = false } = props
  const time = new Date(at)
  const between = time.getTime() - now.getTime()
  const words = isLength
    ? distance(between)
    : between > 0
      ? `in ${distance(between)}`
      : `${distance(between)} ago`
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
