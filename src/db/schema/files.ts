import type { Generated } from 'kysely'

/** Uploaded files. Only the text and the rows that were read from a file are stored. */
export interface FilesTable {
  id: string
  organization_id: string
  name: string
  media_type: string
  /** Size in bytes of the original file. `sha256` is the hash of the original file. */
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
  /** When a run last used the file. */
  last_used_at: Generated<Date | null>
}
