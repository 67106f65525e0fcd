import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { GoogleCall } from './google-call.ts'
import { rejection } from '../call.ts'
import { StateChanged } from '../../../src/tools/kit/executor.ts'
import { nextBusinessDay, startAt } from '../../../src/tools/google/calendar.ts'
import { type GoogleEmulator, startGoogle } from '../../support/google/emulator.ts'
import { type ScriptedServer, startScriptedServer } from '../../support/scripted-server.ts'

let google: GoogleEmulator
let scripted: ScriptedServer
beforeAll(async () => {
  ;[google, scripted] = await Promise.all([startGoogle(), startScriptedServer()])
  google.state.calendars.set('team@group.calendar.google.com', {
    timeZone: 'America/New_York',
    events: new Map(),
    invited: [],
  })
})
afterAll(() => Promise.all([google?.close(), scripted?.close()]))
beforeEach(() => {
  google.state.calendars.get('primary')?.events.clear()
  scripted.arrived.splice(0)
})

interface Event {
  readonly event_id: string
  readonly start: string
  readonly end: string
  readonly meeting_url: string | null
}
const event = (params: object, over = {}) =>
  new GoogleCall('calendar_create_event', { title: 'Review', ...params }, { base: google.url, ...over })
const primary = () => google.state.calendars.get('primary')!

describe('an event', () => {
  test('has what was asked, invites its attendees, and is found by its id', async () => {
    const call = event({
      start: '2026-12-01T15:00',
      duration_minutes: 90,
      attendees: 'Bo <bo@acme.example>; cy@acme.example',
      description: 'words',
      location: 'Room 1',
      video_meeting: true,
    })
    expect(await call.find()).toBe('absent')
    const made = await call.make<Event>()
    expect(made).toMatchObject({
      start: '2026-12-01T14:00:00.000Z',
      end: '2026-12-01T15:30:00.000Z',
      meeting_url: expect.stringContaining('https://meet.google.com/'),
    })
    expect(primary().events.get(made.event_id)).toMatchObject({
      summary: 'Review',
      description: 'words',
      location: 'Room 1',
      start: { timeZone: 'Europe/Berlin' },
      attendees: [{ email: 'bo@acme.example', displayName: 'Bo' }, { email: 'cy@acme.example' }],
    })
    expect(primary().invited).toEqual(['bo@acme.example', 'cy@acme.example'])
    expect(await call.find()).toEqual(made)
    expect(await event({}).find()).toBe('absent')
  })

  test('has the link to its meeting as soon as Google has made it', async () => {
    const at = (calendar: string, pendingReads: number) => {
      google.state.calendars.set(calendar, { timeZone: 'UTC', events: new Map(), invited: [], pendingReads })
      return event({ calendar, video_meeting: true })
    }
    expect(await at('soon', 1).make()).toMatchObject({ meeting_url: expect.stringContaining('meet.google') })
    // The event is made, so the call does not fail for the link.
    expect(await at('never', 100).make()).toMatchObject({ meeting_url: null })
    expect(await at('found', 1).find()).toBe('absent')
  })

  test('is made although the link to its meeting cannot be read', async () => {
    const start = { dateTime: '2026-12-01T14:00:00Z' }
    const made = { id: 'cs1', htmlLink: '', start, end: start }
    const pending = { createRequest: { status: { statusCode: 'pending' } } }
    scripted.answer = ({ method, path }) => {
      if (method === 'POST') return { status: 200, body: { ...made, conferenceData: pending } }
      return path.includes('timeZone')
        ? { status: 200, body: { timeZone: 'UTC' } }
        : { status: 503, body: {} }
    }
    const params = { start: '2026-12-01T15:00', video_meeting: true }
    expect(await event(params, { base: scripted.url }).make()).toMatchObject({ meeting_url: null })
    expect(scripted.arrived.map(({ method }) => method)).toEqual(['GET', 'POST', 'GET'])
  })

  test('without a start is on a next business day at 10:00 of the calendar, for half an hour', async () => {
    const {
      event_id: id,
      start,
      end,
    } = await event({
      calendar: 'team@group.calendar.google.com',
    }).make<Event>()
    const at = new Date(start)
    const local = at.toLocaleString('en-US', {
      timeZone: 'America/New_York',
      weekday: 'short',
      hour: 'numeric',
    })
    expect(local).toMatch(/^(Mon|Tue|Wed|Thu|Fri) 10 AM$|^10 AM (Mon|Tue|Wed|Thu|Fri)$/)
    expect(at.getTime()).toBeGreaterThan(Date.now())
    expect(Date.parse(end) - at.getTime()).toBe(30 * 60_000)
    expect(google.state.calendars.get('team@group.calendar.google.com')?.events.has(id)).toBe(true)
  })

  test('whose id is taken leaves the outcome open: it may be its own', async () => {
    const call = event({})
    await call.make()
    expect(await rejection(call.make())).toMatchObject({ name: 'OutcomeUnknown' })
    expect(primary().events.size).toBe(1)
  })

  test.each([
    { start: 'tomorrow' },
    { start: '2026-02-30T10:00' },
    { start: '2026-12-01' },
    { start: '2026-12-01T25:00' },
    { attendees: Array.from({ length: 20 }, (_, one) => Array.from({ length: 20 }, (__, two) => `p${one}x${two}@a.example`).join()) }, // prettier-ignore
  ])('that cannot be read is refused before it is sent: %j', async (params) => {
    expect(await rejection(event(params).make())).toMatchObject({ code: 'invalid_params' })
    expect(primary().events.size).toBe(0)
  })

  test('in a calendar that the account does not see says what to do', async () => {
    expect(await rejection(event({ calendar: 'other' }).make())).toMatchObject({ code: 'google_not_found' })
  })
})

