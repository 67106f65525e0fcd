import { Cron } from 'croner'
import type { ScheduleSettings } from '../../db/schema/triggers.ts'
import { errorAt } from '../errors.ts'

/*
 * Pure functions: when a schedule is due. Where clocks change, a pattern with one minute and one hour runs once: a doubled
 * time at its first, a missing one right after the gap. Other patterns go by the time that passes.
 */

/** Due times that a stopped service makes up for, and that wait for an earlier run. */
export const mostCaughtUp = 100

/** Seconds. A due time that is found later than this was missed. */
export const lateAfter = 60

type Times = Pick<ScheduleSettings, 'cron' | 'every_seconds' | 'time_zone'>

const cronOf = ({ cron, time_zone: timezone }: Times): Cron =>
  new Cron(cron ?? '', { timezone, mode: '5-part', paused: true })

/** Throws `validation_error` for what is no pattern of five fields, or for one that is never due. */
export function checkTimes(times: Times, now: Date): void {
  if (times.cron === null) return
  const wrong = (why: string) =>
    errorAt(
      'validation_error',
      'schedule.cron',
      `is no cron pattern${why}: write five fields, minute, hour, day, month and day of the week, for example \`0 9 * * 1-5\``,
    )
  if (!/^[\w*/,#-]+( +[\w*/,#-]+){4}$/.test(times.cron.trim())) throw wrong('')
  let next: Date | null
  try {
    next = nextDue(times, now)
  } catch (error) {
    throw wrong(error instanceof Error ? ` (${error.message.replace(/^CronPattern: /, '')})` : '')
  }
  if (next === null) throw errorAt('validation_error', 'schedule.cron', 'is never due: no such day exists')
}

/** The first due time after `after`. `every_seconds` counts from `after`, which must be a due time or the beginning. */
export function nextDue(times: Times, after: Date): Date | null {
  if (times.every_seconds !== null) return new Date(after.getTime() + times.every_seconds * 1_000)
  return cronOf(times).nextRun(after)
}

export interface Due {
  /** At most `mostCaughtUp`, the oldest first. */
  readonly fires: readonly Date[]
  /** Missed ones that do not fire. */
  readonly skipped: { readonly count: number | null; readonly first: Date; readonly last: Date } | null
  readonly next: Date | null
}

/** What becomes of the due times from `due` to `now`. `count` is null if there are too many to count. */
export function splitDue(schedule: ScheduleSettings, due: Date, now: Date): Due {
  if (now < due) return { fires: [], skipped: null, next: due }
  const { times, total, next } = timesBetween(schedule, due, now)
  const onTime = times.filter((at) => now.getTime() - at.getTime() <= lateAfter * 1_000).length
  const wanted = { none: onTime, last: Math.max(onTime, 1), all: mostCaughtUp }[schedule.catch_up]
  const kept = Math.min(wanted, mostCaughtUp, times.length)
  const left = times.slice(0, times.length - kept)
  const fires = times.slice(times.length - kept)
  if (left.length === 0 && total !== null) return { fires, skipped: null, next }
  return {
    fires,
    skipped: { count: total === null ? null : total - kept, first: due, last: left.at(-1) ?? due },
    next,
  }
}

interface Span {
  /** The newest ones, at most one more than `mostCaughtUp`, the oldest first. */
  readonly times: readonly Date[]
  /** null: more than `times`, and not counted. */
  readonly total: number | null
  readonly next: Date | null
}

function timesBetween(times: Times, due: Date, now: Date): Span {
  const most = mostCaughtUp + 1
  if (times.every_seconds !== null) {
    // On the grid of `due`, so that nothing drifts.
    const step = times.every_seconds * 1_000
    const passed = Math.floor((now.getTime() - due.getTime()) / step) + 1
    const at = (place: number) => new Date(due.getTime() + place * step)
    const count = Math.min(passed, most)
    const found = Array.from({ length: count }, (_, place) => at(passed - count + place))
    return { times: found, total: passed, next: at(passed) }
  }
  const cron = cronOf(times)
  const found: Date[] = []
  for (let at: Date | null = due; at !== null; at = cron.nextRun(at)) {
    if (at > now) return { times: found, total: found.length, next: at }
    if (found.push(at) <= most) continue
    // `previousRuns` leaves out its reference.
    const last = cron.previousRuns(most, new Date(now.getTime() + 1_000)).filter((each) => each <= now)
    return { times: last.toReversed(), total: null, next: cron.nextRun(now) }
  }
  return { times: found, total: found.length, next: null }
}

/** For people who want to see what a schedule means. */
export function nextTimes(times: Times, after: Date, count: number): Date[] {
  const found: Date[] = []
  for (let at = nextDue(times, after); at !== null && found.length < count; at = nextDue(times, at))
    found.push(at)
  return found
}
