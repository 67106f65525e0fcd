import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy'
import type { SentFile } from '../governance/files/files.ts'
import type { Entry } from '../governance/limits/request-shares.ts'
import { maxDocumentSize } from '../shared/documents/document.ts'
import { nextTurn } from '../shared/time-slices.ts'
import { arrived, Collected } from './body-bytes.ts'
import { ApiError } from './errors.ts'
import { fileFields } from './schemas/files.ts'
import { validate } from './validation.ts'

/**
 * A form may have at most this many bytes besides its file. These bytes are the other fields and the boundary lines.
 */
const mostAround = 256 * 1024
export const mostFormBytes = maxDocumentSize + mostAround
/**
 * A form must arrive within this time. The time is enough for 25 MiB at 2 Mbit/s. A slow upload holds memory, and other
 * uploads may wait for this memory (governance/files/uploads.ts). The other uploads wait longer than this time, so one
 * slow upload cannot make them fail.
 */
export const mostArrivalSeconds = 120

const limits = {
  files: 1,
  fileSize: maxDocumentSize,
  fields: 50,
  fieldNameSize: 100,
  fieldSize: 8 * 1024,
  parts: 51,
  headerPairs: 50,
  headerSize: 8 * 1024,
}

/**
 * Returns the maximum memory that the file of a request can need, in bytes. Throws 413 if the announced body is longer
 * than a form may be.
 */
export function announcedSize({ headers }: IncomingMessage): number {
  const length = headers['content-length']
  const bytes = length === undefined ? mostFormBytes : Number(length)
  if (bytes > mostFormBytes) throw tooLarge()
  return Math.min(bytes, maxDocumentSize)
}

/**
 * Reads a `multipart/form-data` form with one file. Awaits `admit` only after all bytes have arrived. So an upload over
 * a slow connection takes no place in its organization's share (request-shares.ts). Calls `works` before the parser
 * reads each slice, so that the thread's work counts for this request. Throws:
 * - 415 for another content type;
 * - 413 for a file of more than 25 MiB, and for too many or too long fields;
 * - 400 for an incomplete or slow form, and for a second file;
 * - 422 for a missing file and for wrong fields.
 */
export async function readFileUpload(
  request: IncomingMessage,
  place: Pick<Entry, 'admit' | 'works'>,
  mostMilliseconds = mostArrivalSeconds * 1_000,
): Promise<SentFile> {
  const parser = parserOf(request)
  const late = (): ApiError =>
    new ApiError('bad_request', `the file did not arrive within ${mostMilliseconds / 1_000} s: send less`)
  const body = await arrived(request, (worked) => place.admit('large', worked), {
    bytes: mostFormBytes,
    tooLarge,
    arrival: { milliseconds: mostMilliseconds, late },
  })
  const form = await parse(parser, body.blocks(), place)
  body.free()
  if (form.file === null)
    throw new ApiError('validation_error', 'the form has no file: send it as the field `file`', [
      { path: 'file', message: 'is missing' },
    ])
  const { name, mediaType, bytes, sha256 } = form.file
  const labels = form.labels.flatMap((text) => text.split(',')).map((text) => text.trim())
  const fields = { name, labels: labels.filter((label) => label !== '') }
  return { mediaType, bytes, sha256, ...validate(fileFields, fields, 'the form') }
}

interface Form {
  file: Omit<SentFile, 'labels'> | null
  readonly labels: string[]
}

/** The parser reads at most this many bytes at once. Then this thread handles other events. */
const sliceBytes = 256 * 1024

