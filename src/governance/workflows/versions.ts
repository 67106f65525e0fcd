import { sql, type Selectable } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { Author, WorkflowVersionsTable } from '../../db/schema/workflows.ts'
import type { Changing } from '../context.ts'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import { errorAt, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { versionNumber } from '../page.ts'
import type { Caller } from '../access/identity.ts'
import { hasRole } from '../access/scopes.ts'
import { requireSound } from '../tools/connections.ts'
import { originOfRow } from '../runs/values/authors.ts'
import { deploy, lockWorkflow, requireChangeable } from './workflows.ts'
import { growAs } from '../limits/storage.ts'

export interface VersionSummary {
  readonly version: number
  readonly deployed_at: string
  readonly deployed_by: string
  readonly message: string
  /** For a rollback: the version that was current, and the one whose definition was copied. */
  readonly rolled_back_from: number | null
  readonly rolled_back_to: number | null
  /** Whose text it contains, with their roles when they saved it. */
  readonly authors: readonly Author[]
}
export interface VersionView extends VersionSummary {
  readonly workflow_id: string
  /** SHA-256 of the canonical JSON text (RFC 8785). */
  readonly digest: string
  readonly definition: WorkflowDefinition
}

/** Newest first. */
export async function listVersions(
  db: Db,
  workflowId: string,
  { limit, before }: { readonly limit: number; readonly before?: number | undefined },
): Promise<(VersionSummary & { readonly deployed_by_email: string })[]> {
  const rows = await db
    .selectFrom('workflow_versions')
    .innerJoin('users', 'users.id', 'deployed_by')
    .select([
      'users.email as deployed_by_email',
      'version',
      'deployed_at',
      'deployed_by',
      'message',
      'rolled_back_from',
      'rolled_back_to',
      'authors',
    ])
    .where('workflow_id', '=', workflowId)
    .$if(before !== undefined, (all) => all.where('version', '<', before as number))
    .orderBy('version', 'desc')
    .limit(limit)
    .execute()
  return rows.map((row) => ({ ...row, deployed_at: row.deployed_at.toISOString() }))
}

/** Throws `insufficient_role` for a member who is no author of the workflow. */
export async function inspectVersion(
  db: Db,
  caller: Caller,
  workflowId: string,
  version: string,
): Promise<VersionView> {
  await requireAuthor(db, caller, workflowId)
  const { step_authors: _, tools: __, ...row } = await readRow(db, workflowId, version)
  return {
    ...row,
    deployed_at: row.deployed_at.toISOString(),
    definition: JSON.parse(row.definition) as WorkflowDefinition,
  }
}

async function readRow(
  db: Db,
  workflowId: string,
  version: string,
): Promise<Selectable<WorkflowVersionsTable>> {
  const row = await db
    .selectFrom('workflow_versions')
    .selectAll()
    .where('workflow_id', '=', workflowId)
    .where('version', '=', versionNumber(version))
    .executeTakeFirst()
  if (row === undefined) throw notFound('version', version)
  return row
}

/** The person made the workflow, the current version holds their text, or they are an admin. */
async function requireAuthor(db: Db, { userId, role }: Caller, workflowId: string): Promise<void> {
  if (hasRole(role, 'admin')) return
  const { rows } = await sql`
    select from workflows w join workflow_versions v on v.workflow_id = w.id and v.version = w.current_version
    where w.id = ${workflowId}
      and (w.created_by = ${userId} or v.authors @> jsonb_build_array(jsonb_build_object('user_id', ${userId}::text)))
    `.execute(db)
  if (rows.length > 0) return
  throw errorAt(
    'insufficient_role',
    'admin',
    'members read and roll back versions of workflows that they have written: this one has other authors',
  )
}

/**
 * Versions are never overwritten. Throws `validation_error` if it names something that no longer exists, and
 * `insufficient_role` for a member who is no author, or if the workflow is protected.
 */
export async function rollBack(
  context: Changing,
  caller: Caller,
  workflowId: string,
  { version, message }: { readonly version: string; readonly message: string },
  once: Once | null = null,
): Promise<{ new_version: number; rolled_back_from: number; deployed_at: string }> {
  const origin = originOfRow(await readRow(context.db, workflowId, version))
  const { definition } = origin
  requireSound(definition)
  return growAs(context, caller, 'org.change', {
    action: 'rollback',
    bytes: JSON.stringify(definition).length,
    async work(tx, now) {
      const workflow = await lockWorkflow(tx, workflowId)
      const present = await now()
      await requireAuthor(tx.trx, present, workflowId)
      requireChangeable(workflow, present)
      const { current_version: current } = workflow
      const next = current + 1
      await tx.trx
        .updateTable('workflows')
        .set({ current_version: next, updated_at: tx.now })
        .where('id', '=', workflowId)
        .execute()
      const rolledBack = { from: current, to: versionNumber(version) }
      await deploy(tx, present, { id: workflowId, version: next, definition, message, rolledBack, origin })
      return keepMade(once, tx, {
        new_version: next,
        rolled_back_from: current,
        deployed_at: tx.now.toISOString(),
      })
    },
  })
}
