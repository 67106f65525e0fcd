import { describe, expect, test } from '@jest/globals'
import { checkTimes, nextTimes, splitDue } from '../../../src/governance/triggers/due-times.ts'
import type { ScheduleSettings } from '../../../src/db/schema/triggers.ts'

const schedule = (given: Partial<ScheduleSettings>): ScheduleSettings => ({
  cron: null,
  every_seconds: null,
  time_zone: 'UTC',
  catch_up: 'last',
  overlap: 'skip',
  ...given,
})
const at = (text: string) => new Date(`${text}Z`)
const shown = (dates: readonly Date[]) => dates.map((each) => each.toISOString().slice(5, 16))

describe('where clocks change', () => {
  test.each([
    // In Berlin, 02:00 to 03:00 is missing on 29 March 2026, and doubled on 25 October 2026.
    ['a missing time, after the gap', '30 2 * * *', '2026-03-28T12:00', ['03-29T01:00', '03-30T00:30']],
    ['a doubled time, once', '30 2 * * *', '2026-10-24T12:00', ['10-25T00:30', '10-26T01:30']],
    [
      'each half hour, by the time that passes',
      '*/30 * * * *',
      '2026-10-25T00:15',
      ['10-25T00:30', '10-25T01:00', '10-25T01:30'],
    ],
    [
      'each half hour over the gap',
      '*/30 * * * *',
      '2026-03-29T00:15',
      ['03-29T00:30', '03-29T01:00', '03-29T01:30'],
    ],
    ['the same hour by the clock', '0 9 * * 1-5', '2026-03-27T07:00', ['03-27T08:00', '03-30T07:00']],
  ])('%s', (_name, cron, from, wanted) => {
    const times = nextTimes(
      { cron, every_seconds: null, time_zone: 'Europe/Berlin' },
      at(from),
      wanted.length,
    )
    expect(shown(times)).toEqual(wanted)
  })
})

describe('what fires', () => {
  const hourly = { cron: '0 * * * *' }
  const daily = { cron: '0 9 * * *' }
  const minutely = { every_seconds: 60 }
  type Row = [
    string,
    Partial<ScheduleSettings>,
    string,
    string,
    string[],
    [number | null, string, string] | null,
    string,
  ]
  const rows: Row[] = [
    ['on time', hourly, '01-05T10:00:00', '01-05T10:00:02', ['01-05T10:00'], null, '01-05T11:00'],
    ['a clock that was set back', hourly, '01-05T10:00:00', '01-05T09:10:00', [], null, '01-05T10:00'],
    [
      'a clock that jumped: last',
      hourly,
      '01-05T10:00:00',
      '01-05T13:30:00',
      ['01-05T13:00'],
      [3, '01-05T10:00', '01-05T12:00'],
      '01-05T14:00',
    ],
    [
      'a clock that jumped: none',
      { ...hourly, catch_up: 'none' },
      '01-05T10:00:00',
      '01-05T12:30:00',
      [],
      [3, '01-05T10:00', '01-05T12:00'],
      '01-05T13:00',
    ],
    [
      'none, but one is on time',
      { ...hourly, catch_up: 'none' },
      '01-05T10:00:00',
      '01-05T12:00:30',
      ['01-05T12:00'],
      [2, '01-05T10:00', '01-05T11:00'],
      '01-05T13:00',
    ],
    [
      'all',
      { ...hourly, catch_up: 'all' },
      '01-05T10:00:00',
      '01-05T12:30:00',
      ['01-05T10:00', '01-05T11:00', '01-05T12:00'],
      null,
      '01-05T13:00',
    ],
    [
      'a stopped service, days',
      daily,
      '01-05T09:00:00',
      '01-08T12:00:00',
      ['01-08T09:00'],
      [3, '01-05T09:00', '01-07T09:00'],
      '01-09T09:00',
    ],
    [
      'a stopped service, seconds',
      { ...minutely, catch_up: 'none' },
      '01-05T10:00:00',
      '01-05T12:00:00',
      ['01-05T11:59', '01-05T12:00'],
      [119, '01-05T10:00', '01-05T11:58'],
      '01-05T12:01',
    ],
    ['the grid stays', minutely, '01-05T10:00:30', '01-05T10:00:59', ['01-05T10:00'], null, '01-05T10:01'],
  ]
  test.each(rows)('%s', (_name, given, due, now, fires, skipped, next) => {
    const found = splitDue(schedule(given), at(`2026-${due}`), at(`2026-${now}`))
    expect(shown(found.fires)).toEqual(fires)
    expect(
      found.skipped && [found.skipped.count, ...shown([found.skipped.first, found.skipped.last])],
    ).toEqual(skipped)
    expect(shown([found.next as Date])).toEqual([next])
  })

  test.each([
    ['cron', { cron: '* * * * *' }, null],
    ['every_seconds', minutely, 1341],
  ])('at most 100 catch up, the newest, and the rest is skipped: %s', (_name, given, count) => {
    const found = splitDue(
      schedule({ ...given, catch_up: 'all' }),
      at('2026-01-05T10:00:00'),
      at('2026-01-06T10:00:30'),
    )
    expect(found.fires).toHaveLength(100)
    expect(shown(found.fires).at(-1)).toBe('01-06T10:00')
    expect(found.skipped).toEqual({
      count,
      first: at('2026-01-05T10:00:00'),
      last: at('2026-01-06T08:20:00'),
    })
    expect(shown([found.next as Date])).toEqual(['01-06T10:01'])
  })
})

test.each(['* * * * * *', '@daily', '', '61 * * * *', '? * * * *', 'a b c d e', '0 0 30 2 *'])(
  '`%s` is no pattern',
  (cron) => {
    expect(() => checkTimes({ cron, every_seconds: null, time_zone: 'UTC' }, new Date())).toThrow(
      expect.objectContaining({ code: 'validation_error' }),
    )
  },
)
