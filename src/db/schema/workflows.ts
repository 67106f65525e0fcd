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
  /** SHA-256 over the RFC 8785 form of the definition. */
  digest: string
  message: Generated<string>
  deployed_by: string
  deployed_at: Generated<Date>
  /**
   * If a rollback made this version: the version that was current before. `rolled_back_to` is the older version that
   * was deployed again.
   */
  rolled_back_from: Generated<number | null>
  rolled_back_to: Generated<number | null>
}

/** States of a template. A workflow without an entry here is a draft. */
export type RegistryState = 'active' | 'deprecated' | 'archived'

/** A workflow that was approved as a template. `version` is the approved version and never changes. */
export interface RegistryEntriesTable {
  workflow_id: string
  /** The order in which workflows were approved as templates. */
  place: Generated<number>
  organization_id: string
  state: Generated<RegistryState>
  template_name: string
  description: string
  tags: string[]
  version: number
  approved_by: string
  approved_at: Date
  deprecated_by: Generated<string | null>
  deprecated_at: Generated<Date | null>
  /** The reason for the deprecation. */
  reason: Generated<string | null>
  replacement_id: Generated<string | null>
  archived_by: Generated<string | null>
  archived_at: Generated<Date | null>
}
