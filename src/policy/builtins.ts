/** Template values that are fixed when a run starts. */
export interface Builtins {
  /** YYYY-MM-DD in the run's time zone. */
  readonly today: string
  readonly yesterday: string
  /** ISO 8601 with the offset of the run's time zone: `2026-01-31T09:00:00.000+01:00`; `Z` for none. */
  readonly now: string
}

/** `timeZone` is an IANA name such as `Europe/Berlin`; RangeError if there is none. */
export function builtins(startedAt: Date, timeZone: string): Builtins {
  const wall = wallTime(startedAt, timeZone)
  return {
    today: dateOf(wall),
    yesterday: dateOf(wall - 86_400_000),
    now: `${new Date(wall).toISOString().slice(0, -1)}${offsetOf(wall - startedAt.getTime())}`,
  }
}

/**
 * Returns the local time, read as if it were UTC, in milliseconds. Its difference from `at` is the zone's offset. Throws
 * RangeError for a time zone that does not exist.
 */
export function wallTime(at: Date, timeZone: string): number {
  const parts = new Map(
    formatOf(timeZone)
      .formatToParts(at)
      .map((part) => [part.type, part.value]),
  )
  const field = (name: Intl.DateTimeFormatPartTypes) => Number(parts.get(name))
  const date = [field('year'), field('month') - 1, field('day')] as const
  return Date.UTC(...date, field('hour'), field('minute'), field('second'), at.getUTCMilliseconds())
}

export function isTimeZone(name: string): boolean {
  try {
    formatOf(name)
    return true
  } catch {
    return false
  }
}

/** Making a format takes longer than everything else here. There are about 400 zones. */
const formats = new Map<string, Intl.DateTimeFormat>()

function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone)
  if (format !== undefined) return format
  format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  // One zone can be written in many mixtures of case, so the cache is bounded.
  if (formats.size < 1_000) formats.set(timeZone, format)
  return format
}

function dateOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10)
}

function offsetOf(milliseconds: number): string {
  if (milliseconds === 0) return 'Z'
  const minutes = Math.round(Math.abs(milliseconds) / 60_000)
  const pad = (value: number) => String(value).padStart(2, '0')
  return `${milliseconds < 0 ? '-' : '+'}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`
}
