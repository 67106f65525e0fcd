import type { ColumnType, Generated } from 'kysely'
import type { Role } from '../../policy/types.ts'

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
  /** Whether only admins may change or delete the workflow. */
  protected: Generated<boolean>
}

/** A person who wrote text of a version, and the role that the person had when they saved it. */
export interface Author {
  readonly user_id: string
  readonly role: Role
}

/** A version of a workflow. The application may insert and read versions, but never changes them. */
export interface WorkflowVersionsTable {
  workflow_id: string
  version: number
  /** JSON text of the accepted definition. */
  definition: string
  /** The SHA-256 of the canonical JSON (RFC 8785) of the definition. */
  digest: string
  message: Generated<string>
  deployed_by: string
  deployed_at: Generated<Date>
  /**
   * The version that was current before the rollback. `rolled_back_to` is the older version that the rollback deployed
   * again. Both fields are null if no rollback made this version.
   */
  rolled_back_from: Generated<number | null>
  rolled_back_to: Generated<number | null>
  /** The people whose text the version contains, with their roles when they saved it. */
  authors: ColumnType<readonly Author[], string, never>
  /**
   * For each step, and then for the defaults of inputs, the places of their authors in `authors`.
   */
  step_authors: ColumnType<readonly (readonly number[])[], string, never>
}

/** The states of a template. A workflow without a registry entry is a draft. */
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

export interface WorkflowsTables {
  workflows: WorkflowsTable
  workflow_versions: WorkflowVersionsTable
  registry_entries: RegistryEntriesTable
}
