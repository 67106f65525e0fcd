import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy'
import { addFile, deleteFile, listFiles, readFile, type SentFile } from '../../governance/files/files.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { organizationQuery } from '../query.ts'
import { created, done, ok, tagged } from '../route.ts'
import { id, labels, listOf, listQuery, time, pageIn, named } from '../schemas/common.ts'
import type { Entry } from '../../governance/limits/shares.ts'
import { maxDocumentSize } from '../../shared/documents/document.ts'
import { nextTurn } from '../../shared/time-slices.ts'
import { arrived, Collected } from '../body-bytes.ts'
import { ApiError, validate } from '../errors.ts'
import { labelSlug, textField } from '../../policy/text.ts'
import { mostLabels } from '../../policy/types.ts'

const fileFields = z.strictObject({ name: textField(200), labels: z.array(labelSlug).max(mostLabels) })

export const fileForm = named('FileForm', {
  file: z
    .string()
    .meta({ type: 'string', format: 'binary', description: 'PDF, DOCX, XLSX, CSV or text; at most 25 MiB' }),
  labels: z
    .array(labelSlug)
    .max(mostLabels)
    .optional()
    .describe('in addition to `internal`; repeat the field, or separate labels by commas'),
})

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

/** A file that is being read is in memory so many times: the arrived pieces, the whole file, and its text. */
const copies = 4

/** The most bytes that the file can have. Throws 413 if the announced body is longer than a form may be. */
function announcedSize({ headers }: IncomingMessage): number {
  const length = headers['content-length']
  const bytes = length === undefined ? mostFormBytes : Number(length)
  if (bytes > mostFormBytes) throw tooLarge()
  return Math.min(bytes, maxDocumentSize)
}

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
  permit: Pick<Entry, 'admit' | 'works'>,
  mostMilliseconds = mostArrivalSeconds * 1_000,
): Promise<SentFile> {
  const parser = parserOf(request)
  const late = (): ApiError =>
    new ApiError('bad_request', `the file did not arrive within ${mostMilliseconds / 1_000} s: send less`)
  const body = await arrived(request, (worked) => permit.admit('large', worked), {
    bytes: mostFormBytes,
    tooLarge,
    arrival: { milliseconds: mostMilliseconds, late },
  })
  const form = await parse(parser, body.blocks(), permit)
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

/** Bytes that are parsed at once, before this thread handles other events. */
const sliceBytes = 256 * 1024

function parse(
  parser: BusboyInstance,
  blocks: readonly Buffer[],
  permit: Pick<Entry, 'works'>,
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

const { route } = tagged('Files')

const file = named('File', {
  id,
  organization_id: id,
  name: z.string(),
  size: z.int().describe('Bytes of the file as it was sent.'),
  media_type: z.string().describe('By the content of the file.'),
  sha256: z.string().describe('Of the file as it was sent.'),
  labels,
  text_bytes: z.int().describe('Bytes of its text.'),
  has_rows: z.boolean().describe('Whether runs can go over its rows.'),
  created_at: time,
  created_by: id,
  last_used_at: time.nullable().describe('When a run last took it.'),
})

export const fileRoutes = [
  route({
    key: 'POST /files',
    needs: { scope: 'files:write', role: 'member', subject: 'own' },
    audit: ['file.created'],
    summary: 'Upload a PDF, DOCX, XLSX, CSV or text file for runs',
    description:
      'Its text is read and stored sealed; the file itself is not kept. The type is judged by the content. A file that cannot be read is 422 with the reason.',
    query: organizationQuery,
    body: fileForm,
    responses: { 201: file },
    async receive({ context, caller, signal }, request, entry) {
      const amount = announcedSize(request) * copies
      const permit = await context.shares.upload.enter(caller.organizationId, { amount, signal })
      try {
        const sent = await readFileUpload(request, entry)
        const { name, mediaType, sha256, labels: added } = sent
        return { body: sent, hashed: { name, mediaType, sha256, labels: added }, release: permit.release }
      } catch (error) {
        permit.release()
        throw error
      }
    },
    async handle({ context, caller, body, signal, once }) {
      const sent = body as unknown as SentFile
      return created(await actOnce(once, () => addFile(context, caller, sent, signal, once)))
    },
  }),
  route({
    key: 'GET /files',
    // The scope for writing suffices, because no answer shows the content of a file.
    needs: { scope: 'files:write', role: 'member', subject: 'own' },
    summary: 'The organization’s uploaded files, without their contents',
    query: listQuery,
    responses: { 200: listOf(file) },
    handle: async ({ context, caller, query }) =>
      ok(await listFiles(context.db, caller.organizationId, pageIn(query))),
  }),
  route({
    key: 'GET /files/{id}',
    needs: { scope: 'files:write', role: 'member', subject: 'file' },
    summary: 'An uploaded file, without its contents',
    responses: { 200: file },
    handle: async ({ context, caller, params }) =>
      ok(await readFile(context.db, caller.organizationId, params.id)),
  }),
  route({
    key: 'DELETE /files/{id}',
    needs: { scope: 'files:write', role: 'member', subject: 'file' },
    audit: ['file.deleted'],
    summary: 'Delete an uploaded file; runs that were started with it keep what they read',
    responses: { 204: null },
    handle: ({ context, caller, params }) => done(deleteFile(context, caller, params.id)),
  }),
]
