import type { Selectable } from 'kysely'
import type { FilesTable } from '../../db/schema/files.ts'
import type { Label } from '../../policy/types.ts'

/** An uploaded file as the API shows it, without its contents. */
export interface FileView {
  readonly id: string
  readonly organization_id: string
  readonly name: string
  readonly size: number
  readonly media_type: string
  readonly sha256: string
  readonly labels: readonly Label[]
  /** The number of bytes of the file's text in UTF-8. */
  readonly text_bytes: number
  readonly has_rows: boolean
  readonly created_at: string
  readonly created_by: string
  readonly last_used_at: string | null
}

/** The columns that `fileView` needs. The file's contents are not among them. */
export const shownColumns = [
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

type Shown = Pick<Selectable<FilesTable>, (typeof shownColumns)[number]>

export const fileView = (row: Shown): FileView => ({
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
  last_used_at: row.last_used_at?.toISOString() ?? null,
})
