import { z } from 'zod'
import { runEnded } from '../../contract/status.ts'
import { wholeNumber } from '../query.ts'
import { streamRoute, type Call } from '../route.ts'
import { eventText, openStream, setStreamHeaders } from '../sse.ts'
import { subscribeTo } from '../wait.ts'
import { readRunEvents } from '../../governance/runs/read/events.ts'
import { withShare, type Place } from '../../governance/limits/request-shares.ts'

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
  head: (_call, response) => Promise.resolve(setStreamHeaders(response)),
  async stream(call, request, response) {
    const { context, params, query, services } = call
    const look = createLook(call)
    const stream = openStream(response, {
      pingMilliseconds: services.pingMilliseconds ?? 15_000,
      // This check ends the stream after the key was revoked or the person has left.
      stillAllowed: () => look(['allowed', ...callerOf(call)], call.stillAllowed),
      signal: call.signal,
    })
    const wakeUps = subscribeTo(context, params.id, stream.signal)
    try {
      let last = Math.max(query.after ?? 0, lastEventId(request.headers['last-event-id']))
      let left = query.limit
      do {
        for (;;) {
          const { status, eventSeq, events, text } = await look(
            ['events', params.id, last, left ?? null],
            async (place) => {
              const read = await readRunEvents(context.db, params.id, last, left)
              place.works()
              // All events are written with one call of `write`, because each call checks the caller's rights.
              return {
                ...read,
                text: read.events.map((event) => eventText(event.seq, event.type, event)).join(''),
              }
            },
          )
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

type EventsCall = Call<'GET /runs/{id}/events'>
type Look = <T>(key: readonly unknown[], work: (place: Pick<Place, 'works'>) => Promise<T>) => Promise<T>

/**
 * Returns a function that reads for a stream. Streams that wake at the same time need the same data. So calls with the
 * same key share one read (shared/joined.ts). Each read takes a place in the share of the organization
 * (request-shares.ts). Without these two limits, hundreds of streams of one run would block the database for other
 * organizations.
 */
function createLook({ context, identity }: EventsCall): Look {
  const { holderId } = identity.charged
  return (key, work) =>
    context.looks.join(JSON.stringify([holderId, ...key]), (begins) =>
      withShare(context.shares, holderId, 'look', (place) => {
        begins()
        return work(place)
      }),
    )
}

/** All values of the call that can change the result of `stillAllowed`. Calls with equal values share one check. */
const callerOf = ({ identity, caller, params }: EventsCall): readonly unknown[] => [
  identity.keyId,
  identity.sessionId,
  identity.userId,
  identity.wanted,
  caller.organizationId,
  params.id,
]

/**
 * Returns the number of the last event that the client has got. Returns 0 if the header is missing or not a number. The
 * client then gets every event, so nothing is lost.
 */
function lastEventId(header: string | string[] | undefined): number {
  return typeof header === 'string' && /^\d{1,9}$/.test(header) ? Number(header) : 0
}
