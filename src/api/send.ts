import type { Response } from 'express'
import { JsonParts } from '../shared/json-parts.ts'
import type { Answer } from './route.ts'

/**
 * An answer to send. If `text` is present, the service sends `text` in place of `body`. If `text` is null, the answer
 * has no body.
 */
export interface SentAnswer extends Answer {
  readonly text?: string | null
}

const jsonType = 'application/json; charset=utf-8'

/** Sends the answer. `text` is sent unchanged, so that a replayed answer equals the first one byte for byte. */
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
  /** The default is JSON. */
  readonly contentType?: string
  /** Is aborted when the client has disconnected or the server drains. */
  readonly signal: AbortSignal
  /**
   * Returns whether the caller may still read. `sendParts` calls this function after a slow client has delayed the
   * answer.
   */
  readonly stillAllowed: () => Promise<boolean>
}

/**
 * Parts are collected until they have this many characters, and are then written together. A shorter body is sent at
 * once, with a `Content-Length`.
 */
const atOnce = 64 * 1024
/** If one write takes longer than this, the caller's rights are checked again. */
const patienceMilliseconds = 1_000

/**
 * Sends a body in parts, as fast as the client reads it. Only the parts of one write are in memory. The connection is
 * cut if an error occurs, if the server drains, or if the caller loses the rights. So the client never takes a partial
 * answer for a complete one.
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

/** Writes a part and waits until the client has room for more. Returns false if the answer must end. */
async function write(response: Response, text: string, options: PartsOptions): Promise<boolean> {
  const { signal, stillAllowed } = options
  if (signal.aborted) return false
  if (response.write(text)) return true
  const began = performance.now()
  await roomOrEnd(response, signal)
  if (signal.aborted) return false
  return performance.now() - began < patienceMilliseconds || stillAllowed()
}

/** Resolves when the client has room for more or `signal` aborts. */
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

/** Returns the text of a body if it has at most `most` characters. For a longer body, returns the parts to send. */
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
