import type { IncomingMessage } from 'node:http'

/** The most bytes of a refused body that are read and dropped. */
const mostDropped = 64 * 1024 ** 2
/** In milliseconds: the longest time to read and drop a body. */
const longestDrop = 3_000

/**
 * Reads and drops the rest of a body that is refused as too large. Without this the connection would close while the
 * sender still writes, and many clients would then report a broken connection instead of the answer. A longer body is
 * cut off.
 */
export function dropBody(request: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    if (request.complete || request.destroyed) {
      resolve()
      return
    }
    let left = mostDropped
    const timer = setTimeout(resolve, longestDrop)
    const done = (): void => {
      clearTimeout(timer)
      resolve()
    }
    request.on('data', (piece: Buffer) => {
      left -= piece.length
      if (left < 0) done()
    })
    for (const event of ['end', 'close', 'error']) request.once(event, done)
    request.resume()
  })
}
