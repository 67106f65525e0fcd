import { z } from 'zod'
import { runEnded } from '../../contract/status.ts'
import { wholeNumber } from '../query.ts'
import { streamRoute } from '../route.ts'
import { eventText, openStream } from '../sse.ts'
import { subscribeTo } from '../wait.ts'
import { readRunEvents } from '../../governance/runs/read/events.ts'
import { withShare } from '../../governance/limits/request-shares.ts'

export const getRunEvents = streamRoute({
  key: 'GET /runs/{id}/events',
  summary: 'The events of a run, live (Server-Sent Events)',
  description:
    'The id of an event is its sequence number in the run. A client that reconnects with `Last-Event-ID` (or `?after=`) misses nothing. The stream ends after the run’s last event, or after `limit` events; `?after=` goes on behind the last of them.',
  tag: 'Runs',
  contentType: 'text/event-stream',
  query: z.object({
    after: wholeNumber(0, 999_999_999).optional(),
    limit: wholeNumber(1, 200).optional(),
  }),
  responses: { 200: null },
  async stream(call, request, response) {
    const { context, params, query, services } = call
    // Each read of a stream takes a place in the share of its organization (request-shares.ts). Otherwise hundreds of
    // streams that wake together would block the database for other organizations.
    const share = <T>(work: Parameters<typeof withShare<T>>[3]): Promise<T> =>
      withShare(context.shares, call.identity.charged.holderId, 'look', work)
    const stream = openStream(response, {
      pingMilliseconds: services.pingMilliseconds ?? 15_000,
      // This check ends the stream after the key was revoked or the person has left.
      stillAllowed: () => share(call.stillAllowed),
      signal: call.signal,
    })
    const wakeUps = subscribeTo(context, params.id, stream.signal)
    try {
      let last = Math.max(query.after ?? 0, lastEventId(request.headers['last-event-id']))
      let left = query.limit
      do {
        for (;;) {
          const { status, eventSeq, events, text } = await share(async (place) => {
            const read = await readRunEvents(context.db, params.id, last, left)
            place.works()
            // All events are written with one call of `write`, because each call checks the caller's rights.
            return {
              ...read,
              text: read.events.map((event) => eventText(event.seq, event.type, event)).join(''),
            }
          })
          if (text !== '') await stream.write(text)
          last = events.at(-1)?.seq ?? last
          if (left !== undefined) left -= events.length
          if (left === 0 || stream.signal.aborted || (runEnded(status) && last >= eventSeq)) return
          if (events.length === 0) break
        }
      } while (await wakeUps.next())
    } finally {
      wakeUps.end()
      stream.end()
    }
  },
})

/** Returns 0 if the header is missing or not a number. The client then gets every event, so nothing is lost. */
function lastEventId(header: string | string[] | undefined): number {
  return typeof header === 'string' && /^\d{1,9}$/.test(header) ? Number(header) : 0
}
