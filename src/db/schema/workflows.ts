import type { Generated } from 'kysely'

export interface WorkflowsTable {
  id: string
  organization_id: string
  name: string
  description: Generated<string>
  current_version: number
  created_by: string
  created_at: Generated<Date>
  updated_at: Generated<Date>
  deleted_at: Date | null
}

/** A frozen version: the application may insert and read it, never change it. */
export interface WorkflowVersionsTable {
  workflow_id: string
  version: number
  /** JSON text of the accepted definition. */
  definition: string
  /** SHA-256 over its RFC 8785 form. */
  digest: string
  message: Generated<string>
  deployed_by: string
  deployed_at: Generated<Date>
}
