import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy'
import type { SentFile } from '../governance/files/files.ts'
import type { Entry, Shares } from '../governance/limits/shares.ts'
import { labelSlug, textField } from '../policy/text.ts'
import { mostLabels } from '../policy/types.ts'
import { maxDocumentSize } from '../shared/documents/document.ts'
import { nextTurn } from '../shared/time-slices.ts'
import { arrived, Collected } from './body-bytes.ts'
import { ApiError, validate } from './errors.ts'

/* Forms with one file: `POST /files`, and forms of the console. */

const fileFields = z.strictObject({ name: textField(200), labels: z.array(labelSlug).max(mostLabels) })

/** Bytes of the other fields and the boundary lines. */
const mostAround = 256 * 1024
const mostFormBytes = maxDocumentSize + mostAround
/**
 * Enough for 25 MiB at 2 Mbit/s. A slow upload holds memory that others may wait for.
 * They wait longer than this, so it cannot make them fail.
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

/** A page has a field for each input. */
const pageLimits = { ...limits, fields: 1_000, parts: 1_001, fieldSize: mostAround }

/** A file that is being read is in memory so many times: the arrived pieces, the whole file, and its text. */
const copies = 4

/** A permit for the memory of the form, which the caller releases. Throws 413 if the announced body is too long. */
export const enterUpload = (
  { upload }: Shares,
  organizationId: string,
  request: IncomingMessage,
  signal: AbortSignal,
): Promise<{ release(): void }> =>
  upload.enter(organizationId, { amount: announcedSize(request) * copies, signal })

function announcedSize({ headers }: IncomingMessage): number {
  const length = headers['content-length']
  const bytes = length === undefined ? mostFormBytes : Number(length)
  if (bytes > mostFormBytes) throw tooLarge()
  return Math.min(bytes, maxDocumentSize)
}

type Permit = Pick<Entry, 'admit' | 'works'>

/**
 * Reads a form with one file. Awaits `admit` after all bytes have arrived, so that a slow upload holds no permit of its
 * organization's share (fair-share.ts), and calls `works` before each slice. Throws:
 * - 415 for another content type
 * - 413 for a file of more than 25 MiB, and for too many or too long fields
 * - 400 for an incomplete or slow form, and for a second file
 * - 422 for a missing file and for wrong fields
 */
export async function readFileUpload(
  request: IncomingMessage,
  permit: Permit,
  mostMilliseconds = mostArrivalSeconds * 1_000,
): Promise<SentFile> {
  const { file, fields } = await readForm(request, permit, ['labels'], mostMilliseconds)
  if (file === null) throw noFile()
  return sentFile(
    file,
    fields.map(([, text]) => text),
  )
}

export type FormFile = Omit<SentFile, 'labels'>

/** Each of `labels` can have several, with commas between them. Throws 422. */
export function sentFile({ name, ...rest }: FormFile, labels: readonly string[]): SentFile {
  const separate = labels.flatMap((text) => text.split(',')).map((text) => text.trim())
  const fields = { name, labels: separate.filter((label) => label !== '') }
  return { ...rest, ...validate(fileFields, fields, 'the form') }
}

/** What is stored with an `Idempotency-Key`, in place of the bytes. */
export const hashedFile = ({ name, mediaType, sha256, labels }: SentFile) => ({
  name,
  mediaType,
  sha256,
  labels,
})

/** A form of a page, with any fields. The file is null if the person has chosen none. Throws as `readFileUpload`. */
export async function readPageForm(request: IncomingMessage, permit: Permit): Promise<Form> {
  const { file, fields } = await readForm(request, permit, null)
  // The parser's types do not mention that a name can be missing.
  return { file: !file?.name && file?.bytes.length === 0 ? null : file, fields }
}

