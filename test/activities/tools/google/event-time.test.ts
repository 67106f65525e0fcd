import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { nextBusinessDay, startAt } from '../../../../src/activities/tools/google/event-time.ts'

const iso = (instant: number): string => new Date(instant).toISOString()

describe('the next business day', () => {
  test.each([
    // Monday noon, one minute before Tuesday, and one minute after its beginning, in Berlin.
    ['2026-11-23T12:00:00Z', 'Europe/Berlin', '2026-11-24T09:00:00.000Z'],
    ['2026-11-23T22:59:00Z', 'Europe/Berlin', '2026-11-24T09:00:00.000Z'],
    ['2026-11-23T23:01:00Z', 'Europe/Berlin', '2026-11-25T09:00:00.000Z'],
    // The working day after Friday, Saturday or Sunday is Monday.
    ['2026-11-27T12:00:00Z', 'Europe/Berlin', '2026-11-30T09:00:00.000Z'],
    ['2026-11-28T12:00:00Z', 'Europe/Berlin', '2026-11-30T09:00:00.000Z'],
    ['2026-11-29T12:00:00Z', 'Europe/Berlin', '2026-11-30T09:00:00.000Z'],
    // Friday evening in New York is Saturday in Auckland.
    ['2026-11-28T02:00:00Z', 'America/New_York', '2026-11-30T15:00:00.000Z'],
    ['2026-11-27T12:00:00Z', 'Pacific/Auckland', '2026-11-29T21:00:00.000Z'],
    // The clocks change on the Sunday in between.
    ['2026-03-27T12:00:00Z', 'Europe/Berlin', '2026-03-30T08:00:00.000Z'],
    ['2026-10-23T12:00:00Z', 'Europe/Berlin', '2026-10-26T09:00:00.000Z'],
    ['2026-11-26T12:00:00Z', 'Asia/Kathmandu', '2026-11-27T04:15:00.000Z'],
    // The first and the last time zone: at the same instant, their dates are two days apart.
    ['2026-11-26T10:30:00Z', 'Pacific/Kiritimati', '2026-11-29T20:00:00.000Z'],
    ['2026-11-26T10:30:00Z', 'Pacific/Pago_Pago', '2026-11-26T21:00:00.000Z'],
    // The clocks change by half an hour in the first zone, and on a Friday in the second.
    ['2026-04-03T12:00:00Z', 'Australia/Lord_Howe', '2026-04-05T23:30:00.000Z'],
    ['2026-04-23T12:00:00Z', 'Africa/Cairo', '2026-04-24T07:00:00.000Z'],
  ])('after %s in %s is %s', (now, timeZone, expected) => {
    expect(iso(nextBusinessDay(Date.parse(now), timeZone))).toBe(expected)
  })
})

const zones = Intl.supportedValuesOf('timeZone')
const local = (instant: number, timeZone: string) => {
  const parts = new Intl.DateTimeFormat('en-CA', {
    ...{ timeZone, weekday: 'short', hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit' },
    ...{ hour: '2-digit', minute: '2-digit', second: '2-digit' },
  }).formatToParts(instant)
  const part = (type: string) => parts.find((each) => each.type === type)?.value ?? ''
  return {
    date: `${part('year')}-${part('month')}-${part('day')}`,
    weekday: part('weekday'),
    time: `${part('hour')}:${part('minute')}:${part('second')}`,
  }
}

test('in every zone at every time it is a later day from Monday to Friday at 10:00, and the first one', () => {
  const instants = fc.integer({ min: Date.UTC(2015, 0), max: Date.UTC(2035, 0) })
  fc.assert(
    fc.property(fc.constantFrom(...zones), instants, (timeZone, now) => {
      const today = local(now, timeZone)
      const found = local(nextBusinessDay(now, timeZone), timeZone)
      expect(found.time).toBe('10:00:00')
      // On Friday, Saturday and Sunday, the next working day is Monday.
      const days = { Fri: 3, Sat: 2, Sun: 1 }[today.weekday] ?? 1
      const expected = new Date(Date.parse(`${today.date}T00:00:00Z`) + days * 86_400_000)
      expect(found.date).toBe(expected.toISOString().slice(0, 10))
    }),
    { numRuns: 2_000 },
  )
})

describe('a start', () => {
  test.each([
    ['2026-12-01T15:00', '2026-12-01T14:00:00.000Z'],
    ['2026-12-01 15:00:30', '2026-12-01T14:00:30.000Z'],
    ['2026-07-01T15:00', '2026-07-01T13:00:00.000Z'],
    ['2026-12-01T15:00Z', '2026-12-01T15:00:00.000Z'],
    ['2026-12-01T15:00:00.123-05:00', '2026-12-01T20:00:00.000Z'],
  ])('%s in Berlin is %s', (text, expected) => {
    expect(iso(startAt(text, 'Europe/Berlin'))).toBe(expected)
  })

  // In spring, clocks skip this time, and the time an hour later counts. In autumn, it comes twice, and the first one
  // counts.
  test.each([
    ['2026-03-29T02:30', 'Europe/Berlin', '2026-03-29T01:30:00.000Z'],
    ['2026-10-25T02:30', 'Europe/Berlin', '2026-10-25T00:30:00.000Z'],
    ['2026-03-08T02:30', 'America/New_York', '2026-03-08T07:30:00.000Z'],
    ['2026-11-01T01:30', 'America/New_York', '2026-11-01T05:30:00.000Z'],
    ['2026-10-04T02:15', 'Australia/Lord_Howe', '2026-10-03T15:45:00.000Z'],
  ])('%s in %s, when the clocks change, is %s', (text, timeZone, expected) => {
    expect(iso(startAt(text, timeZone))).toBe(expected)
  })

  test.each([
    '',
    'now',
    '2026-12-01',
    '2026-13-01T10:00',
    '2026-04-31T10:00',
    '2026-12-01T24:00',
    '20261201T100000',
    '2026-12-01T10:00+25:00',
    '2026-12-01T10:00 Europe/Berlin',
  ])('%j is refused', (text) => {
    expect(() => startAt(text, 'Europe/Berlin')).toThrow('`start` must be a date and a time')
  })
})
