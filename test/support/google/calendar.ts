import { type Asked, type Handlers, Refused } from './api.ts'

export interface CalendarEvent {
  readonly id: string
  readonly summary?: string
  readonly start: { readonly dateTime: string; readonly timeZone?: string }
  readonly end: { readonly dateTime: string }
  readonly attendees?: readonly { readonly email: string }[]
  readonly [more: string]: unknown
}

export interface Calendar {
  readonly timeZone: string
  readonly events: Map<string, CalendarEvent>
  /** The people who got an invitation by mail. */
  readonly invited: string[]
  /**
   * If set, the calendar accepts an id that is already taken, and creates another event. Google sometimes does the
   * same.
   */
  readonly forgetsIds?: true
  /** The number of first reads of a new event that show its video meeting as `pending`. */
  readonly pendingReads?: number
}

export type Calendars = Map<string, Calendar>

const video = 'https://meet.google.com/abc-defg-hij'

/** Adds the link of the video meeting to an event that has a meeting. Returns other events unchanged. */
function withMeeting(event: CalendarEvent): CalendarEvent {
  if (event['conferenceData'] === undefined) return event
  const status = { statusCode: 'success' }
  const { createRequest } = event['conferenceData'] as { createRequest: object }
  return {
    ...event,
    hangoutLink: video,
    conferenceData: {
      createRequest: { ...createRequest, status },
      entryPoints: [{ entryPointType: 'video', uri: video }],
    },
  }
}

export function calendarHandlers(calendars: Calendars): Handlers {
  const reads = new Map<string, number>()
  const at = ({ path }: Asked): Calendar => {
    const calendar = calendars.get(path['calendarId'] ?? '')
    if (calendar === undefined) throw new Refused(404, 'notFound')
    return calendar
  }
  return {
    'calendar.events.list': (asked) => {
      const { timeZone, events } = at(asked)
      return {
        kind: 'calendar#events',
        timeZone,
        items: [...events.values()].slice(0, Number(asked.query.get('maxResults') ?? 250)),
      }
    },
    'calendar.events.get': (asked) => {
      const event = at(asked).events.get(asked.path['eventId'] ?? '')
      if (event === undefined) throw new Refused(404, 'notFound')
      const { pendingReads = 0 } = at(asked)
      const read = (reads.get(event.id) ?? 0) + 1
      reads.set(event.id, read)
      return read > pendingReads ? withMeeting(event) : event
    },
    'calendar.events.insert': (asked) => {
      const { events, invited, forgetsIds = false } = at(asked)
      const given = asked.body as CalendarEvent & {
        conferenceData?: { createRequest?: { requestId: string } }
      }
      if (!/^[a-v0-9]{5,1024}$/.test(given.id)) throw new Refused(400, 'invalid')
      if (events.has(given.id) && !forgetsIds) throw new Refused(409, 'duplicate')
      const { conferenceData, ...rest } = given
      const wantsVideo =
        conferenceData?.createRequest !== undefined && asked.query.get('conferenceDataVersion') === '1'
      const event: CalendarEvent = {
        ...rest,
        status: 'confirmed',
        htmlLink: `https://www.google.com/calendar/event?eid=${given.id}`,
        ...(wantsVideo
          ? {
              conferenceData: {
                createRequest: { ...conferenceData.createRequest, status: { statusCode: 'pending' } },
              },
            }
          : {}),
      }
      events.set(events.has(given.id) ? `${given.id} ${events.size}` : given.id, event)
      if (asked.query.get('sendUpdates') === 'all')
        invited.push(...(given.attendees ?? []).map(({ email }) => email))
      return event
    },
  }
}