/** `names`: the fields beside `file`; null for any. */
async function readForm(
  request: IncomingMessage,
  permit: Permit,
  names: readonly string[] | null,
  mostMilliseconds = mostArrivalSeconds * 1_000,
): Promise<Form> {
  const parser = parserOf(request, names === null ? pageLimits : limits)
  const late = (): ApiError =>
    new ApiError('bad_request', `the file did not arrive within ${mostMilliseconds / 1_000} s: send less`)
  const body = await arrived(request, (worked) => permit.admit('large', worked), {
    bytes: mostFormBytes,
    tooLarge,
    arrival: { milliseconds: mostMilliseconds, late },
  })
  const form = await parse(parser, body.blocks(), permit, names)
  body.free()
  return form
}

interface Form {
  file: FormFile | null
  readonly fields: [string, string][]
}

/** Bytes that are parsed at once, before this thread handles other events. */
const sliceBytes = 256 * 1024

function parse(
  parser: BusboyInstance,
  blocks: readonly Buffer[],
  permit: Pick<Entry, 'works'>,
  names: readonly string[] | null,
): Promise<Form> {
  return new Promise<Form>((resolve, reject) => {
    const form: Form = { file: null, fields: [] }
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
      else if (field === 'file') fail(namelessFile())
      else if (field !== undefined && (names === null || names.includes(field)))
        form.fields.push([field, value])
      else fail(unknownField(field))
    })
    parser.once('filesLimit', () => fail(new ApiError('bad_request', 'send one file in each request')))
    for (const limit of ['fieldsLimit', 'partsLimit'] as const)
      parser.once(limit, () => fail(new ApiError('too_large', 'the form has too many fields')))
    parser.once('finish', () => resolve(form))
    parser.once('error', () => fail(isCut()))
    // An error of the parser itself must end only this request.
    feed(parser, blocks, permit).catch(() => fail(isCut()))
  })
}

async function feed(
  parser: BusboyInstance,
  blocks: readonly Buffer[],
  permit: Pick<Entry, 'works'>,
): Promise<void> {
  for (const block of blocks)
    for (let from = 0; from < block.length; from += sliceBytes) {
      await nextTurn()
      if (parser.destroyed) return
      permit.works()
      const hasRoom = parser.write(block.subarray(from, from + sliceBytes))
      if (!hasRoom) await drained(parser)
    }
  if (!parser.destroyed) parser.end()
}

const drained = (parser: BusboyInstance): Promise<void> =>
  new Promise((resolve) => {
    const events = ['drain', 'close', 'error']
    const go = (): void => {
      for (const event of events) parser.off(event, go)
      resolve()
    }
    for (const event of events) parser.on(event, go)
  })

export const noFile = (): ApiError =>
  new ApiError('validation_error', 'the form has no file: send it as the field `file`', [
    { path: 'file', message: 'is missing' },
  ])

const isCut = (): ApiError => new ApiError('bad_request', 'the form is cut: send it again')

function parserOf({ headers }: IncomingMessage, own: typeof limits): BusboyInstance {
  const { 'content-type': type = '', 'content-encoding': encoding } = headers
  if (!/^multipart\/form-data\s*;/i.test(type) || (encoding !== undefined && encoding !== 'identity'))
    throw new ApiError(
      'unsupported_media_type',
      'send the file as the field `file` of `content-type: multipart/form-data`, such as `curl -F file=@NAME` does',
    )
  try {
    return new Busboy({ headers: { ...headers, 'content-type': type }, limits: own })
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

/** The parser reads a part without a file name as a text field. */
const namelessFile = (): ApiError =>
  new ApiError(
    'validation_error',
    'the field `file` has no file name: send one, as `curl -F file=@NAME` does',
    [{ path: 'file', message: 'has no file name' }],
  )

/** The parser's types do not mention that a part can have no name. */
function unknownField(name: string | undefined): ApiError {
  const message = `the form has only the fields \`file\` and \`labels\``
  return new ApiError('validation_error', message, [
    { path: (name ?? '').slice(0, 100), message: 'is not a field of the form' },
  ])
}
