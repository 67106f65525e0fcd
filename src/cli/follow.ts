import { setTimeout as delay } from 'node:timers/promises'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { AnswerOf } from '../api/routes/index.ts'
import { runEnded } from '../contract/status.ts'
import { Failure, Refusal } from './failure.ts'
import type { Api } from './http.ts'

export type RunView = AnswerOf<'GET /runs/{id}'>

/** An event of a run (docs/reference/effects.md). Other types have other fields. */
export interface RunEvent {
  readonly seq: number
  readonly type: string
  readonly at: string
  readonly step_id?: string | null
  readonly tool?: string | null
  readonly item_index?: number | null
  readonly verdict?: string
  readonly rule_name?: string | null
  readonly approval_id?: string | null
  /** The earlier run that has made the call. */
  readonly reused_from?: string
  readonly reason?: string
  readonly error?: { readonly code: string; readonly message: string } | null
}

const mostEventCharacters = 4 * 1024 * 1024
const [firstWait, longestWait] = [500, 10_000]

/** Gives each event once and in order, also over lost connections, until the run has ended. Returns the ended run. */
export async function followRun(
  api: Api,
  runId: string,
  onEvent: (event: RunEvent) => void,
  signal: AbortSignal,
): Promise<RunView> {
  let last = 0
  let wait = firstWait
  for (;;) {
    const before = last
    try {
      for await (const event of eventsOf(api, runId, last, signal)) {
        last = event.seq
        onEvent(event)
      }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof Refusal && error.status < 500 && error.status !== 429) throw error
      // A lost connection: the next attempt goes on behind the last event.
      if (!(error instanceof Failure) && !isOfNetwork(error)) throw error
    }
    const run = await api.call('GET /runs/{id}', { params: { id: runId } })
    // The stream of an ended run ends after its last event.
    if (runEnded(run.status) && last === before) return run
    wait = last === before ? Math.min(wait * 2, longestWait) : firstWait
    if (!runEnded(run.status)) await delay(wait, undefined, { signal })
  }
}

const isOfNetwork = (error: unknown): boolean =>
  error instanceof TypeError || (error as Error).name === 'AbortError'

async function* eventsOf(
  api: Api,
  runId: string,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<RunEvent> {
  const bytes = await api.stream(`/runs/${encodeURIComponent(runId)}/events?after=${after}`, signal)
  const events = bytes
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .pipeThrough(new EventSourceParserStream({ maxBufferSize: mostEventCharacters }))
  for await (const { data } of events) {
    const event = JSON.parse(data) as RunEvent
    if (event.seq > after) yield event
  }
}
