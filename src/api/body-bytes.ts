import type { IncomingMessage } from 'node:http'
import { freeBytes } from '../shared/free-bytes.ts'
import { ApiError } from './errors.ts'

/**
 * A body of less than 5 MB may arrive in at most this many pieces. Without a limit, Node's HTTP parser takes three
 * seconds for one megabyte that comes in pieces of one byte (docs/decisions/0066).
 */
export const mostPieces = 10_000
/** A larger body may have one piece for every 512 bytes. */
export const bytesForPiece = 512
/**
 * When this many small pieces have arrived in a row, they are joined to one buffer. So the memory for a body depends on
 * the number of bytes, and not on the number of pieces.
 */
const joinedPieces = 256
/** The size of the largest small piece, in bytes. Larger pieces are kept apart, because copying them takes too long. */
const smallPiece = 4 * 1024
/** Reading a body takes about 0.01 ms for each piece, and about 2 ms for each MiB. */
const [pieceMilliseconds, mebibyteMilliseconds] = [0.01, 2]

/** Counts the pieces of one body. */
export class PieceCount {
  readonly #most: number
  #pieces = 0
  #bytes = 0

  constructor(most = mostPieces) {
    this.#most = most
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Estimates how many milliseconds the thread has worked to read the pieces, mostly in Node's HTTP parser. */
  get milliseconds(): number {
    return this.#pieces * pieceMilliseconds + (this.#bytes / 1024 ** 2) * mebibyteMilliseconds
  }

  /** Counts a piece. Returns true if the body has now arrived in too many pieces. */
  add({ length }: Uint8Array): boolean {
    this.#pieces += 1
    this.#bytes += length
    return this.#pieces > this.#most && this.#pieces > this.#bytes / bytesForPiece
  }
}

/** Collects the pieces of one text or file. */
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

  /** Gives the memory of the bytes back. Do not use the bytes afterwards. */
  free(): void {
    for (const block of this.#blocks.splice(0)) freeBytes(block)
    this.#small = []
  }
}

export interface BodyLimits {
  readonly bytes: number
  readonly tooLarge: () => ApiError
  /** If the body has not arrived completely after this many milliseconds, reading ends with the error of `late`. */
  readonly arrival?: { readonly milliseconds: number; readonly late: () => ApiError }
}

/**
 * Reads the bytes of a body. Throws `too_large` for too many bytes or pieces, and `bad_request` if the connection ends
 * before the body is complete. Listens to `data` events, because a loop over the stream would join pieces before they
 * are counted.
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
    // From here on the rest of the body is read and discarded.
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
    // A request can wait minutes for its answer. If the listeners stayed until then, they would keep the bytes in
    // memory.
    request.off('data', take).off('end', end).off('error', cutOff).off('close', cutOff)
  }
}

/**
 * Reads the bytes of a body. Then awaits `admit` with two numbers. `worked` estimates the thread's work for the body in
 * milliseconds, and `bytes` is the size of the body. If the body is refused, `admit` is not called, and the error has
 * the estimate as `worked`.
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
