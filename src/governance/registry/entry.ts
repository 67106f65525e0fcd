import type { Selectable } from 'kysely'
import type { RegistryEntriesTable, RegistryState } from '../../db/schema/workflows.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError } from '../errors.ts'

/**
 * A template: a workflow's version that an owner approved. States (specification, "Registry entry lifecycle"): *draft*
 * is a workflow without an entry; *active* can be used; *deprecated* can be used with a warning; *archived* cannot, and
 * is the end. What was approved stays what it is: later versions of the workflow do not touch it.
 */
export interface TemplateView {
  /** The workflow's. */
  readonly id: string
  readonly organization_id: string
  readonly state: RegistryState
  readonly template_name: string
  readonly description: string
  readonly tags: readonly string[]
  /** The frozen version that was approved. */
  readonly version: number
  readonly approved_by: string
  readonly approved_at: string
  readonly deprecated_by: string | null
  readonly deprecated_at: string | null
  /** Why it was deprecated. */
  readonly reason: string | null
  readonly replacement_id: string | null
  readonly archived_by: string | null
  readonly archived_at: string | null
}

export type EntryRow = Selectable<RegistryEntriesTable>

export function templateView(row: EntryRow): TemplateView {
  const { workflow_id: id, place: _, ...rest } = row
  return {
    id,
    ...rest,
    approved_at: row.approved_at.toISOString(),
    deprecated_at: row.deprecated_at?.toISOString() ?? null,
    archived_at: row.archived_at?.toISOString() ?? null,
  }
}

/** The workflow's entry, or undefined for a draft. The chain's lock keeps it as it is: every change takes that first. */
export async function entryOf(tx: ChainTx, workflowId: string): Promise<EntryRow | undefined> {
  return tx.trx
    .selectFrom('registry_entries')
    .selectAll()
    .where('workflow_id', '=', workflowId)
    .where('organization_id', '=', tx.organizationId)
    .executeTakeFirst()
}

/**
 * `conflict` for a workflow that is a template in use: deleting it takes a member, ending a template an owner, and who
 * relies on it is to be told by its deprecation.
 */
export async function requireNoTemplate(tx: ChainTx, workflowId: string): Promise<void> {
  const entry = await entryOf(tx, workflowId)
  if (entry === undefined || entry.state === 'archived') return
  throw new DomainError(
    'conflict',
    `the workflow is the template \`${entry.template_name}\`: an owner has to deprecate and archive it first`,
  )
}
