import { setTimeout as delay } from 'node:timers/promises'
import { calendar as calendarApi, type calendar_v3 } from '@googleapis/calendar'
import { z } from 'zod'
import { calendarIdOf } from '../../policy/readers/google-links.ts'
import { builtins } from '../../policy/builtins.ts'
import {
  invalidParams,
  StateChanged,
  ToolError,
  type FinderOf,
  type ToolBody,
  type ToolCall,
  type ToolParams,
} from '../kit/executor.ts'
import { parseRecipients } from '../mail/addresses.ts'
import { digestOf } from '../kit/marker.ts'
import { googleOf, type Google } from './client.ts'
import { calendar as declared } from './tools.ts'

/*
 * The id of an event is made from the key of its call. Google does not always report that an id is taken. So after a
 * lost answer, the call is not sent again with the same id. Instead, the event with this id is looked for.
 */

const { events } = calendarApi('v3')

type Params = ToolParams<'calendar_create_event'>

/** Google invites at most 200 people by name. */
const mostAttendees = 200
const { defaults } = declared.calendar_create_event

/** Returns the id of the event of a call. Google allows only the characters `0-9` and `a-v` (base32hex). */
const eventIdOf = (call: Pick<ToolCall<unknown>, 'idempotencyKey'>): string => `cs${digestOf(call)}`

function calendarOf({ calendar = defaults.calendar }: Params): string {
  const id = calendarIdOf(calendar)
  if (id === null)
    throw invalidParams('`calendar` must be `primary` or the id of a calendar, which is an address')
  return id
}

const time = z
  .object({ dateTime: z.string().optional(), date: z.string().optional() })
  .transform(({ dateTime, date }) => dateTime ?? date ?? '')

const anEvent = z.object({
  id: z.string(),
  htmlLink: z.string().default(''),
  start: time,
  end: time,
  hangoutLink: z.string().optional(),
  conferenceData: z
    .object({
      createRequest: z
        .object({ status: z.object({ statusCode: z.string().optional() }).optional() })
        .optional(),
      entryPoints: z
        .array(z.object({ entryPointType: z.string().optional(), uri: z.string().optional() }))
        .max(100)
        .optional(),
    })
    .optional(),
})
type MadeEvent = z.output<typeof anEvent>
const fields = 'id,htmlLink,start,end,hangoutLink,conferenceData(entryPoints,createRequest/status/statusCode)'

const outputOf = ({ id, htmlLink, start, end, hangoutLink, conferenceData }: MadeEvent) => ({
  event_id: id,
  url: htmlLink,
  start,
  end,
  meeting_url:
    conferenceData?.entryPoints?.find(({ entryPointType }) => entryPointType === 'video')?.uri ??
    hangoutLink ??
    null,
})

const readEvent = (google: Google, calendarId: string, eventId: string): Promise<MadeEvent> =>
  google.read('calendar', anEvent, (options) => events.get({ calendarId, eventId, fields }, options))

/**
 * Google may make the video meeting of an event late. Then the event is read again after each of these pauses, in
 * milliseconds.
 */
const meetingPauses = [250, 750, 1_500]

/**
 * Reads an event again until Google has made its video meeting, but not longer than `meetingPauses`. After a failure,
 * returns the event without the link to the meeting, because the event exists already.
 */
async function withMeeting(
  google: Google,
  signal: AbortSignal,
  calendarId: string,
  made: MadeEvent,
): Promise<MadeEvent> {
  let event = made
  try {
    for (const pause of meetingPauses) {
      if (event.conferenceData?.createRequest?.status?.statusCode !== 'pending') break
      await delay(pause, undefined, { signal })
      const read = await readEvent(google, calendarId, made.id)
      if (read.id !== made.id) break
      event = read
    }
  } catch {
    // The event exists already. So a failure or a cancellation does not change the outcome.
  }
  return event
}

/** Google names a calendar’s time zone in each list of its events. */
const aZone = z.object({ timeZone: z.string().max(100).refine(isTimeZone) })

async function timeZoneOf(google: Google, calendarId: string): Promise<string> {
  const { timeZone } = await google.read('calendar', aZone, (options) =>
    events.list({ calendarId, maxResults: 1, fields: 'timeZone' }, options),
  )
  return timeZone
}

function attendeesOf({ attendees }: Params): calendar_v3.Schema$EventAttendee[] {
  const people = parseRecipients('attendees', attendees)
  if (people.length > mostAttendees)
    throw invalidParams(`\`attendees\` names more than ${mostAttendees} people`)
  return people.map(({ name, address }) => ({
    email: address,
    ...(name === '' ? {} : { displayName: name }),
  }))
}

/** The planned start of an event. */
interface Planned {
  /** The account and the start of the event. An approval covers both. */
  readonly revision: string
  /** The start in milliseconds since 1970. */
  readonly start: number
  /** The start as `YYYY-MM-DDTHH:MM:SS` in `timeZone`. */
  readonly local: string
  /** The calendar's time zone. */
  readonly timeZone: string
}

const revisionOf = (account: string | null, start: number): string =>
  `${new Date(start).toISOString()} ${account ?? ''}`

/**
 * Returns when the event would start if the call were made now. `approved` is the revision that the approvers saw.
 * Without the parameter `start`, the event starts at the time in `approved` if this time lies in the future. If
 * `approved` has no such time, the event starts on the next business day.
 */
