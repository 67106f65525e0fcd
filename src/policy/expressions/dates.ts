import {
  DateTime,
  FixedOffsetZone,
  IANAZone,
  type DateTimeUnit,
  type DurationLikeObject,
  type Zone,
} from 'luxon'
import type { Budget } from '../budget.ts'
import type { Json, JsonObject } from '../types.ts'
import { finite, numberOf, objectOf, shortTextOf, textOf, wholeOf, type Shape } from './shape.ts'

/*
 * A date is text: `2026-01-31`, or a time with its offset, `2026-01-31T09:00:00+01:00`. A time without an offset counts as
 * UTC. The clock and the zone of the machine are never read, so a date always has its year, month and day.
 */

interface Day {
  readonly at: DateTime
  /** Without a time of day. */
  readonly isDate: boolean
}

const form = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?))?$/

/** Units that the work with one date costs, in a zone, and for a name of a month, a day or a zone. */
const [costOfDate, costOfZone, costOfName] = [150, 1_000, 1_000]

function dayOf(value: Json | undefined, what: string, budget: Budget, zone?: Json): Day {
  budget.spend(costOfDate)
  const [, day, time] = form.exec(shortTextOf(value, what)) ?? []
  const at = DateTime.fromISO(time === undefined ? `${day}` : `${day}T${time}`, {
    setZone: true,
    zone: 'utc',
    locale: 'en',
  })
  if (day === undefined || !at.isValid)
    throw new TypeError(
      `\`${what}\` needs a date such as \`2026-01-31\` or \`2026-01-31T09:00:00+01:00\`: read others with \`date(text, pattern)\``,
    )
  const isDate = time === undefined
  return { at: isDate || zone === undefined ? at : at.setZone(zoneOf(zone, what, budget)), isDate }
}

