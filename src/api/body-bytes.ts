import type { IncomingMessage, ServerResponse } from 'node:http'
import { freeBytes } from '../shared/free-bytes.ts'
import { ApiError } from './errors.ts'

/** For a body below 5 MB. Node takes three seconds for one megabyte in pieces of one byte (docs/decisions/0066). */
export const mostPieces = 10_000
/** A larger body may have one piece for every 512 bytes. */
export const bytesForPiece = 512
/** So many small pieces in a row are joined, so that memory depends on the number of bytes. */
const joinedPieces = 256
/** Bytes. Copying larger pieces takes too long. */
const smallPiece = 4 * 1024
/** For each piece, and for each MiB. */
const [pieceMilliseconds, mebibyteMilliseconds] = [0.01, 2]

class PieceCount {
  readonly #most: number
  #pieces = 0
  #bytes = 0

  constructor(most = mostPieces) {
    this.#most = most
  }

  get bytes(): number {
    return this.#bytes
  }

  /** An estimate of the thread's work, mostly in Node's HTTP parser. */
  get milliseconds(): number {
    return this.#pieces * pieceMilliseconds + (this.#bytes / 1024 ** 2) * mebibyteMilliseconds
  }

  /** True if the body has now arrived in too many pieces. */
  add({ length }: Uint8Array): boolean {
    this.#pieces += 1
    this.#bytes += length
    return this.#pieces > this.#most && this.#pieces > this.#bytes / bytesForPiece
  }
}

export class Collected {
  #blocks: Buffer[] = []
  #small: Buffer[] = []

  add(piece: Buffer): void {
    if (piece.length > smallPiece) this.#blocks.push(...this.#small.splice(0), piece)
    else if (this.#small.push(piece) >= joinedPieces) this.#blocks.push(Buffer.concat(this.#small.splice(0)))
  }

  blocks(): readonly Buffer[] {
    return [...this.#blocks, ...this.#small]
  }

  whole(): Buffer {
    return Buffer.concat(this.blocks())
  }

  /** Do not use the bytes afterwards. */
  free(): void {
    for (const block of this.#blocks.splice(0)) freeBytes(block)
    this.#small = []
  }
}

interface BodyLimits {
  readonly bytes: number
  readonly tooLarge: () => ApiError
  /** Reading ends with `late` if the body has not arrived after so many milliseconds. */
  readonly arrival?: { readonly milliseconds: number; readonly late: () => ApiError }
}

/**
 * Throws `too_large` for too many bytes or pieces, and `bad_request` if the connection ends early. Listens to `data`
 * events, because a loop over the stream would join pieces before they are counted.
 */
export async function readBytes(
  request: IncomingMessage,
  limits: BodyLimits,
  pieces = new PieceCount(),
): Promise<Collected> {
  if (request.destroyed && !request.readableEnded) throw endedEarly()
  const collected = new Collected()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const refuse = (error: ApiError): void => {
    reject(error)
    // The rest of the body is read and discarded.
    request.off('data', take).resume()
  }
  const take = (piece: Buffer): void => {
    const areTooMany = pieces.add(piece)
    if (pieces.bytes > limits.bytes) refuse(limits.tooLarge())
    else if (areTooMany) refuse(tooManyPieces())
    else collected.add(piece)
  }
  const end = (): void => resolve()
  const cutOff = (): void => reject(endedEarly())
  request.on('data', take).on('end', end).on('error', cutOff).on('close', cutOff)
  const { arrival } = limits
  const timer =
    arrival === undefined ? undefined : setTimeout(() => refuse(arrival.late()), arrival.milliseconds)
  try {
    await promise
    return collected
  } finally {
    clearTimeout(timer)
    // A request can wait minutes for its answer, and the listeners would keep the bytes in memory.
    request.off('data', take).off('end', end).off('error', cutOff).off('close', cutOff)
  }
}

/**
 * Reads a body, and awaits `admit` with the thread's work for it in milliseconds, and its size. The error of a refused
 * body has the work as `worked`.
 */
export async function arrived(
  request: IncomingMessage,
  admit: (worked: number, bytes: number) => Promise<void>,
  limits: BodyLimits,
): Promise<Collected> {
  const pieces = new PieceCount()
  const body = await readBytes(request, limits, pieces).catch((error: unknown) => {
    if (error instanceof ApiError) error.worked = pieces.milliseconds
    throw error
  })
  await admit(pieces.milliseconds, pieces.bytes)
  return body
}

const endedEarly = (): ApiError =>
  new ApiError('bad_request', 'the body ended before it was complete: send it again')

const tooManyPieces = (): ApiError =>
  new ApiError('too_large', `the body comes in more than ${mostPieces} pieces: send larger ones`)

/** Bytes of a refused body that are read and dropped. */
const mostDropped = 64 * 1024 ** 2
/** Pieces, if it comes in small ones. */
const mostDroppedPieces = 1_000
/** Milliseconds. */
const longestDrop = 3_000

/**
 * Reads and drops the rest of a body that was too large, within these limits. If the connection closed while the client
 * still sends, many clients would report that instead of the answer.
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
 * Closes the connection if the unread rest of an answered request comes in too many pieces. Node's own listener for
 * `finish` would read it without a limit, so this one must run first.
 */
export function limitUnread(request: IncomingMessage, response: ServerResponse): void {
  response.prependOnceListener('finish', () => {
    if (request.complete || request.destroyed) return
    const pieces = new PieceCount()
    request.on('data', (piece: Buffer) => {
      if (pieces.add(piece)) request.destroy()
    })
    request.resume()
    // Tells Node that somebody reads the body. Otherwise it would drop pieces before the listener gets them.
    request.read(0)
  })
}
