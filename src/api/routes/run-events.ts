import { z } from 'zod'
import type { Response } from 'express'
import { runEnded } from '../../contract/status.ts'
import { wholeNumber } from '../query.ts'
import { tagged, type Call } from '../route.ts'
import { subscribeTo } from '../wait.ts'
import { readRunEvents } from '../../governance/runs/read/events.ts'
import type { Permit } from '../../governance/limits/fair-share.ts'
import { roomOrEnd } from '../send.ts'

const { streamRoute } = tagged('Runs')

export const getRunEvents = streamRoute({
  key: 'GET /runs/{id}/events',
  needs: { scope: 'runs:read', role: 'viewer', subject: 'run' },
  summary: 'The events of a run, live (Server-Sent Events)',
  description:
    'The id of an event is its sequence number in the run. A client that reconnects with `Last-Event-ID` (or `?after=`) misses nothing. The stream ends after the run’s last event, or after `limit` events; `?after=` goes on behind the last of them.',
  contentType: 'text/event-stream',
  query: z.object({ after: wholeNumber(0, 999_999_999).optional(), limit: wholeNumber(1, 200).optional() }),
  responses: { 200: null },
  head: (_call, response) => Promise.resolve(setStreamHeaders(response)),
  async stream(call, request, response) {
    const { context, params, query, services } = call
    const look = createLook(call)
    const stream = openStream(response, {
      pingMilliseconds: services.pingMilliseconds ?? 15_000,
      // Ends the stream after the key was revoked or the person has left.
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
            async (permit) => {
              const read = await readRunEvents(context.db, params.id, last, left)
              permit.works()
              // Each `write` checks the caller's rights, so all events go at once.
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
type Look = <T>(key: readonly unknown[], work: (permit: Pick<Permit, 'works'>) => Promise<T>) => Promise<T>

/**
 * Streams that wake at the same time need the same data, so calls with the same key share one read (shared/joined.ts),
 * which takes a permit of the organization. Otherwise hundreds of streams of one run would block the database
 * for others.
 */
function createLook({ context, identity }: EventsCall): Look {
  const { holderId } = identity.charged
  return (key, work) =>
    context.looks.join(JSON.stringify([holderId, ...key]), (begins) =>
      context.shares.look.hold(holderId, (permit) => {
        begins()
        return work(permit)
      }),
    )
}

/** All that can change the result of `stillAllowed`. */
const callerOf = ({ identity, caller, params }: EventsCall): readonly unknown[] => [
  identity.keyId,
  identity.sessionId,
  identity.userId,
  identity.wanted,
  caller.organizationId,
  params.id,
]

/** 0 if the header is missing or not a number: the client then gets every event. */
function lastEventId(header: string | string[] | undefined): number {
  return typeof header === 'string' && /^\d{1,9}$/.test(header) ? Number(header) : 0
}

export interface StreamOptions {
  readonly pingMilliseconds: number
  /** Before each text, and at every ping. If the result is false, the stream ends. */
  readonly stillAllowed: () => Promise<boolean>
  /** Aborts when the client has disconnected or the server drains. */
  readonly signal: AbortSignal
}

export interface Stream {
  /** Nothing more may be written: the client has gone, the server drains, or `stillAllowed` has returned false. */
  readonly signal: AbortSignal
  /** Throws what `stillAllowed` throws. Resolves when the client has room for more. */
  write(text: string): Promise<void>
  end(): void
}

/** Proxies must not buffer the answer. */
function setStreamHeaders(response: Response): void {
  response.status(200)
  response.setHeader('Content-Type', 'text/event-stream; charset=utf-8')
  response.setHeader('Cache-Control', 'no-cache, no-transform')
  response.setHeader('X-Accel-Buffering', 'no')
}

export function openStream(response: Response, options: StreamOptions): Stream {
  setStreamHeaders(response)
  response.flushHeaders()
  const barred = new AbortController()
  const signal = AbortSignal.any([options.signal, barred.signal])
  const ping = setInterval(() => {
    response.write(': ping\n\n')
    // The stream does not end if this check throws: `write` makes it again before each event.
    barUnlessAllowed().catch(() => undefined)
  }, options.pingMilliseconds)
  const barUnlessAllowed = async (): Promise<void> => {
    if (!(await options.stillAllowed())) barred.abort()
  }
  return {
    signal,
    async write(text) {
      await barUnlessAllowed()
      if (signal.aborted || response.write(text)) return
      await roomOrEnd(response, signal)
    },
    end() {
      clearInterval(ping)
      response.end()
    },
  }
}

/** JSON text has no raw line breaks, so the data fits into one `data` line. */
function eventText(id: number, type: string, data: unknown): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`
}