/** By its name in any case. Names like `local` would mean the zone of the machine. */
function zoneOf(value: Json, what: string, budget: Budget): Zone {
  const name = textOf(value, what).slice(0, 100).toLowerCase()
  if (name === 'utc') return FixedOffsetZone.utcInstance
  budget.spend(costOfZone)
  // Only what exists is kept by the library.
  if (IANAZone.isValidZone(name)) return IANAZone.create(name)
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

export const dates = {
  date: {
    written: 'date(text, pattern, zone)',
    gives: 'string',
    args: [1, 3],
    run([value, pattern, zone = 'utc'], { budget }) {
      if (pattern === undefined) return shown(dayOf(value, 'date', budget), 'date')
      budget.spend(costOfDate)
      return shown(
        readDate(shortTextOf(value, 'date'), patternOf(pattern, 'date'), zoneOf(zone, 'date', budget)),
        'date',
      )
    },
  },
  format: {
    written: 'format(date, pattern, zone, language)',
    gives: 'string',
    args: [2, 4],
    run([value, pattern, zone, language = 'en'], { budget }) {
      const { at } = dayOf(value, 'format', budget, zone)
      budget.spend(costOfPattern(patternOf(pattern, 'format')))
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
      const [a, b] = [dayOf(later, 'difference', budget), dayOf(earlier, 'difference', budget)]
      const name = textOf(unit, 'difference')
      if (name === 'business_days') return businessDays(b.at, a.at)
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
    run: (args, { budget }) => edge(args, 'start_of', budget, (at, unit) => at.startOf(unit)),
  },
  end_of: {
    written: "end_of(date, 'month', zone)",
    gives: 'string',
    args: [2, 3],
    run: (args, { budget }) => edge(args, 'end_of', budget, (at, unit) => at.endOf(unit)),
  },
  /** 1 is Monday, as in ISO 8601. */
  weekday: {
    written: 'weekday(date, zone)',
    gives: 'number',
    args: [1, 2],
    run: ([value, zone], { budget }) => dayOf(value, 'weekday', budget, zone).at.weekday,
  },
  week: {
    written: 'week(date, zone)',
    gives: 'number',
    args: [1, 2],
    run: ([value, zone], { budget }) => dayOf(value, 'week', budget, zone).at.weekNumber,
  },
  in_zone: {
    written: 'in_zone(date, zone)',
    gives: 'string',
    args: [2, 2],
    run: ([value, zone = 'utc'], { budget }) =>
      shown(
        { at: dayOf(value, 'in_zone', budget).at.setZone(zoneOf(zone, 'in_zone', budget)), isDate: false },
        'in_zone',
      ),
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

/** Characters of a pattern. */
const longestPattern = 100

function patternOf(value: Json | undefined, what: string): string {
  const pattern = textOf(value, what)
  if (pattern.length > longestPattern)
    throw new TypeError(`a pattern of \`${what}\` has at most ${longestPattern} characters`)
  return pattern
}

/** Names come from tables of languages, which are slow. */
const costOfPattern = (pattern: string): number =>
  20 * pattern.length + costOfName * (pattern.match(/(?!yyyy)([A-Za-z])\1{2,}/g)?.length ?? 0)

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const monthOf = (name: string): number => months.indexOf(name.slice(0, 3).toLowerCase()) + 1

/** What each part of a pattern reads. No part is read twice, so the time is linear. */
const parts: Readonly<Record<string, readonly [keyof Read, RegExp]>> = {
  yyyy: ['year', /\d{4}/y],
  MMMM: ['month', /[A-Za-z]{3,9}/y],
  MMM: ['month', /[A-Za-z]{3}/y],
  MM: ['month', /\d{2}/y],
  M: ['month', /\d{1,2}/y],
  dd: ['day', /\d{2}/y],
  d: ['day', /\d{1,2}/y],
  HH: ['hour', /\d{2}/y],
  H: ['hour', /\d{1,2}/y],
  mm: ['minute', /\d{2}/y],
  ss: ['second', /\d{2}/y],
  ZZ: ['offset', /[+-]\d{2}:?\d{2}/y],
}

interface Read {
  year?: string
  month?: string
  day?: string
  hour?: string
  minute?: string
  second?: string
  offset?: string
}

const noFit = (): TypeError =>
  new TypeError(
    '`date` cannot read the text with its pattern: it takes `yyyy`, `MM`, `M`, `MMM`, `MMMM`, `dd`, `d`, `HH`, `H`, `mm`, `ss` and `ZZ`, such as `dd.MM.yyyy`',
  )

function readDate(text: string, pattern: string, zone: Zone): Day {
  const read: Read = {}
  let at = 0
  for (const [piece, quoted] of pattern.matchAll(/'([^']*)'|([A-Za-z])\2*|[^A-Za-z]/g)) {
    const part = Object.hasOwn(parts, piece) ? parts[piece] : undefined
    if (part === undefined) {
      const literal = quoted ?? piece
      if (quoted === undefined && /[A-Za-z]/.test(piece)) throw noFit()
      if (!text.startsWith(literal, at)) throw noFit()
      at += literal.length
      continue
    }
    const [field, expression] = part
    expression.lastIndex = at
    const found = expression.exec(text)?.[0]
    if (found === undefined || read[field] !== undefined) throw noFit()
    read[field] = found
    at += found.length
  }
  if (at < text.length || read.year === undefined || read.month === undefined || read.day === undefined)
    throw noFit()
  const month = /\d/.test(read.month) ? Number(read.month) : monthOf(read.month)
  const [, sign, hours, minutes] = /([+-])(\d{2}):?(\d{2})/.exec(read.offset ?? '') ?? []
  const offset = Number(`${sign ?? '+'}1`) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0))
  const made = DateTime.fromObject(
    {
      year: Number(read.year),
      month,
      day: Number(read.day),
      hour: Number(read.hour ?? 0),
      minute: Number(read.minute ?? 0),
      second: Number(read.second ?? 0),
    },
    { zone: read.offset === undefined ? zone : FixedOffsetZone.instance(offset), locale: 'en' },
  )
  if (!made.isValid) throw noFit()
  return { at: made, isDate: read.hour === undefined }
}

function moved([value, given, zone]: readonly Json[], sign: 1 | -1, what: string, budget: Budget): string {
  const { at, isDate } = dayOf(value, what, budget, zone)
  const { business_days: business = 0, ...others } = durationOf(objectOf(given, what), what)
  const times = Object.entries(others).map(([unit, count]) => [unit, sign * count])
  const end = afterBusinessDays(at.plus(Object.fromEntries(times) as DurationLikeObject), sign * business)
  return shown({ at: end, isDate: isDate && !Object.keys(others).some(isTime) }, what)
}

function durationOf(given: JsonObject, what: string): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(given)
      .slice(0, units.length + 1)
      .map(([unit, count]) => {
        if (!unitNames.has(unit) && unit !== 'business_days')
          throw new TypeError(`\`${what}\` needs a duration such as \`days(3)\``)
        return [unit, numberOf(count, what)]
      }),
  )
}

/** Monday to Friday. Holidays count as business days. */
const isBusiness = ({ weekday }: DateTime): boolean => weekday < 6

/** Whole weeks at once, and the last five days one after another. */
function afterBusinessDays(from: DateTime, count: number): DateTime {
  const weeks = Math.floor(Math.max(0, Math.abs(count) - 1) / 5)
  const sign = Math.sign(count)
  let at = from.plus({ weeks: sign * weeks })
  for (let left = Math.abs(count) - 5 * weeks; left > 0 && at.isValid; left -= isBusiness(at) ? 1 : 0)
    at = at.plus({ days: sign })
  return at
}

/** Those after the earlier day, up to the later one. */
function businessDays(from: DateTime, to: DateTime): number {
  if (to < from) return -businessDays(to, from) || 0
  const days = Math.floor(to.startOf('day').diff(from.startOf('day'), 'days').days)
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
  budget: Budget,
  move: (at: DateTime, unit: DateTimeUnit) => DateTime,
): string {
  const { at, isDate } = dayOf(value, what, budget, zone)
  const name = textOf(unit, what)
  if (!edges.has(name))
    throw new TypeError(`\`${what}\` takes one of ${[...edges].map((each) => `'${each}'`).join(', ')}`)
  return shown({ at: move(at, name as DateTimeUnit), isDate }, what)
}
