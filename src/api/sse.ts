import type { Response } from 'express'
import { roomOrEnd } from './send.ts'

export interface StreamOptions {
  readonly pingMilliseconds: number
  /**
   * Is called before each text is written to the stream, and at every ping. If the result is false, the stream ends.
   */
  readonly stillAllowed: () => Promise<boolean>
  /** Is aborted when the client has disconnected or the server drains. */
  readonly signal: AbortSignal
}

export interface Stream {
  /**
   * Is aborted when nothing more may be written. This is so if the client has disconnected, the server drains, or
   * `stillAllowed` has returned false.
   */
  readonly signal: AbortSignal
  /**
   * Writes the text if `stillAllowed` returns true. If `stillAllowed` throws, this function throws the same error.
   * Resolves when the client has room for more.
   */
  write(text: string): Promise<void>
  end(): void
}

/** Sets the status and headers of an answer with Server-Sent Events. They tell proxies not to buffer the answer. */
export function setStreamHeaders(response: Response): void {
  response.status(200)
  response.setHeader('Content-Type', 'text/event-stream; charset=utf-8')
  response.setHeader('Cache-Control', 'no-cache, no-transform')
  response.setHeader('X-Accel-Buffering', 'no')
}

/** Begins an answer with Server-Sent Events. Regular comments keep the connection open. */
export function openStream(response: Response, options: StreamOptions): Stream {
  setStreamHeaders(response)
  response.flushHeaders()
  const barred = new AbortController()
  const signal = AbortSignal.any([options.signal, barred.signal])
  const ping = setInterval(() => {
    response.write(': ping\n\n')
    // If this check throws, the stream does not end. This is safe, because `write` makes the same check before each
    // event.
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

/** Returns the text of one event. JSON text has no raw line breaks, so the data fits into one `data` line. */
export function eventText(id: number, type: string, data: unknown): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`
}
