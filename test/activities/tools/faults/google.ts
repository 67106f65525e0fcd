import type { Json } from '../../../../src/policy/types.ts'
import { googleCredential, startGoogle } from '../../../support/google/emulator.ts'
import type { CalendarEvent } from '../../../support/google/calendar.ts'
import type { FaultService } from './service.ts'

const refusing = (status: number, reason: string) => ({
  status,
  body: JSON.stringify({ error: { code: status, message: 'secret words', errors: [{ reason }] } }),
})

const common = {
  name: 'google',
  start: startGoogle,
  credential: googleCredential,
  cannotLook: refusing(403, 'forbidden'),
  refusals: {
    'the token was revoked': [refusing(401, 'authError'), 'connection_expired'],
    'a right is missing': [refusing(403, 'forbidden'), 'google_forbidden'],
    'a scope is missing': [refusing(403, 'insufficientPermissions'), 'google_missing_scope'],
    'the API is turned off': [refusing(403, 'accessNotConfigured'), 'google_api_disabled'],
    '400 comes back': [refusing(400, 'invalid'), 'google_refused'],
    '404 comes back': [refusing(404, 'notFound'), 'google_not_found'],
    'the limit comes back as 403': [refusing(403, 'userRateLimitExceeded'), 'google_rate_limited'],
  },
  codes: { rateLimited: 'google_rate_limited', redirected: 'google_redirected' },
} as const satisfies Partial<FaultService>

export const googleCalendar: FaultService = {
  ...common,
  part: 'calendar',
  place: 'primary',
  tools: {
    calendar_create_event: {
      params: (text, place) => ({ title: text, calendar: place, start: '2026-12-01T15:00' }),
      async made(ask, text, place): Promise<Json[]> {
        const path = `/calendar/v3/calendars/${place}/events`
        const { items } = (await ask('GET', path)) as unknown as { items: CalendarEvent[] }
        return items
          .filter(({ summary }) => summary === text)
          .map(({ id, htmlLink, start, end }) => ({
            event_id: id,
            url: htmlLink as string,
            start: start.dateTime,
            end: end.dateTime,
            meeting_url: null,
          }))
      },
    },
  },
  isWrite: (method, path) => method === 'POST' && path.includes('/events'),
  emptyList: refusing(404, 'notFound'),
}
