import { z } from 'zod'
import { typeOf, wholeTemplate, words } from '../contract/forms.ts'
import type { Issue } from '../contract/json.ts'
import { wallTime } from '../policy/builtins.ts'
import { isTemplate } from '../policy/template-syntax.ts'
import { textField } from '../policy/text.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import { defineKind, noCall, noOutput, pausing } from './kind.ts'

/** A wait takes at most this many seconds: a year, also one with 366 days. */
const mostSeconds = 366 * 86_400
const daySeconds = 86_400
/** A longer text is no time. It is not read, because this happens while the organization's lock is held. */
const mostText = 100

const fields = {
  wait: z
    .strictObject({
      seconds: z
        .union([z.number(), textField(10_000)])
        .optional()
        .meta({ description: `At most ${mostSeconds} (a year), or a template that gives a number.` }),
      until: textField(1_000).optional().meta({
        description:
          'A time such as `2026-12-24T09:00:00` in the `time_zone` of the run, or with an offset such as `Z` or `+01:00`, or a day (its first moment). A time that has passed ends the wait at once. At most a year ahead.',
      }),
    })
    .optional()
    .meta({
      description:
        'The run waits at this step, without a slot and without a worker. Give `seconds` or `until`.',
    }),
}

/**
 * A step that waits for a time. It makes no call, so no rule is about it, and its output is null. Its labels pass on to
 * the steps that depend on it, because the time at which it ends can tell something about its values.
 */
export const wait = defineKind({
  name: 'wait',
  fields,
  values: 'wait',
  check({ wait: given = {} }, { formOf }): Issue[] {
    const issue = (path: string, message: string): Issue[] => [{ path: `wait${path}`, message }]
    const { seconds, until } = given
    if ((seconds === undefined) === (until === undefined))
      return issue('', 'a `wait` has either `seconds` or `until`')
    if (typeof seconds === 'string') {
      const reference = wholeTemplate(seconds)
      const type = reference === null ? 'string' : typeOf(formOf(reference))
      if (type === null || type === 'number') return []
      const what = reference === null ? 'this is text' : `\`${reference.text}\` is ${words[type]}`
      return issue('.seconds', `must be a number, or one template that gives a number, and ${what}`)
    }
    if (until !== undefined && isTemplate(until)) {
      const reference = wholeTemplate(until)
      const type = reference === null ? null : typeOf(formOf(reference))
      return type === null || type === 'string'
        ? []
        : issue('.until', `must be text with a time, and \`${reference?.text ?? ''}\` is ${words[type]}`)
    }
    const problem =
      seconds === undefined ? (readTime(until ?? '', 'UTC') === null ? noTime : null) : lengthProblem(seconds)
    return problem === null ? [] : issue(seconds === undefined ? '.until' : '.seconds', problem)
  },
  output: () => noOutput,
  plan: ({ wait: given = {} }) => noCall(given),
  skeleton: ({ id }) => pausing('wait', id),
  waits: ({ wait: { seconds, until = '' } = {} }) =>
    seconds === undefined ? `until ${until}` : `${seconds} seconds`,
  run: { as: 'pause', until: endOfWait },
})

const noTime =
  'must be a time such as `2026-12-24T09:00:00`, `2026-12-24T09:00:00+01:00` or a day such as `2026-12-24`'

function lengthProblem(seconds: number): string | null {
  if (seconds < 0) return 'must not be negative'
  return seconds > mostSeconds ? `must be at most ${mostSeconds} (a year)` : null
}

function endOfWait({ seconds = null, until }: JsonObject, began: Date, timeZone: string): Date {
  if (until === undefined) {
    if (typeof seconds !== 'number')
      throw new TypeError(`\`wait.seconds\` must be a number, and it is ${kindOf(seconds)}`)
    const problem = lengthProblem(seconds)
    if (problem !== null) throw new TypeError(`\`wait.seconds\` ${problem}`)
    return new Date(began.getTime() + seconds * 1_000)
  }
  const end = typeof until === 'string' && until.length <= mostText ? readTime(until.trim(), timeZone) : null
  if (end === null) throw new TypeError(`\`wait.until\` ${noTime}`)
  if (end.getTime() - began.getTime() > mostSeconds * 1_000)
    throw new TypeError('`wait.until` is more than a year away')
  return end
}

const kindOf = (value: Json): string =>
  value === null ? 'null' : Array.isArray(value) ? words.array : words[typeof value as keyof typeof words]

const timeForm = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/

/**
 * Reads a time. A time without an offset is one of the time zone. If the clocks skip this time, the time is as much
 * later as they are set forward. If they show it twice, it is the first of the two. Returns null for other text.
 */
export function readTime(text: string, timeZone: string): Date | null {
  const [, ...parts] = timeForm.exec(text) ?? []
  const offset = parts.pop()
  const [year = NaN, month = 1, day = 1, hour = 0, minute = 0, second = 0] = parts.map((part) =>
    Number(part ?? 0),
  )
  const wall = Date.UTC(year, month - 1, day, hour, minute, second)
  // `Date.UTC` turns 31 February into 3 March.
  const asWritten = new Date(wall)
  if (Number.isNaN(wall) || asWritten.getUTCDate() !== day || asWritten.getUTCMonth() !== month - 1)
    return null
  if (hour > 23 || minute > 59 || second > 59) return null
  if (offset === 'Z') return asWritten
  if (offset !== undefined) {
    const at = new Date(`${asWritten.toISOString().slice(0, -1)}${offset}`)
    return Number.isNaN(at.getTime()) ? null : at
  }
  const offsetAt = (time: number): number => wallTime(new Date(time), timeZone) - time
  const candidates = [wall - daySeconds * 1_000, wall + daySeconds * 1_000].map(
    (near) => wall - offsetAt(near),
  )
  const exact = candidates.find((each) => each + offsetAt(each) === wall)
  return new Date(exact ?? (candidates[0] as number))
}