function parse(
  parser: BusboyInstance,
  blocks: readonly Buffer[],
  place: Pick<Entry, 'works'>,
): Promise<Form> {
  return new Promise<Form>((resolve, reject) => {
    const form: Form = { file: null, labels: [] }
    const fail = (error: ApiError): void => {
      reject(error)
      parser.destroy()
    }
    parser.on('file', (field, stream, name, _encoding, mediaType) => {
      if (field === 'file') collect(stream, name, mediaType, form, fail)
      else fail(unknownField(field))
    })
    parser.on('field', (field, value, isNameCut, isCut) => {
      if (isNameCut || isCut) fail(new ApiError('too_large', 'a field of the form is too long'))
      else if (field === 'labels') form.labels.push(value)
      else if (field === 'file') fail(namelessFile())
      else fail(unknownField(field))
    })
    parser.once('filesLimit', () => fail(new ApiError('bad_request', 'send one file in each request')))
    for (const limit of ['fieldsLimit', 'partsLimit'] as const)
      parser.once(limit, () => fail(new ApiError('too_large', 'the form has too many fields')))
    parser.once('finish', () => resolve(form))
    parser.once('error', () => fail(isCut()))
    // An error of the parser itself must end only this request, and not the process.
    feed(parser, blocks, place).catch(() => fail(isCut()))
  })
}

async function feed(
  parser: BusboyInstance,
  blocks: readonly Buffer[],
  place: Pick<Entry, 'works'>,
): Promise<void> {
  for (const block of blocks)
    for (let from = 0; from < block.length; from += sliceBytes) {
      await nextTurn()
      if (parser.destroyed) return
      place.works()
      const hasRoom = parser.write(block.subarray(from, from + sliceBytes))
      if (!hasRoom) await drained(parser)
    }
  if (!parser.destroyed) parser.end()
}

/** Resolves when the parser can take more bytes, or has ended. */
const drained = (parser: BusboyInstance): Promise<void> =>
  new Promise((resolve) => {
    const events = ['drain', 'close', 'error']
    const go = (): void => {
      for (const event of events) parser.off(event, go)
      resolve()
    }
    for (const event of events) parser.on(event, go)
  })

const isCut = (): ApiError => new ApiError('bad_request', 'the form is cut: send it again')

function parserOf({ headers }: IncomingMessage): BusboyInstance {
  const { 'content-type': type = '', 'content-encoding': encoding } = headers
  if (!/^multipart\/form-data\s*;/i.test(type) || (encoding !== undefined && encoding !== 'identity'))
    throw new ApiError(
      'unsupported_media_type',
      'send the file as the field `file` of `content-type: multipart/form-data`, such as `curl -F file=@NAME` does',
    )
  try {
    return new Busboy({ headers: { ...headers, 'content-type': type }, limits })
  } catch {
    throw new ApiError('bad_request', 'the `content-type` of the form names no `boundary`')
  }
}

function collect(
  stream: BusboyFileStream,
  name: string,
  mediaType: string,
  form: Form,
  fail: (error: ApiError) => void,
): void {
  const pieces = new Collected()
  const hash = createHash('sha256')
  stream.on('data', (piece: Buffer) => {
    pieces.add(piece)
    hash.update(piece)
  })
  stream.once('limit', () => fail(tooLarge()))
  stream.once('error', () => fail(isCut()))
  stream.once('end', () => {
    form.file = { name, mediaType, bytes: pieces.whole(), sha256: hash.digest('hex') }
  })
}

const tooLarge = (): ApiError =>
  new ApiError('too_large', `a file has at most ${maxDocumentSize / 1024 / 1024} MiB: split it`)

/** The parser reads a part without a file name as a text field, and not as a file. */
const namelessFile = (): ApiError =>
  new ApiError(
    'validation_error',
    'the field `file` has no file name: send one, as `curl -F file=@NAME` does',
    [{ path: 'file', message: 'has no file name' }],
  )

/** @param name is undefined if a part of the form has no name. The parser's types do not mention this case. */
function unknownField(name: string | undefined): ApiError {
  const message = `the form has only the fields \`file\` and \`labels\``
  return new ApiError('validation_error', message, [
    { path: (name ?? '').slice(0, 100), message: 'is not a field of the form' },
  ])
}
