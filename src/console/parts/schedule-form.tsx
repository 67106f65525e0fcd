import { exactTime } from '../../policy/units.ts'
import type { FieldProblem, PersonsVisit } from '../visit.ts'
import { Field, Select, type Filled, type Labels } from './form.tsx'

/* The times of a schedule: the usual ones in words, a number of seconds, or a cron pattern. */

/** What a schedule of the API says of its times. */
interface Times {
  readonly cron: string | null
  readonly every_seconds: number | null
}

const often = [
  ['daily', 'Every day'],
  ['weekdays', 'Every day from Monday to Friday'],
  ['weekly', 'Every week'],
  ['monthly', 'Every month'],
  ['hourly', 'Every full hour'],
  ['seconds', 'After a number of seconds'],
  ['cron', 'By a cron pattern'],
] as const
type Often = (typeof often)[number][0]

const days = [
  ['1', 'Monday'],
  ['2', 'Tuesday'],
  ['3', 'Wednesday'],
  ['4', 'Thursday'],
  ['5', 'Friday'],
  ['6', 'Saturday'],
  ['0', 'Sunday'],
] as const

export const timesLabels: Labels = {
  often: 'How often',
  at: 'At',
  weekday: 'Day of the week',
  day: 'Day of the month',
  every_seconds: 'Every how many seconds',
  cron: 'Cron pattern',
}

interface Chosen {
  readonly often: Often
  /** `09:30` */
  readonly at?: string
  readonly weekday?: string
  readonly day?: string
}

/** A pattern of another shape is shown as the pattern that it is. */
function chosenIn({ cron, every_seconds: seconds }: Times): Chosen {
  if (seconds !== null) return { often: 'seconds' }
  const [minute = '', hour = '', day = '', month, weekday = '', ...rest] = (cron ?? '').split(' ')
  const number = /^(0|[1-9]\d?)$/
  const isPlain = number.test(minute) && rest.length === 0 && month === '*'
  if (isPlain && minute === '0' && hour === '*' && day === '*' && weekday === '*') return { often: 'hourly' }
  if (!isPlain || !number.test(hour)) return { often: 'cron' }
  const at = `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`
  if (day === '*' && weekday === '*') return { often: 'daily', at }
  if (day === '*' && weekday === '1-5') return { often: 'weekdays', at }
  if (day === '*' && days.some(([each]) => each === weekday)) return { often: 'weekly', at, weekday }
  return weekday === '*' && number.test(day) ? { often: 'monthly', at, day } : { often: 'cron' }
}

/** "every day at 09:00", "every 5 minutes"; of a pattern that the form does not offer: the pattern. */
export function timesWords(times: Times): string {
  const { often: which, at = '', weekday, day = '' } = chosenIn(times)
  switch (which) {
    case 'seconds':
      return `every ${exactTime(times.every_seconds ?? 0).replace(/^1 /, '')}`
    case 'hourly':
      return 'every full hour'
    case 'daily':
      return `every day at ${at}`
    case 'weekdays':
      return `from Monday to Friday at ${at}`
    case 'weekly':
      return `every ${days.find(([each]) => each === weekday)?.[1] ?? ''} at ${at}`
    case 'monthly':
      return `on day ${day} of each month at ${at}`
    case 'cron':
      break
  }
  return times.cron ?? ''
}

/** Without support of `:has` in the browser, fields of the other kinds are shown too, and not read. */
export function TimesFields(props: {
  visit: PersonsVisit
  present: (Times & { time_zone: string }) | null
  filled: Filled
}) {
  const { visit, present, filled } = props
  const chosen: Chosen = present === null ? { often: 'daily' } : chosenIn(present)
  const given = { filled, optional: true } as const
  return (
    <fieldset class="times group">
      <legend>When</legend>
      <Select name="often" options={often} value={chosen.often} filled={filled} />
      <div data-for="weekly">
        <Select name="weekday" options={days} value={chosen.weekday ?? '1'} filled={filled} />
      </div>
      <div data-for="monthly">
        <Field
          {...given}
          name="day"
          most={2}
          value={chosen.day ?? '1'}
          help="From 1 to 31. Months without this day are left out."
        />
      </div>
      <div data-for="daily weekdays weekly monthly">
        <Field {...given} name="at" type="time" value={chosen.at ?? '09:00'} />
      </div>
      <div data-for="seconds">
        <Field
          {...given}
          name="every_seconds"
          most={8}
          value={String(present?.every_seconds ?? '')}
          help="At least 10."
        />
      </div>
      <div data-for="cron">
        <Field
          {...given}
          name="cron"
          most={100}
          value={present?.cron ?? ''}
          help="Minute, hour, day, month, day of the week, such as “0 9 * * 1-5”."
        />
      </div>
      <div data-for="daily weekdays weekly monthly hourly cron">
        <Field
          {...given}
          name="time_zone"
          most={100}
          value={present?.time_zone ?? visit.person.user.time_zone ?? 'UTC'}
          help="Such as Europe/Berlin. Without one, the times are in UTC."
        />
      </div>
    </fieldset>
  )
}

/** What the fields say, and what is wrong with them. Only those of the chosen kind are read. */
export function timesIn(text: (name: string) => string): { times: Times; wrong: FieldProblem[] } {
  const which = text('often')
  const cron = (pattern: string) => ({ times: { cron: pattern, every_seconds: null }, wrong: [] })
  const refused = (path: string, message: string) => ({
    times: { cron: null, every_seconds: null },
    wrong: [{ path, message }],
  })
  if (which === 'seconds')
    return /^\d+$/.test(text('every_seconds'))
      ? { times: { cron: null, every_seconds: Number(text('every_seconds')) }, wrong: [] }
      : refused('every_seconds', 'must be a number of seconds')
  if (which === 'cron') return text('cron') === '' ? refused('cron', 'write a pattern') : cron(text('cron'))
  if (which === 'hourly') return cron('0 * * * *')
  if (!often.some(([each]) => each === which)) return refused('often', 'choose how often')
  const [, hour, minute] = /^(\d\d):(\d\d)$/.exec(text('at')) ?? []
  if (hour === undefined || minute === undefined) return refused('at', 'must be a time such as 09:30')
  const at = `${Number(minute)} ${Number(hour)}`
  if (which === 'daily') return cron(`${at} * * *`)
  if (which === 'weekdays') return cron(`${at} * * 1-5`)
  const [weekday, day] = [text('weekday'), text('day')]
  if (which === 'weekly')
    return days.some(([each]) => each === weekday)
      ? cron(`${at} * * ${weekday}`)
      : refused('weekday', 'choose a day')
  return /^([1-9]|[12]\d|3[01])$/.test(day)
    ? cron(`${at} ${day} * *`)
    : refused('day', 'must be a number from 1 to 31')
}
