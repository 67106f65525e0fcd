import type { Response } from 'express'
import { JsonParts } from '../shared/json-parts.ts'
import type { Answer } from './route.ts'

/** `text` is sent in place of `body`; null is no body. */
export interface SentAnswer extends Answer {
  readonly text?: string | null
}

const jsonType = 'application/json; charset=utf-8'

/** `text` is sent unchanged, so that a replayed answer equals the first one byte for byte. */
export function sendAnswer(response: Response, answer: SentAnswer): void {
  const text = answer.text === undefined ? jsonText(answer.body) : answer.text
  response.status(answer.status)
  if (text === null) {
    response.end()
    return
  }
  response.setHeader('Content-Type', jsonType)
  response.end(text)
}

export function jsonText(body: unknown): string | null {
  return body === undefined ? null : JSON.stringify(body)
}

export interface PartsOptions {
  readonly contentType?: string
  /** Aborts when the client has disconnected or the server drains. */
  readonly signal: AbortSignal
  readonly stillAllowed: () => Promise<boolean>
}

/** Characters that are written together. A shorter body is sent at once, with a `Content-Length`. */
const atOnce = 64 * 1024
/** If one write takes longer, the caller's rights are checked again. */
const patienceMilliseconds = 1_000

/**
 * Sends as fast as the client reads, with only the parts of one write in memory. The connection is cut after an error,
 * a lost right, or when the server drains, so that no client takes a partial answer for a complete one.
 */
export async function sendParts(
  response: Response,
  status: number,
  parts: AsyncIterable<string>,
  options: PartsOptions,
): Promise<void> {
  response.status(status)
  response.setHeader('Content-Type', options.contentType ?? jsonType)
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

async function write(response: Response, text: string, options: PartsOptions): Promise<boolean> {
  const { signal, stillAllowed } = options
  if (signal.aborted) return false
  if (response.write(text)) return true
  const began = performance.now()
  await roomOrEnd(response, signal)
  if (signal.aborted) return false
  return performance.now() - began < patienceMilliseconds || stillAllowed()
}

/** When the client has room for more, or `signal` aborts. */
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

/** The text of a body of at most `most` characters, or else the parts to send. */
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