export async function plannedEvent(
  google: Google,
  params: Params,
  approved: string | null = null,
): Promise<Planned> {
  const timeZone = await timeZoneOf(google, calendarOf(params))
  const seen = Date.parse(approved?.split(' ', 1)[0] ?? '')
  const byDefault = seen > Date.now() ? seen : nextBusinessDay(Date.now(), timeZone)
  const start = params.start === undefined ? byDefault : startAt(params.start, timeZone)
  return {
    revision: revisionOf(google.account, start),
    start,
    local: localAt(start, timeZone),
    timeZone,
  }
}

export const createEvent: ToolBody<'calendar_create_event'> = async (call, context) => {
  const { params } = call
  const attendees = attendeesOf(params)
  const google = await googleOf(call, context, 'calendar_create_event')
  const { revision, start, timeZone } = await plannedEvent(google, params, call.revision)
  if (call.revision !== null && call.revision !== revision) throw new StateChanged()
  const calendarId = calendarOf(params)
  const end = start + (params.duration_minutes ?? defaults.duration_minutes) * 60_000
  const at = (instant: number) => ({ dateTime: new Date(instant).toISOString(), timeZone })
  const id = eventIdOf(call)
  const requestBody: calendar_v3.Schema$Event = {
    id,
    summary: params.title,
    start: at(start),
    end: at(end),
    ...(params.description === undefined ? {} : { description: params.description }),
    ...(params.location === undefined ? {} : { location: params.location }),
    ...(attendees.length === 0 ? {} : { attendees }),
    ...((params.video_meeting ?? defaults.video_meeting)
      ? {
          conferenceData: {
            createRequest: { requestId: id, conferenceSolutionKey: { type: 'hangoutsMeet' } },
          },
        }
      : {}),
  }
  await context.pointOfNoReturn()
  const made = await google.write('calendar', anEvent, (options) =>
    events.insert({ calendarId, requestBody, conferenceDataVersion: 1, sendUpdates: 'all', fields }, options),
  )
  return { output: outputOf(await withMeeting(google, context.signal, calendarId, made)) }
}

export const findEvent: FinderOf<'calendar_create_event'> = async (call, context) => {
  const google = await googleOf(call, context, 'calendar_create_event')
  const eventId = eventIdOf(call)
  const calendarId = calendarOf(call.params)
  try {
    const found = await readEvent(google, calendarId, eventId)
    if (found.id !== eventId) return { kind: 'unclear' }
    return { kind: 'done', output: outputOf(await withMeeting(google, context.signal, calendarId, found)) }
  } catch (error) {
    if (error instanceof ToolError && error.code === 'google_not_found') return { kind: 'absent' }
    throw error
  }
}

/*
 * A local time is a text of the form `YYYY-MM-DDTHH:MM:SS`. An instant is a number of milliseconds since 1970.
 */

const day = 86_400_000
const firstHour = '10:00:00'

/** Returns the local time at an instant. */
const localAt = (instant: number, timeZone: string): string =>
  builtins(new Date(instant), timeZone).now.slice(0, 19)

/**
 * Returns the instant of a local time. If the local time comes twice, because clocks are set back, returns the first
 * instant. If the local time is skipped, because clocks are set forward, the result is later by the length of the change.
 */
function instantOf(local: string, timeZone: string): number {
  const asUtc = Date.parse(`${local}Z`)
  const aheadAt = (instant: number) => Date.parse(`${localAt(instant, timeZone)}Z`) - instant
  // The clocks change at most once in these two days.
  const [before, after] = [asUtc - aheadAt(asUtc - day), asUtc - aheadAt(asUtc + day)]
  return localAt(before, timeZone) !== local && localAt(after, timeZone) === local ? after : before
}

/**
 * Returns the instant of 10:00 on the next day after `now` that is not a Saturday or Sunday. The day and the time are
 * in the time zone. Public holidays are ignored.
 */
export function nextBusinessDay(now: number, timeZone: string): number {
  const today = Date.parse(`${localAt(now, timeZone).slice(0, 10)}T00:00:00Z`)
  let next = today + day
  while ([0, 6].includes(new Date(next).getUTCDay())) next += day
  return instantOf(`${new Date(next).toISOString().slice(0, 10)}T${firstHour}`, timeZone)
}

const form = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2})?(?:\.\d{1,9})?(Z|[+-]\d{2}:\d{2})?$/

/**
 * Returns the instant of the parameter `start`. A time without an offset is a local time in the calendar’s time zone.
 * Throws ToolError `invalid_params` if the text is no date with a time.
 */
export function startAt(text: string, timeZone: string): number {
  const [, date = '', minutes = '', seconds = ':00', offset] = form.exec(text.trim()) ?? []
  const local = `${date}T${minutes}${seconds}`
  const asUtc = Date.parse(`${local}Z`)
  const read = offset === undefined ? () => instantOf(local, timeZone) : () => Date.parse(`${local}${offset}`)
  const instant = isTime(asUtc, local) ? read() : Number.NaN
  if (!Number.isNaN(instant)) return instant
  throw invalidParams(
    '`start` must be a date and a time, such as `2026-12-01T15:00` or `2026-12-01T15:00+01:00`',
  )
}

/** Returns whether the date and the time of day exist. JavaScript reads February 30 as March 2. */
const isTime = (asUtc: number, local: string): boolean =>
  !Number.isNaN(asUtc) && new Date(asUtc).toISOString().slice(0, 19) === local

/** Returns whether this program knows the time zone. */
function isTimeZone(name: string): boolean {
  try {
    builtins(new Date(0), name)
    return true
  } catch {
    return false
  }
}
