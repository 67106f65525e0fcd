import { EventSourceParserStream } from 'eventsource-parser/stream'
import { patience } from '../stack/until.ts'
import type { Api } from './client.ts'

export interface SeenEvent {
  readonly id: number
  readonly type: string
}

/**
 * Reads the run's event stream after event `after`. Disconnects at the first event of type `until`, or at the end of
 * the stream.
 */
export async function readEvents(
  api: Api,
  runId: string,
  options: { after?: number; until?: string },
): Promise<SeenEvent[]> {
  const { base_url: base, users } = api.bootstrap
  const leaving = new AbortController()
  const response = await fetch(`${base}/api/v1/runs/${runId}/events`, {
    headers: {
      authorization: `Bearer ${users[api.person].api_key}`,
      ...(options.after === undefined ? {} : { 'last-event-id': String(options.after) }),
    },
    signal: AbortSignal.any([leaving.signal, AbortSignal.timeout(patience)]),
  })
  if (response.body === null || response.status !== 200) throw new Error(`no events: ${response.status}`)
  const seen: SeenEvent[] = []
  const events = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
  for await (const event of events) {
    seen.push({ id: Number(event.id), type: event.event ?? '' })
    if (event.event === options.until) break
  }
  leaving.abort()
  return seen
}
