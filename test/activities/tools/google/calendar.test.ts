import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { StateChanged } from '../../../../src/activities/tools/executor.ts'
import { startGoogle, type GoogleEmulator } from '../../../support/google/emulator.ts'
import { startScriptedServer, type ScriptedServer } from '../../../support/scripted-server.ts'
import { rejection } from '../call.ts'
import { GoogleCall } from './google-call.ts'

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

test.each([{}, { timeZone: 7 }, { timeZone: 'Mars/Olympus' }, []])(
  'a calendar with the time zone %j makes no event',
  async (body) => {
    scripted.answer = () => ({ status: 200, body })
    expect(await rejection(event({}, { base: scripted.url }).make())).toMatchObject({
      code: 'google_bad_answer',
    })
    expect(scripted.arrived.map(({ method }) => method)).toEqual(['GET'])
  },
)
