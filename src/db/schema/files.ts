import type { Generated } from 'kysely'

/** Uploaded files. The service stores the text and the table rows that it read from a file, but not the file itself. */
export interface FilesTable {
  id: string
  organization_id: string
  name: string
  media_type: string
  /** The original file's size in bytes. `sha256` is the hash of the original file. */
  size: number
  sha256: string
  labels: string[]
  text_sealed: Buffer
  text_bytes: number
  /** The rows of a table as a JSON list of objects; null if the file is not a table or the table is too large. */
  rows_sealed: Buffer | null
  rows_bytes: number | null
  created_at: Generated<Date>
  created_by: string
  /** When a run last used the file. */
  last_used_at: Generated<Date | null>
}

export interface FilesTables {
  files: FilesTable
}
