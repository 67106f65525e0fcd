import { newId } from '../../contract/ids.ts'
import type { Db } from '../../db/schema/index.ts'
import { unionLabels, type Label } from '../../policy/types.ts'
import type { RunStatus } from '../../contract/status.ts'
import { filesInput } from '../../policy/templates.ts'
import { freeBytes } from '../../shared/free-bytes.ts'
import { DocumentRefused, mediaTypeOf, type ParsedDocument } from '../../shared/documents/document.ts'
import { parseDocument } from '../../shared/documents/parse.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs } from '../access/recheck.ts'
import type { Context, Changing, Unsealing } from '../context.ts'
import { DomainError, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
import { listPage, readBounded, type Page, type PageRequest } from '../page.ts'
import { fileBinding } from '../sealing/bindings.ts'
import type { Sealer } from '../sealing/sealer.ts'
import { sql, type Selectable } from 'kysely'
import { runsThatTook } from '../../db/queries/runs.ts'
import type { FilesTable } from '../../db/schema/files.ts'

/** Files belong to the organization. */
const ownLabels: readonly Label[] = ['internal']

export interface SentFile {
  readonly name: string
  /** Given by the sender. It only tells CSV from other text. */
  readonly mediaType: string | null
  readonly bytes: Buffer
  readonly sha256: string
  /** In addition to `internal`. */
  readonly labels: readonly Label[]
}

/**
 * Stores a file's text and rows, both sealed, but not the file. The bytes of `file` are empty afterwards. Throws
 * `validation_error` for an unreadable file, `quota_exceeded`, and `unavailable` if too many files are uploaded at once
 * or `signal` is aborted.
 */
export async function addFile(
  context: Changing & Unsealing & Pick<Context, 'shares'>,
  caller: Caller,
  file: SentFile,
  signal: AbortSignal,
  once: Once | null = null,
): Promise<FileView> {
  const { organizationId } = caller
  const size = file.bytes.length
  const parsed = await context.shares.parser.hold(organizationId, () => read(file, signal), { signal })
  const id = newId('file')
  const sealed = await seal(context.sealer, organizationId, id, parsed)
  freeBytes(file.bytes)
  const labels = unionLabels(ownLabels, file.labels)
  const view = await growAs(context, caller, 'org.change', {
    action: 'create',
    bytes: sealed.text_bytes + (sealed.rows_bytes ?? 0),
    async work(tx) {
      const row = await tx.trx
        .insertInto('files')
        .values({
          id,
          organization_id: organizationId,
          name: file.name,
          media_type: mediaTypeOf[parsed.kind],
          size,
          sha256: file.sha256,
          labels,
          ...sealed,
          created_at: tx.now,
          created_by: caller.userId,
        })
        .returning(shownColumns)
        .returning(byEmail)
        .executeTakeFirstOrThrow()
      tx.append({
        eventType: 'file.created',
        action: 'create',
        actor: actorOf(caller),
        metadata: { file_id: id, sha256: row.sha256, size: row.size, media_type: row.media_type, labels },
      })
      return keepMade(once, tx, fileView(row))
    },
  })
  freeBytes(sealed.text_sealed)
  return view
}

async function read(file: SentFile, signal: AbortSignal): Promise<ParsedDocument> {
  try {
    return await parseDocument(file.bytes, { name: file.name, mediaType: file.mediaType, signal })
  } catch (error) {
    if (error instanceof DocumentRefused)
      throw new DomainError('validation_error', error.message, [{ path: 'file', message: error.message }])
    if (signal.aborted) throw new DomainError('unavailable', 'the upload was given up: try again')
    throw error
  }
}

async function seal(sealer: Sealer, organizationId: string, id: string, { text, rows }: ParsedDocument) {
  const sealOf = (part: 'text' | 'rows', bytes: Buffer): Promise<Buffer> =>
    sealer.seal(fileBinding(organizationId, id, part), bytes)
  return {
    text_sealed: await sealOf('text', text),
    text_bytes: text.length,
    rows_sealed: rows === null ? null : await sealOf('rows', rows),
    rows_bytes: rows?.length ?? null,
  }
}

export async function listFiles(db: Db, organizationId: string, page: PageRequest): Promise<Page<FileView>> {
  const query = db
    .selectFrom('files')
    .select(shownColumns)
    .select(byEmail)
    .where('organization_id', '=', organizationId)
  return listPage(db, query, 'file', page, fileView)
}

/** Throws `not_found`. */
export async function readFile(db: Db, organizationId: string, id: string): Promise<FileView> {
  const row = await db
    .selectFrom('files')
    .select(shownColumns)
    .select(byEmail)
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) throw notFound('file', id)
  return fileView(row)
}

