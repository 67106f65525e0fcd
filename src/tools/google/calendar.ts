import { setTimeout as delay } from 'node:timers/promises'
import { calendar as calendarApi, type calendar_v3 } from '@googleapis/calendar'
import { z } from 'zod'
import { calendarIdOf } from '../../policy/readers/google-links.ts'
import { datesOf, isTimeZone } from '../../policy/builtins.ts'
import {
  invalidParams,
  StateChanged,
  ToolError,
  type FinderOf,
  type ToolBody,
  type ToolParams,
} from '../kit/executor.ts'
import { parseRecipients } from '../mail/addresses.ts'
import { digestOf, type Marked } from '../kit/marker.ts'
import { googleOf, type Google } from './client.ts'
import { calendar as declared } from './tools.ts'

/* Made from the key of the call, the id finds the event after a lost answer: Google may not report a taken id. */

const { events } = calendarApi('v3')

type Params = ToolParams<'calendar_create_event'>

/** By name, Google invites at most so many. */
const mostAttendees = 200
const { defaults } = declared.calendar_create_event

/** Google allows only `0-9` and `a-v` (base32hex). */
const eventIdOf = (call: Marked): string => `cs${digestOf(call)}`

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

/** Google may make a video meeting late. After each of these pauses (ms) the event is read again. */
const meetingPauses = [250, 750, 1_500]

/** A failure or a cancellation does not change the outcome, because the event exists already. */
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
    // The event exists already.
  }
  return event
}

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

interface Planned {
  /** Account and start. An approval covers both. */
  readonly revision: string
  readonly start: number
  readonly local: string
  readonly timeZone: string
}

const revisionOf = (account: string | null, start: number): string =>
  `${new Date(start).toISOString()} ${account ?? ''}`

/** Without `start`: the time in `approved` (what the approvers saw) if in the future, else the next business day. */
export async function plannedEvent(
  google: Google,
  params: Params,
  approved: string | null = null,
): Promise<Planned> {
  const timeZone = await timeZoneOf(google, calendarOf(params))
  const seen = Date.parse(approved?.split(' ', 1)[0] ?? '')
  const byDefault = seen > Date.now() ? seen : nextBusinessDay(Date.now(), timeZone)
  const start = params.start === undefined ? byDefault : startAt(params.start, timeZone)
  return { revision: revisionOf(google.account, start), start, local: localAt(start, timeZone), timeZone }
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

/* A local time is `YYYY-MM-DDTHH:MM:SS`, an instant milliseconds since 1970. */

const day = 86_400_000
const firstHour = '10:00:00'

const localAt = (instant: number, timeZone: string): string =>
  datesOf(new Date(instant), timeZone).now.slice(0, 19)

/** If the local time comes twice, the first instant; if clocks skip it, later by the length of the change. */
function instantOf(local: string, timeZone: string): number {
  const asUtc = Date.parse(`${local}Z`)
  const aheadAt = (instant: number) => Date.parse(`${localAt(instant, timeZone)}Z`) - instant
  // The clocks change at most once in these two days.
  const [before, after] = [asUtc - aheadAt(asUtc - day), asUtc - aheadAt(asUtc + day)]
  return localAt(before, timeZone) !== local && localAt(after, timeZone) === local ? after : before
}

/** 10:00 on the next day after `now` that is no Saturday or Sunday, in the time zone. Public holidays are ignored. */
export function nextBusinessDay(now: number, timeZone: string): number {
  const today = Date.parse(`${localAt(now, timeZone).slice(0, 10)}T00:00:00Z`)
  let next = today + day
  while ([0, 6].includes(new Date(next).getUTCDay())) next += day
  return instantOf(`${new Date(next).toISOString().slice(0, 10)}T${firstHour}`, timeZone)
}

const form = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2})?(?:\.\d{1,9})?(Z|[+-]\d{2}:\d{2})?$/

/** A time without an offset is local. Throws `invalid_params` if the text is no date with a time. */
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

/** JavaScript reads February 30 as March 2. */
const isTime = (asUtc: number, local: string): boolean =>
  !Number.isNaN(asUtc) && new Date(asUtc).toISOString().slice(0, 19) === local
