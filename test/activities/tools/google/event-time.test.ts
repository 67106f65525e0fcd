import { describe, expect, test } from '@jest/globals'
import { nextBusinessDay, startAt } from '../../../../src/activities/tools/google/event-time.ts'

const iso = (instant: number): string => new Date(instant).toISOString()

describe('the next business day', () => {
  test.each([
    // A Monday, and the last minutes of it in Berlin.
    ['2026-11-23T12:00:00Z', 'Europe/Berlin', '2026-11-24T09:00:00.000Z'],
    ['2026-11-23T22:59:00Z', 'Europe/Berlin', '2026-11-24T09:00:00.000Z'],
    ['2026-11-23T23:01:00Z', 'Europe/Berlin', '2026-11-25T09:00:00.000Z'],
    // Friday, Saturday and Sunday lead to Monday.
    ['2026-11-27T12:00:00Z', 'Europe/Berlin', '2026-11-30T09:00:00.000Z'],
    ['2026-11-28T12:00:00Z', 'Europe/Berlin', '2026-11-30T09:00:00.000Z'],
    ['2026-11-29T12:00:00Z', 'Europe/Berlin', '2026-11-30T09:00:00.000Z'],
    // Friday evening in New York is Saturday in Auckland.
    ['2026-11-28T02:00:00Z', 'America/New_York', '2026-11-30T15:00:00.000Z'],
    ['2026-11-27T12:00:00Z', 'Pacific/Auckland', '2026-11-29T21:00:00.000Z'],
    // The clocks change on the Sunday between.
    ['2026-03-27T12:00:00Z', 'Europe/Berlin', '2026-03-30T08:00:00.000Z'],
    ['2026-10-23T12:00:00Z', 'Europe/Berlin', '2026-10-26T09:00:00.000Z'],
    ['2026-11-26T12:00:00Z', 'Asia/Kathmandu', '2026-11-27T04:15:00.000Z'],
  ])('after %s in %s is %s', (now, timeZone, expected) => {
    expect(iso(nextBusinessDay(Date.parse(now), timeZone))).toBe(expected)
  })
})

describe('a start', () => {
  test.each([
    ['2026-12-01T15:00', '2026-12-01T14:00:00.000Z'],
    ['2026-12-01 15:00:30', '2026-12-01T14:00:30.000Z'],
    ['2026-07-01T15:00', '2026-07-01T13:00:00.000Z'],
    ['2026-12-01T15:00Z', '2026-12-01T15:00:00.000Z'],
    ['2026-12-01T15:00:00.123-05:00', '2026-12-01T20:00:00.000Z'],
    // Left out in spring; twice in autumn, of which the second counts.
    ['2026-03-29T02:30', '2026-03-29T01:30:00.000Z'],
    ['2026-10-25T02:30', '2026-10-25T01:30:00.000Z'],
  ])('%s in Berlin is %s', (text, expected) => {
    expect(iso(startAt(text, 'Europe/Berlin'))).toBe(expected)
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
