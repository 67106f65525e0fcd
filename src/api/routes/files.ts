import { z } from 'zod'
import {
  addFile,
  deleteFile,
  listFiles,
  readFile,
  runsOfFile,
  type SentFile,
} from '../../governance/files/files.ts'
import { runStatuses } from '../../contract/status.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { organizationQuery } from '../query.ts'
import { created, done, ok, tagged } from '../route.ts'
import { id, labels, listOf, listQuery, time, pageIn, named } from '../schemas/common.ts'
import { enterUpload, hashedFile, readFileUpload } from '../file-form.ts'
import { labelSlug } from '../../policy/text.ts'
import { mostLabels } from '../../policy/types.ts'

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
  created_by_email: z.string(),
  last_used_at: time.nullable().describe('When a run last took it.'),
})

const runsOfOne = named('FileRuns', {
  runs: z.array(
    z.strictObject({
      id,
      workflow_name: z.string().nullable(),
      status: z.enum(runStatuses),
      created_at: time,
    }),
  ),
  is_all: z.boolean(),
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
      const permit = await enterUpload(context.shares, caller.organizationId, request, signal)
      try {
        const sent = await readFileUpload(request, entry)
        return { body: sent, hashed: hashedFile(sent), release: permit.release }
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
    key: 'GET /files/{id}/runs',
    needs: { scope: 'runs:read', role: 'member', subject: 'file' },
    summary: 'The newest runs that took an uploaded file',
    description:
      'At most 20, newest first. `is_all` is false if there are more, or if more than 2,000 runs were started between the upload and its last use: older ones are not searched.',
    responses: { 200: runsOfOne },
    handle: async ({ context, caller, params }) =>
      ok(await runsOfFile(context.db, caller.organizationId, params.id)),
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
