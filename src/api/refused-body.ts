import type { IncomingMessage, ServerResponse } from 'node:http'
import { PieceCount } from './body-bytes.ts'

/** At most this many bytes of a refused body are read and dropped. */
const mostDropped = 64 * 1024 ** 2
/** If a refused body comes in small pieces, at most this many pieces are read and dropped. */
const mostDroppedPieces = 1_000
/** A refused body is read and dropped for at most this many milliseconds. */
const longestDrop = 3_000

/**
 * Reads and drops the rest of a body that was refused as too large. Otherwise the connection would close while the
 * client still sends. Many clients would then report a broken connection instead of the answer. If the rest exceeds one
 * of the limits above, the connection closes early.
 */
export function dropBody(request: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    if (request.complete || request.destroyed) {
      resolve()
      return
    }
    const pieces = new PieceCount(mostDroppedPieces)
    const done = (): void => {
      clearTimeout(timer)
      request.off('data', drop)
      // Nothing more is read: the connection closes after the answer.
      request.pause()
      resolve()
    }
    const drop = (piece: Buffer): void => {
      if (pieces.add(piece) || pieces.bytes > mostDropped) done()
    }
    const timer = setTimeout(done, longestDrop)
    request.on('data', drop)
    for (const event of ['end', 'close', 'error']) request.once(event, done)
    request.resume()
  })
}

/**
 * Watches a request that is answered before its body was read completely. Closes the connection if the rest of the body
 * comes in too many pieces. Node's own listener for `finish` would read and drop the rest without a limit. So the
 * listener below must run first.
 */
export function limitUnread(request: IncomingMessage, response: ServerResponse): void {
  response.prependOnceListener('finish', () => {
    if (request.complete || request.destroyed) return
    const pieces = new PieceCount()
    request.on('data', (piece: Buffer) => {
      if (pieces.add(piece)) request.destroy()
    })
    request.resume()
    // This first read tells Node that somebody reads the body. Otherwise Node would drop pieces of the body before the
    // listener above gets them.
    request.read(0)
  })
}
