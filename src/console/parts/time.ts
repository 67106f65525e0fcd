import { h, type ComponentChild } from 'preact'

const units = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const

/** The distance between two times in its largest unit: `3 hours`. */
export function distance(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(Math.abs(milliseconds) / 1_000))
  const [name, size] = units.find(([, size]) => seconds >= size) ?? ['second', 1]
  const count = Math.floor(seconds / size)
  return `${count} ${name}${count === 1 ? '' : 's'}`
}

/** A duration as text, e.g. `340 ms`, `2.5 s` or `3 minutes`. */
export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${milliseconds} ms`
  return milliseconds < 60_000 ? `${(milliseconds / 1_000).toFixed(1)} s` : distance(milliseconds)
}

const dates = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })

/**
 * A time relative to now. The exact time is in the title; if `exact` is set, it also stands beside the relative time.
 * The script shows the exact time in the reader's time zone, and updates the relative time.
 */
export function Time({
  at,
  now,
  exact = false,
}: {
  readonly at: string
  readonly now: Date
  readonly exact?: boolean
}): ComponentChild {
  const time = new Date(at)
  const between = time.getTime() - now.getTime()
  const words = between > 0 ? `in ${distance(between)}` : `${distance(between)} ago`
  const date = `${dates.format(time)} UTC`
  return h(
    'time',
    { datetime: at, title: date, ...(exact ? { 'data-exact': '' } : {}) },
    exact ? `${words} (${date})` : words,
  )
}
