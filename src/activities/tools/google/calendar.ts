import { calendar as calendarApi, type calendar_v3 } from '@googleapis/calendar'
import { z } from 'zod'
import { calendarIdOf } from '../../../policy/readers/google-links.ts'
import { StateChanged, ToolError, type ToolCall } from '../executor.ts'
import { parseRecipients } from '../mail-addresses.ts'
import { digestOf } from '../marker.ts'
import type { FinderOf, ToolBody, ToolParams } from '../params.ts'
import { googleOf, type Google } from './client.ts'
import { isTimeZone, localAt, nextBusinessDay, startAt } from './event-time.ts'

/*
 * The id of an event is made from the key of its call. Google does not always report that an id is taken. So a call
 * whose answer was lost is not sent again with its id. Instead, the event with this id is looked for.
 */

const { events } = calendarApi('v3')

type Params = ToolParams<'calendar_create_event'>

/** Google invites at most 200 people by name. */
const mostAttendees = 200
const defaultMinutes = 30

/** Base32hex, as Google wants it: `0-9` and `a-v`. */
const eventIdOf = (call: Pick<ToolCall<unknown>, 'idempotencyKey'>): string => `cs${digestOf(call)}`

const calendarOf = ({ calendar = 'primary' }: Params): string => calendarIdOf(calendar)

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
      entryPoints: z
        .array(z.object({ entryPointType: z.string().optional(), uri: z.string().optional() }))
        .max(100)
        .optional(),
    })
    .optional(),
})
const fields = 'id,htmlLink,start,end,hangoutLink,conferenceData/entryPoints'

const outputOf = ({ id, htmlLink, start, end, hangoutLink, conferenceData }: z.output<typeof anEvent>) => ({
  event_id: id,
  url: htmlLink,
  start,
  end,
  meeting_url:
    conferenceData?.entryPoints?.find(({ entryPointType }) => entryPointType === 'video')?.uri ??
    hangoutLink ??
    null,
})

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
    throw new ToolError('invalid_params', `\`attendees\` names more than ${mostAttendees} people`, {
      retryable: false,
    })
  return people.map(({ name, address }) => ({
    email: address,
    ...(name === '' ? {} : { displayName: name }),
  }))
}

/** The planned start of an event. */
interface Planned {
  /** The account and the start. An approval covers both. */
  readonly revision: string
  /** Milliseconds since 1970. */
  readonly start: number
  /** `YYYY-MM-DDTHH:MM:SS` in the time zone. */
  readonly local: string
  /** The calendar's time zone. */
  readonly timeZone: string
}

const revisionOf = (account: string | null, start: number): string =>
  `${new Date(start).toISOString()} ${account ?? ''}`

/**
 * Plans the event of these parameters as of now. `approved` is the revision that the approvers saw. The default start
 * in it stays the same until it has passed.
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
  const end = start + (params.duration_minutes ?? defaultMinutes) * 60_000
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
    ...(params.video_meeting === true
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
  return { output: outputOf(made) }
}

export const findEvent: FinderOf<'calendar_create_event'> = async (call, context) => {
  const google = await googleOf(call, context, 'calendar_create_event')
  const eventId = eventIdOf(call)
  try {
    const found = await google.read('calendar', anEvent, (options) =>
      events.get({ calendarId: calendarOf(call.params), eventId, fields }, options),
    )
    return found.id === eventId ? { kind: 'done', output: outputOf(found) } : { kind: 'unclear' }
  } catch (error) {
    if (error instanceof ToolError && error.code === 'google_not_found') return { kind: 'absent' }
    throw error
  }
}
