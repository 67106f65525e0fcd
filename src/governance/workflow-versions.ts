import type { Context } from '../context.ts'
import type { WorkflowDefinition } from '../contract/definition.ts'
import { notFound } from './errors.ts'
import type { Once } from './idempotency.ts'
import type { Caller } from './identity.ts'
import { deploy, lockWorkflow, requireSound } from './workflows.ts'
import { growAs } from './quotas/storage.ts'

/** A frozen version as listed (specification, "Workflow version"). */
export interface VersionSummary {
  readonly version: number
  readonly deployed_at: string
  readonly deployed_by: string
  readonly message: string
  /** Of a rollback: the version that was current, and the one whose definition this is. */
  readonly rolled_back_from: number | null
  readonly rolled_back_to: number | null
}
export interface VersionView extends VersionSummary {
  readonly workflow_id: string
  /** SHA-256 over the definition's RFC 8785 form. */
  readonly digest: string
  readonly definition: WorkflowDefinition
}

/** Newest first, all of them. */
export async function listVersions(context: Context, workflowId: string): Promise<VersionSummary[]> {
  const rows = await context.db
    .selectFrom('workflow_versions')
    .select(['version', 'deployed_at', 'deployed_by', 'message', 'rolled_back_from', 'rolled_back_to'])
    .where('workflow_id', '=', workflowId)
    .orderBy('version', 'desc')
    .execute()
  return rows.map((row) => ({ ...row, deployed_at: row.deployed_at.toISOString() }))
}

export async function inspectVersion(
  context: Context,
  workflowId: string,
  version: string,
): Promise<VersionView> {
  const row = await context.db
    .selectFrom('workflow_versions')
    .selectAll()
    .where('workflow_id', '=', workflowId)
    .where('version', '=', versionNumber(version))
    .executeTakeFirst()
  if (row === undefined) throw notFound('version', version)
  return {
    ...row,
    deployed_at: row.deployed_at.toISOString(),
    definition: JSON.parse(row.definition) as WorkflowDefinition,
  }
}

/**
 * Deploys an earlier version's definition anew: history is never overwritten (specification, "Workflow versions and
 * registry"). `rolled_back_from` is the version that was current. `validation_error` when the definition names what
 * has gone since.
 */
export async function rollBack(
  context: Context,
  caller: Caller,
  workflowId: string,
  version: string,
  message: string,
  once: Once | null = null,
): Promise<{ new_version: number; rolled_back_from: number; deployed_at: string }> {
  const target = await inspectVersion(context, workflowId, version)
  requireSound(target.definition)
  return growAs(context, caller, 'org.change', {
    action: 'rollback',
    bytes: JSON.stringify(target.definition).length,
    async work(tx) {
      const { current_version: current } = await lockWorkflow(tx, workflowId)
      const next = current + 1
      await tx.trx
        .updateTable('workflows')
        .set({ current_version: next, updated_at: tx.now })
        .where('id', '=', workflowId)
        .execute()
      const { definition } = target
      const rolledBack = { from: current, to: target.version }
      await deploy(tx, caller, { id: workflowId, version: next, definition, message, rolledBack })
      const answer = { new_version: next, rolled_back_from: current, deployed_at: tx.now.toISOString() }
      await once?.markActed(tx.trx, answer)
      return answer
    },
  })
}

/** What is no version number is the number of no version. */
function versionNumber(text: string): number {
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0
}
