import { z } from 'zod'
import { runEnded } from '../../contract/status.ts'
import { wholeNumber } from '../query.ts'
import { streamRoute } from '../route.ts'
import { eventText, openStream } from '../sse.ts'
import { subscribeTo } from '../wait.ts'
import { readRunEvents } from '../../governance/run-events.ts'
import { withShare } from '../../governance/shares.ts'

export const getRunEvents = streamRoute({
  key: 'GET /runs/{id}/events',
  summary: 'What happens to a run, live (Server-Sent Events)',
  description:
    'The id of an event is its place in the run; a client that comes back with `Last-Event-ID` (or `?after=`) misses nothing. The stream ends after the run’s last event.',
  tag: 'Runs',
  contentType: 'text/event-stream',
  query: z.object({ after: wholeNumber(0, 999_999_999).optional() }),
  responses: { 200: null },
  async stream(call, request, response) {
    const { context, params, query, services } = call
    // Hundreds of streams of one organization that wake together do not fill the line for the database.
    const share = <T>(work: () => Promise<T>): Promise<T> =>
      withShare(context.shares, call.identity.charged.holderId, 'look', work)
    const stream = openStream(response, {
      pingMilliseconds: services.pingMilliseconds ?? 15_000,
      // A key that was revoked, or a person who left, hears no more.
      stillAllowed: () => share(call.stillAllowed),
      signal: call.signal,
    })
    const wakeUps = subscribeTo(context, params.id, stream.signal)
    try {
      let last = Math.max(query.after ?? 0, lastEventId(request.headers['last-event-id']))
      do {
        for (;;) {
          const { status, eventSeq, events } = await share(() => readRunEvents(context, params.id, last))
          // All at once: each write asks whether they may still be read.
          const text = events.map((event) => eventText(event.seq, event.type, event)).join('')
          if (text !== '') await stream.write(text)
          last = events.at(-1)?.seq ?? last
          if (stream.signal.aborted || (runEnded(status) && last >= eventSeq)) return
          if (events.length === 0) break
        }
      } while (await wakeUps.next())
    } finally {
      wakeUps.end()
      stream.end()
    }
  },
})

/** Of another form it is not ours: the client then gets everything, which loses nothing. */
function lastEventId(header: string | string[] | undefined): number {
  return typeof header === 'string' && /^\d{1,9}$/.test(header) ? Number(header) : 0
}
