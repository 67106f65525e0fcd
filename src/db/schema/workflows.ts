import type { ColumnType, Generated } from 'kysely'
import type { Role } from '../../policy/types.ts'
import type { ManagedColumn } from './policy.ts'

export interface WorkflowsTable {
  id: string
  organization_id: string
  name: string
  slug: Generated<string | null>
  description: Generated<string>
  current_version: number
  created_by: string
  created_at: Generated<Date>
  updated_at: Generated<Date>
  deleted_at: Date | null
  /** Whether only admins may change or delete the workflow. */
  protected: Generated<boolean>
  /** The trigger that polls with it. null: not hidden. */
  poll_of: Generated<string | null>
  managed_by: ManagedColumn
}

export interface Author {
  readonly user_id: string
  readonly role: Role
}

/** The application may insert and read versions, but never changes them. */
export interface WorkflowVersionsTable {
  workflow_id: string
  version: number
  definition: string
  /** The SHA-256 of the canonical JSON (RFC 8785) of the definition. */
  digest: string
  message: Generated<string>
  /** Names of the tools of its steps, each once. null: a process of an older version saved it. */
  tools: readonly string[] | null
  deployed_by: string
  deployed_at: Generated<Date>
  /** Current before the rollback, which deployed `rolled_back_to` again. Both are null without one. */
  rolled_back_from: Generated<number | null>
  rolled_back_to: Generated<number | null>
  /** With their roles when they saved it. */
  authors: ColumnType<readonly Author[], string, never>
  /** For each step, and then for the defaults of inputs: places of the authors in `authors`. */
  step_authors: ColumnType<readonly (readonly number[])[], string, never>
}

/** A workflow without a registry entry is a draft. */
export type RegistryState = 'active' | 'deprecated' | 'archived'

/** `version` is the approved version and never changes. */
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