describe('an approved event', () => {
  test('starts when its approvers saw, and in the account that they saw', async () => {
    const { revision, fields } = await event({}).seen()
    expect(fields).toEqual({
      starts: expect.stringMatching(/^\d{4}-\d\d-\d\dT10:00:00 \(Europe\/Berlin\)$/),
      'Google account': 'ana@acme.example',
    })
    const [start] = revision.split(' ')
    const later = new Date(Date.parse(start!) + 86_400_000).toISOString()
    expect(await event({}, { revision }).make()).toMatchObject({ start })
    expect(await event({}, { revision: revision.replace(start!, later) }).make()).toMatchObject({
      start: later,
    })
    const changed = [
      event({}, { revision, account: 'bo@acme.example' }),
      event({}, { revision: revision.replace(start!, '2020-01-01T09:00:00.000Z') }),
      event({ start: '2026-12-01T15:00' }, { revision }),
    ]
    for (const call of changed) expect(await rejection(call.make())).toBeInstanceOf(StateChanged)
  })
})

const wrongZones = [{}, { timeZone: 7 }, { timeZone: 'Mars/Olympus' }, []]
test.each(wrongZones)('a calendar with the time zone %j makes no event', async (body) => {
  scripted.answer = () => ({ status: 200, body })
  expect(await rejection(event({}, { base: scripted.url }).make())).toMatchObject({
    code: 'google_bad_answer',
  })
  expect(scripted.arrived.map(({ method }) => method)).toEqual(['GET'])
})

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

  const noTimes = ['', 'now', '2026-12-01', '20261201T100000', '2026-12-01T10:00 Europe/Berlin']
  const never = ['2026-13-01T10:00', '2026-04-31T10:00', '2026-12-01T24:00', '2026-12-01T10:00+25:00']
  test.each([...noTimes, ...never])('%j is refused', (text) => {
    expect(() => startAt(text, 'Europe/Berlin')).toThrow('`start` must be a date and a time')
  })
})
