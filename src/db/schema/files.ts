import type { Generated } from 'kysely'

/** The service stores the text and the rows that it read from a file, but not the file itself. */
export interface FilesTable {
  id: string
  organization_id: string
  name: string
  media_type: string
  /** Bytes of the original file, whose hash is `sha256`. */
  size: number
  sha256: string
  labels: string[]
  text_sealed: Buffer
  text_bytes: number
  /** A JSON list of objects; null if the file is not a table or the table is too large. */
  rows_sealed: Buffer | null
  rows_bytes: number | null
  created_at: Generated<Date>
  created_by: string
  last_used_at: Generated<Date | null>
}

export interface FilesTables {
  files: FilesTable
}
