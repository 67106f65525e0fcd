import type { Selectable } from 'kysely'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import type { RegistryEntriesTable, RegistryState } from '../../db/schema/workflows.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Db } from '../../db/schema/index.ts'
import { readBounded, pageOf, readCursor, type Page, type PageRequest } from '../page.ts'

/**
 * A workflow's version that an owner approved. A workflow without an entry in `registry_entries` is a *draft*. An
 * *active* template can be used, a *deprecated* one with a warning, an *archived* one never again. Later versions of
 * the workflow do not change it.
 */
export interface TemplateView {
  /** The id of the workflow. */
  readonly id: string
  readonly organization_id: string
  readonly state: RegistryState
  readonly template_name: string
  readonly description: string
  readonly tags: readonly string[]
  /** Approved and frozen. */
  readonly version: number
  readonly approved_by: string
  readonly approved_at: string
  readonly deprecated_by: string | null
  readonly deprecated_at: string | null
  /** The reason of the deprecation. */
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

/** undefined for a draft. The chain's lock protects it from changes. */
export async function entryOf(tx: ChainTx, workflowId: string): Promise<EntryRow | undefined> {
  return tx.trx
    .selectFrom('registry_entries')
    .selectAll()
    .where('workflow_id', '=', workflowId)
    .where('organization_id', '=', tx.organizationId)
    .executeTakeFirst()
}

/** Throws `conflict` unless archived: members delete workflows, but only owners end a template, after a warning. */
export async function requireNoTemplate(tx: ChainTx, workflowId: string): Promise<void> {
  const entry = await entryOf(tx, workflowId)
  if (entry === undefined || entry.state === 'archived') return
  throw new DomainError(
    'conflict',
    `the workflow is the template \`${entry.template_name}\`: an owner has to deprecate and archive it first`,
  )
}

/** The last approved comes first. */
export async function listTemplates(
  db: Db,
  organizationId: string,
  includeArchived: boolean,
  page: PageRequest,
): Promise<Page<TemplateView>> {
  const after = readCursor(page.cursor, /^\d{1,9}$/)
  const query = db
    .selectFrom('registry_entries')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .$if(!includeArchived, (query) => query.where('state', '<>', 'archived'))
    .$if(after !== null, (query) => query.where('place', '<', Number(after)))
    .orderBy('place', 'desc')
    .limit(page.limit + 1)
  const { rows } = await readBounded(db, (trx) => trx.executeQuery(query))
  return pageOf(rows, page.limit, (row) => String(row.place), templateView)
}

export interface TemplateDetail extends TemplateView {
  readonly workflow_name: string
  readonly current_version: number
  readonly approved_by_email: string
  readonly deprecated_by_email: string | null
  readonly archived_by_email: string | null
  /** What a use copies. null: nobody can use it any more. */
  readonly definition: WorkflowDefinition | null
}

/** An owner has published this version, so whoever sees the workflow may read it. Other versions are for its authors. */
export async function readTemplate(db: Db, workflowId: string): Promise<TemplateDetail> {
  const row = await db
    .selectFrom('registry_entries as e')
    .innerJoin('workflows as w', 'w.id', 'e.workflow_id')
    .innerJoin('workflow_versions as v', (join) =>
      join.onRef('v.workflow_id', '=', 'e.workflow_id').onRef('v.version', '=', 'e.version'),
    )
    .innerJoin('users as a', 'a.id', 'e.approved_by')
    .leftJoin('users as d', 'd.id', 'e.deprecated_by')
    .leftJoin('users as r', 'r.id', 'e.archived_by')
    .selectAll('e')
    .select([
      'w.name as workflow_name',
      'w.current_version',
      'v.definition',
      'a.email as approved_by_email',
      'd.email as deprecated_by_email',
      'r.email as archived_by_email',
    ])
    .where('e.workflow_id', '=', workflowId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('template', workflowId)
  return {
    ...templateView(row),
    workflow_name: row.workflow_name,
    current_version: row.current_version,
    approved_by_email: row.approved_by_email,
    deprecated_by_email: row.deprecated_by_email,
    archived_by_email: row.archived_by_email,
    definition: row.state === 'archived' ? null : (JSON.parse(row.definition) as WorkflowDefinition),
  }
}
