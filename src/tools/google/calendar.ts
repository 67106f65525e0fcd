import { setTimeout as delay } from 'node:timers/promises'
import { calendar as calendarApi, type calendar_v3 } from '@googleapis/calendar'
import { z } from 'zod'
import { calendarIdOf } from '../../policy/readers/google-links.ts'
import { defaultsOf } from '../../policy/tool-defaults.ts'
import { invalidParams, StateChanged, ToolError, type ToolCall } from '../kit/executor.ts'
import { parseRecipients } from '../mail/addresses.ts'
import { digestOf } from '../kit/marker.ts'
import type { FinderOf, ToolBody, ToolParams } from '../kit/params.ts'
import { googleOf, type Google } from './client.ts'
import { isTimeZone, localAt, nextBusinessDay, startAt } from './event-time.ts'

/*
 * The id of an event is made from the key of its call. Google does not always report that an id is taken. So after a
 * lost answer, the call is not sent again with the same id. Instead, the event with this id is looked for.
 */

const { events } = calendarApi('v3')

type Params = ToolParams<'calendar_create_event'>

/** Google invites at most 200 people by name. */
const mostAttendees = 200
const defaults = defaultsOf.calendar_create_event

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
