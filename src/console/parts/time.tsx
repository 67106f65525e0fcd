import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import { clockTime } from '../../policy/builtins.ts'
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

/** `24 Nov 2026, 10:30 Europe/Berlin` */
export const exactly = (at: Date, timeZone: string): string =>
  `${clockTime(at, timeZone)} ${zoneWords(timeZone)}`

export const zoneWords = (timeZone: string): string => timeZone.replaceAll('_', ' ')

/** In the zone of the reader; in UTC too, if that is another one. */
export const timeTitle = (at: Date, timeZone: string): string =>
  [...new Set([timeZone, 'UTC'])].map((zone) => exactly(at, zone)).join(' · ')

/** The time zone of the person who reads the page; UTC if it is not known. */
export const ReadersZone = createContext('UTC')

/** `isLength`: `3 hours` instead of `in 3 hours` or `3 hours ago`. */
export function timeWords(between: number, isLength: boolean): string {
  const words = distance(between)
  if (isLength) return words
  return between > 0 ? `in ${words}` : `${words} ago`
}

/** The date and time alone, for a sentence. */
export function Moment({ at }: { at: string }) {
  const [zone, time] = [useContext(ReadersZone), new Date(at)]
  return (
    <time datetime={at} title={timeTitle(time, zone)} data-date="">
      {exactly(time, zone)}
    </time>
  )
}

/** Relative to now, with the exact time in the title. The script updates it. */
export function Time(props: {
  readonly at: string
  readonly now: Date
  readonly exact?: boolean
  readonly isLength?: boolean
}) {
  const { at, now, exact = false, isLength = false } = props
  const time = new Date(at)
  const words = timeWords(time.getTime() - now.getTime(), isLength)
  const zone = useContext(ReadersZone)
  return (
    <time
      datetime={at}
      title={timeTitle(time, zone)}
      {...(exact ? { 'data-exact': '' } : {})}
      {...(isLength ? { 'data-length': '' } : {})}
    >
      {exact ? `${words} (${exactly(time, zone)})` : words}
    </time>
  )
}
