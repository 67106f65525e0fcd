import type { Response } from 'express'
import { roomOrEnd } from './send.ts'

export interface StreamOptions {
  readonly pingMilliseconds: number
  /** Called before each text is written to the stream, and with every ping. If the result is false, the stream ends. */
  readonly stillAllowed: () => Promise<boolean>
  /** Aborted when the client has disconnected or the server drains. */
  readonly signal: AbortSignal
}

export interface Stream {
  /**
   * Aborted when nothing more may be written: the client has disconnected, the server drains, or `stillAllowed`
   * returned false.
   */
  readonly signal: AbortSignal
  /**
   * Writes the text if `stillAllowed` returns true. If `stillAllowed` throws, this function throws the same error.
   * Resolves when the client has room for more.
   */
  write(text: string): Promise<void>
  end(): void
}

/**
 * Begins a Server-Sent Events answer. Its headers tell proxies not to buffer the answer, and regular comments keep it
 * open.
 */
export function openStream(response: Response, options: StreamOptions): Stream {
  response.status(200)
  response.setHeader('Content-Type', 'text/event-stream; charset=utf-8')
  response.setHeader('Cache-Control', 'no-cache, no-transform')
  response.setHeader('X-Accel-Buffering', 'no')
  response.flushHeaders()
  const barred = new AbortController()
  const signal = AbortSignal.any([options.signal, barred.signal])
  const ping = setInterval(() => {
    response.write(': ping\n\n')
    // An error of this check does not end the stream. No event can be sent meanwhile, because `write` makes the same
    // check first.
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

/** One event. JSON text has no raw line breaks, so one `data` line holds it. */
export function eventText(id: number, type: string, data: unknown): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`
}
