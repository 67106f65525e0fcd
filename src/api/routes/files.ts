import { z } from 'zod'
import { addFile, deleteFile, listFiles, readFile, type SentFile } from '../../governance/files/files.ts'
import { reserveMemory } from '../../governance/files/uploads.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { announcedSize, readFileUpload } from '../file-upload.ts'
import { organizationQuery } from '../query.ts'
import { created, noContent, ok, route } from '../route.ts'
import { id, labels, listOf, listQuery, time } from '../schemas/common.ts'
import { fileForm } from '../schemas/files.ts'

const tag = 'Files'

const file = z
  .strictObject({
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
  .meta({ id: 'File' })

const postFile = route({
  key: 'POST /files',
  summary: 'Upload a PDF, DOCX, XLSX, CSV or text file for runs',
  description:
    'Its text is read and stored sealed; the file itself is not kept. The type is judged by the content. A file that cannot be read is 422 with the reason.',
  tag,
  query: organizationQuery,
  body: fileForm,
  responses: { 201: file },
  async receive({ context, caller, signal }, request, entry) {
    const permit = await reserveMemory(context.uploads, caller.organizationId, announcedSize(request), signal)
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
})

const getFiles = route({
  key: 'GET /files',
  summary: 'The organization’s uploaded files, without their contents',
  tag,
  query: listQuery,
  responses: { 200: listOf(file) },
  async handle({ context, caller, query }) {
    const page = { limit: query.limit, cursor: query.cursor ?? null }
    return ok(await listFiles(context.db, caller.organizationId, page))
  },
})

const getFile = route({
  key: 'GET /files/{id}',
  summary: 'An uploaded file, without its contents',
  tag,
  responses: { 200: file },
  async handle({ context, caller, params }) {
    return ok(await readFile(context.db, caller.organizationId, params.id))
  },
})

const deleteFileRoute = route({
  key: 'DELETE /files/{id}',
  summary: 'Delete an uploaded file; runs that were started with it keep what they read',
  tag,
  responses: { 204: null },
  async handle({ context, caller, params }) {
    await deleteFile(context, caller, params.id)
    return noContent
  },
})

export const fileRoutes = [postFile, getFiles, getFile, deleteFileRoute]
