import type { Response } from 'express'
import { JsonParts } from '../governance/json-parts.ts'
import type { Answer } from './route.ts'

/** An answer as it is sent: `text`, where it is there, stands for the body. */
export interface SentAnswer extends Answer {
  readonly text?: string | null
}

/** Sends JSON text as it stands, so that a replayed answer is the first one byte for byte. */
export function sendAnswer(response: Response, answer: SentAnswer): void {
  const text = answer.text === undefined ? jsonText(answer.body) : answer.text
  response.status(answer.status)
  if (text === null) {
    response.end()
    return
  }
  response.setHeader('Content-Type', 'application/json; charset=utf-8')
  response.end(text)
}

export function jsonText(body: unknown): string | null {
  return body === undefined ? null : JSON.stringify(body)
}

export interface PartsOptions {
  /** Aborted when the client has gone or the server drains. */
  readonly signal: AbortSignal
  /** Whether the caller may still read; asked again after a client has let the answer wait. */
  readonly stillAllowed: () => Promise<boolean>
}

/** Characters that are written at once; a smaller answer goes out whole, with its length. */
const atOnce = 64 * 1024
/** A client that has let us wait for so long is asked about again. */
const patienceMilliseconds = 1_000

/**
 * Sends a body that comes in parts, no faster than the client reads it: meanwhile no more than one part is in memory. A
 * failure, a client that has gone and a caller whose rights have ended cut the answer off, so that nobody takes it for whole.
 */
export async function sendParts(
  response: Response,
  status: number,
  parts: AsyncIterable<string>,
  options: PartsOptions,
): Promise<void> {
  response.status(status)
  response.setHeader('Content-Type', 'application/json; charset=utf-8')
  if (response.req.method === 'HEAD') {
    response.end()
    return
  }
  let held = ''
  for await (const part of parts) {
    held += part
    if (held.length < atOnce) continue
    if (!(await write(response, held, options))) {
      response.destroy()
      return
    }
    held = ''
  }
  response.end(held)
}

/** Whether the answer may go on once this has been written and the client has room for more. */
async function write(response: Response, text: string, options: PartsOptions): Promise<boolean> {
  const { signal, stillAllowed } = options
  if (signal.aborted) return false
  if (response.write(text)) return true
  const began = performance.now()
  await roomOrEnd(response, signal)
  if (signal.aborted) return false
  return performance.now() - began < patienceMilliseconds || stillAllowed()
}

/** Resolves when the client has room for more, or `signal` says that nothing more should be written. */
export function roomOrEnd(response: Response, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const go = (): void => {
      response.off('drain', go)
      signal.removeEventListener('abort', go)
      resolve()
    }
    response.once('drain', go)
    signal.addEventListener('abort', go)
    if (signal.aborted) go()
  })
}

/** What of a body is worth keeping: its text if it has at most `most` characters, else null and all of it, to be sent. */
export async function textWithin(
  parts: JsonParts,
  most: number,
): Promise<{ readonly text: string } | { readonly parts: JsonParts }> {
  const rest = parts[Symbol.asyncIterator]()
  let text = ''
  for (;;) {
    const next = await rest.next()
    if (next.done === true) return { text }
    text += next.value
    if (text.length > most) break
  }
  return {
    parts: new JsonParts(async function* () {
      yield text
      for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value
    }),
  }
}
