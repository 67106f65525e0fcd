import { DateTime, type DateTimeUnit, type DurationLikeObject } from 'luxon'
import type { Budget } from '../budget.ts'
import type { Json, JsonObject } from '../types.ts'
import { finite, numberOf, objectOf, textOf, wholeOf, type Shape } from './shape.ts'

/*
 * A date is text: `2026-01-31`, or a time with its offset, `2026-01-31T09:00:00+01:00`. A time without an offset counts as
 * UTC. The clock and the zone of the machine are never read.
 */

interface Day {
  readonly at: DateTime
  /** Without a time of day. */
  readonly isDate: boolean
}

const onlyDate = /^\d{4}-\d{2}-\d{2}$/
/** Characters of a date, and of its pattern. */
const longest = 100

function dayOf(value: Json | undefined, what: string, zone?: Json): Day {
  const text = textOf(value, what).trim()
  const at = DateTime.fromISO(text.slice(0, longest), { setZone: true, zone: 'utc', locale: 'en' })
  if (!at.isValid || text.length > longest)
    throw new TypeError(
      `\`${what}\` needs a date such as \`2026-01-31\` or \`2026-01-31T09:00:00+01:00\`: read others with \`date(text, pattern)\``,
    )
  const isDate = onlyDate.test(text)
  return { at: isDate || zone === undefined ? at : inZone(at, zone, what), isDate }
}

function inZone(at: DateTime, zone: Json, what: string): DateTime {
  const moved = at.setZone(textOf(zone, what))
  if (moved.isValid) return moved
  throw new TypeError(`\`${what}\` needs a time zone such as \`Europe/Berlin\``)
}

function shown({ at, isDate }: Day, what: string): string {
  const text = isDate ? at.toISODate() : at.toISO({ suppressMilliseconds: true })
  if (text === null || at.year < 1 || at.year > 9999)
    throw new TypeError(`\`${what}\` gives no date of the years 1 to 9999`)
  return text
}

const units = ['years', 'months', 'weeks', 'days', 'hours', 'minutes', 'seconds'] as const
type Unit = (typeof units)[number]
const unitNames: ReadonlySet<string> = new Set(units)
const isTime = (unit: string): boolean => unit === 'hours' || unit === 'minutes' || unit === 'seconds'

/** `days(3)` is `{"days": 3}`. */
const duration = (unit: Unit | 'business_days'): Shape => ({
  written: `${unit}(number)`,
  args: [1, 1],
  gives: 'object',
  run: ([value]) => ({ [unit]: wholeOf(value, unit) }),
})

const mostBusinessDays = 10_000

