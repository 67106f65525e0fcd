import type { Generated } from 'kysely'

/** Uploaded files, as what was read out of them. */
export interface FilesTable {
  id: string
  organization_id: string
  name: string
  media_type: string
  /** Bytes and hash of the file as it was sent. */
  size: number
  sha256: string
  labels: string[]
  text_sealed: Buffer
  text_bytes: number
  /** A JSON list of objects; null for a file that is no table, and for a table that is too large. */
  rows_sealed: Buffer | null
  rows_bytes: number | null
  created_at: Generated<Date>
  created_by: string
  /** When a run last took it. */
  last_used_at: Generated<Date | null>
}