export interface RunOfFile {
  readonly id: string
  readonly workflow_name: string | null
  readonly status: RunStatus
  readonly created_at: string
}

/** No index finds the runs of a file, so only so many are looked at, back from its last use. */
const mostSearched = 2_000
const mostRuns = 20

/** Newest first. `is_all`: there is no other one. Throws `not_found`. */
export async function runsOfFile(
  db: Db,
  organizationId: string,
  id: string,
): Promise<{ readonly runs: readonly RunOfFile[]; readonly is_all: boolean }> {
  const { created_at: from, last_used_at: until } = await readFile(db, organizationId, id)
  if (until === null) return { runs: [], is_all: true }
  const { rows } = await readBounded(db, (trx) =>
    runsThatTook(organizationId, {
      id,
      input: filesInput,
      from: new Date(from),
      until: new Date(until),
      searched: mostSearched,
      most: mostRuns + 1,
    }).execute(trx),
  )
  const found = rows.flatMap(({ id: run, workflow_name, status, created_at }) =>
    run === null ? [] : [{ id: run, workflow_name, status, created_at: created_at.toISOString() }],
  )
  return {
    runs: found.slice(0, mostRuns),
    is_all: found.length <= mostRuns && (rows[0]?.searched ?? 0) < mostSearched,
  }
}

/** Runs that were started with the file keep what they have read. Throws `not_found`. */
export async function deleteFile(context: Changing, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const row = await tx.trx
      .deleteFrom('files')
      .where('organization_id', '=', tx.organizationId)
      .where('id', '=', id)
      .returning(['sha256', 'labels'])
      .executeTakeFirst()
    if (row === undefined) throw notFound('file', id)
    tx.append({
      eventType: 'file.deleted',
      action: 'delete',
      actor: actorOf(caller),
      metadata: { file_id: id, sha256: row.sha256, labels: row.labels },
    })
  })
}

export interface FileView {
  readonly id: string
  readonly organization_id: string
  readonly name: string
  readonly size: number
  readonly media_type: string
  readonly sha256: string
  readonly labels: readonly Label[]
  /** In UTF-8. */
  readonly text_bytes: number
  readonly has_rows: boolean
  readonly created_at: string
  readonly created_by: string
  readonly created_by_email: string
  readonly last_used_at: string | null
}

const shownColumns = [
  'id',
  'organization_id',
  'name',
  'size',
  'media_type',
  'sha256',
  'labels',
  'text_bytes',
  'rows_bytes',
  'created_at',
  'created_by',
  'last_used_at',
] as const satisfies readonly (keyof FilesTable)[]

const byEmail = sql<string>`(select email from users where users.id = files.created_by)`.as(
  'created_by_email',
)

type ShownRow = Pick<Selectable<FilesTable>, (typeof shownColumns)[number]> &
  Pick<FileView, 'created_by_email'>

const fileView = (row: ShownRow): FileView => ({
  id: row.id,
  organization_id: row.organization_id,
  name: row.name,
  size: row.size,
  media_type: row.media_type,
  sha256: row.sha256,
  labels: row.labels,
  text_bytes: row.text_bytes,
  has_rows: row.rows_bytes !== null,
  created_at: row.created_at.toISOString(),
  created_by: row.created_by,
  created_by_email: row.created_by_email,
  last_used_at: row.last_used_at?.toISOString() ?? null,
})