export const dates = {
  date: {
    written: 'date(text, pattern, zone)',
    gives: 'string',
    args: [1, 3],
    run([value, pattern, zone = 'utc']) {
      if (pattern === undefined) return shown(dayOf(value, 'date'), 'date')
      const [text, written] = [textOf(value, 'date').trim(), patternOf(pattern, 'date')]
      const at = DateTime.fromFormat(text.slice(0, longest), written, {
        zone: textOf(zone, 'date'),
        setZone: true,
        locale: 'en',
      })
      if (!at.isValid)
        throw new TypeError(`\`date\` cannot read the text with its pattern, such as \`dd.MM.yyyy\``)
      return shown({ at, isDate: !/[HhmsSaZzTtqX]/.test(written.replaceAll(/'[^']*'/g, '')) }, 'date')
    },
  },
  format: {
    written: 'format(date, pattern, zone, language)',
    gives: 'string',
    args: [2, 4],
    run([value, pattern, zone, language = 'en']) {
      const { at } = dayOf(value, 'format', zone)
      try {
        return at.toFormat(patternOf(pattern, 'format'), { locale: textOf(language, 'format') })
      } catch {
        throw new TypeError('`format` needs a language such as `de`')
      }
    },
  },
  add: {
    written: 'add(date, days(3))',
    gives: 'string',
    args: [2, 3],
    run: (args, { budget }) => moved(args, 1, 'add', budget),
  },
  subtract: {
    written: 'subtract(date, days(3))',
    gives: 'string',
    args: [2, 3],
    run: (args, { budget }) => moved(args, -1, 'subtract', budget),
  },
  /** Positive if the first one is later. Whole units, cut towards zero. */
  difference: {
    written: "difference(later, earlier, 'days')",
    gives: 'number',
    args: [3, 3],
    run([later, earlier, unit], { budget }) {
      const [a, b] = [dayOf(later, 'difference'), dayOf(earlier, 'difference')]
      const name = textOf(unit, 'difference')
      if (name === 'business_days') return businessDays(b.at, a.at, budget)
      if (!unitNames.has(name))
        throw new TypeError(
          `\`difference\` counts in ${units.map((each) => `'${each}'`).join(', ')} or 'business_days'`,
        )
      return finite(Math.trunc(a.at.diff(b.at, name as Unit).as(name as Unit)), 'difference')
    },
  },
  start_of: {
    written: "start_of(date, 'week', zone)",
    gives: 'string',
    args: [2, 3],
    run: (args) => edge(args, 'start_of', (at, unit) => at.startOf(unit)),
  },
  end_of: {
    written: "end_of(date, 'month', zone)",
    gives: 'string',
    args: [2, 3],
    run: (args) => edge(args, 'end_of', (at, unit) => at.endOf(unit)),
  },
  /** 1 is Monday, as in ISO 8601. */
  weekday: {
    written: 'weekday(date, zone)',
    gives: 'number',
    args: [1, 2],
    run: ([value, zone]) => dayOf(value, 'weekday', zone).at.weekday,
  },
  week: {
    written: 'week(date, zone)',
    gives: 'number',
    args: [1, 2],
    run: ([value, zone]) => dayOf(value, 'week', zone).at.weekNumber,
  },
  in_zone: {
    written: 'in_zone(date, zone)',
    gives: 'string',
    args: [2, 2],
    run: ([value, zone = 'utc']) =>
      shown({ at: inZone(dayOf(value, 'in_zone').at, zone, 'in_zone'), isDate: false }, 'in_zone'),
  },
  years: duration('years'),
  months: duration('months'),
  weeks: duration('weeks'),
  days: duration('days'),
  hours: duration('hours'),
  minutes: duration('minutes'),
  seconds: duration('seconds'),
  business_days: duration('business_days'),
} as const satisfies Readonly<Record<string, Shape>>

function patternOf(value: Json | undefined, what: string): string {
  const pattern = textOf(value, what)
  if (pattern.length > longest)
    throw new TypeError(`a pattern of \`${what}\` has at most ${longest} characters`)
  return pattern
}

function moved([value, given, zone]: readonly Json[], sign: 1 | -1, what: string, budget: Budget): string {
  const { at, isDate } = dayOf(value, what, zone)
  const { business_days: business = 0, ...others } = durationOf(objectOf(given, what), what)
  const plain = at.plus(
    Object.fromEntries(
      Object.entries(others).map(([unit, count]) => [unit, sign * count]),
    ) as DurationLikeObject,
  )
  const count = sign * business
  if (Math.abs(count) > mostBusinessDays)
    throw new TypeError(`\`${what}\` takes at most ${mostBusinessDays.toLocaleString('en-US')} business days`)
  budget.spend(1 + Math.abs(count))
  const end = afterBusinessDays(plain, count)
  return shown({ at: end, isDate: isDate && !Object.keys(others).some(isTime) }, what)
}

function durationOf(given: JsonObject, what: string): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(given).map(([unit, count]) => {
      if (!unitNames.has(unit) && unit !== 'business_days')
        throw new TypeError(`\`${what}\` needs a duration such as \`days(3)\``)
      return [unit, numberOf(count, what)]
    }),
  )
}

/** Monday to Friday. Holidays count as business days. */
const isBusiness = ({ weekday }: DateTime): boolean => weekday < 6

function afterBusinessDays(from: DateTime, count: number): DateTime {
  let at = from
  for (let left = Math.abs(count); left > 0 && at.isValid; left -= isBusiness(at) ? 1 : 0)
    at = at.plus({ days: Math.sign(count) })
  return at
}

/** Those after the earlier day, up to the later one. */
function businessDays(from: DateTime, to: DateTime, budget: Budget): number {
  if (to < from) return -businessDays(to, from, budget) || 0
  const days = Math.floor(to.startOf('day').diff(from.startOf('day'), 'days').days)
  budget.spend(1)
  const weeks = Math.floor(days / 7)
  let found = weeks * 5
  for (let at = from.plus({ weeks }), left = days % 7; left > 0; left -= 1) {
    at = at.plus({ days: 1 })
    if (isBusiness(at)) found += 1
  }
  return found
}

const edges: ReadonlySet<string> = new Set(['year', 'quarter', 'month', 'week', 'day', 'hour', 'minute'])

function edge(
  [value, unit, zone]: readonly Json[],
  what: string,
  move: (at: DateTime, unit: DateTimeUnit) => DateTime,
): string {
  const { at, isDate } = dayOf(value, what, zone)
  const name = textOf(unit, what)
  if (!edges.has(name))
    throw new TypeError(`\`${what}\` takes one of ${[...edges].map((each) => `'${each}'`).join(', ')}`)
  return shown({ at: move(at, name as DateTimeUnit), isDate }, what)
}
