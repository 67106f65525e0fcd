/** Days (YYYY-MM-DD) and a time (`2026-01-31T09:00:00.000+01:00`; `Z` for no offset) in the run's time zone. */
const dates = ['today', 'yesterday', 'now'] as const
/** References that a template reads by exactly these names. */
const facts = ['run.id', 'run.requester.email', 'workflow.name'] as const

export type Builtin = (typeof dates)[number] | (typeof facts)[number]

/** Template values that are fixed when a run starts. */
export type Builtins = Readonly<Record<Builtin, string>>

const builtinNames: ReadonlySet<string> = new Set([...dates, ...facts])
export const isBuiltin = (name: string): name is Builtin => builtinNames.has(name)

type Dates = Pick<Builtins, (typeof dates)[number]>

/** `timeZone` is an IANA name such as `Europe/Berlin`; RangeError if there is none. */
export function datesOf(startedAt: Date, timeZone: string): Dates {
  const wall = wallTime(startedAt, timeZone)
  return {
    today: dateOf(wall),
    yesterday: dateOf(wall - 86_400_000),
    now: `${new Date(wall).toISOString().slice(0, -1)}${offsetOf(wall - startedAt.getTime())}`,
  }
}

interface StartedRun {
  readonly id: string
  readonly requesterEmail: string
  readonly workflowName: string
  readonly startedAt: Date
  readonly timeZone: string
}

export const builtinsOf = ({
  id,
  requesterEmail,
  workflowName,
  startedAt,
  timeZone,
}: StartedRun): Builtins => ({
  ...datesOf(startedAt, timeZone),
  'run.id': id,
  'run.requester.email': requesterEmail,
  'workflow.name': workflowName,
})

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

/** For people: `24 Nov 2026, 10:30`. */
export function clockTime(at: Date, timeZone: string): string {
  let format = shownFormats.get(timeZone)
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone })
    if (shownFormats.size < mostFormats) shownFormats.set(timeZone, format)
  }
  return format.format(at)
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
const shownFormats = new Map<string, Intl.DateTimeFormat>()
/** One zone can be written in many mixtures of case. */
const mostFormats = 1_000

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
  if (formats.size < mostFormats) formats.set(timeZone, format)
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
