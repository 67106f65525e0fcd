import type { Context } from '../../context.ts'
import { wakeKey } from '../../contract/messages.ts'
import type { ApprovalsTable } from '../../db/schema/runs.ts'
import type { Selectable } from 'kysely'
import type { ChainTx } from '../chain-tx.ts'

/** Marks a pending approval expired and wakes its run, inside a transaction. */
export async function expireNow(tx: ChainTx, approval: Selectable<ApprovalsTable>): Promise<void> {
  await tx.trx
    .updateTable('approvals')
    .set({ status: 'expired', decided_at: tx.now })
    .where('id', '=', approval.id)
    .execute()
  tx.append({
    eventType: 'approval.expired',
    action: 'expire',
    status: 'expired',
    actor: { type: 'system', id: 'approvals' },
    workflowId: approval.workflow_id,
    runId: approval.run_id,
    metadata: { approval_id: approval.id },
  })
  tx.touched.add(approval.id)
  if (approval.run_id === null) return
  tx.event(approval.run_id, 'approval.decided', { approval_id: approval.id, status: 'expired' })
  tx.deliver('run.wake', approval.run_id, wakeOf(approval))
}

/**
 * Expires what is due (commit point `approval.expire`). A run's own timer does the same in Temporal; this is the net for
 * runs that cannot act just now, so that the inbox never shows as pending what nobody can approve any more.
 */
export async function expireDue(context: Context, limit = 100): Promise<number> {
  const due = await context.db
    .selectFrom('approvals')
    .select(['id', 'organization_id'])
    .where('status', '=', 'pending')
    .where('expires_at', '<=', (eb) => eb.fn<Date>('clock_timestamp', []))
    .orderBy('expires_at')
    .limit(limit)
    .execute()
  for (const each of due) await expireIfDue(context, each)
  return due.length
}

/** Expires one approval if it is pending and its time has passed by the database's clock. */
export async function expireIfDue(
  context: Context,
  { id, organization_id }: Pick<Selectable<ApprovalsTable>, 'id' | 'organization_id'>,
): Promise<void> {
  await context.combiner.run(organization_id, 'approval.expire', async (tx) => {
    const approval = await tx.trx
      .selectFrom('approvals')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    const isDue = approval.expires_at !== null && approval.expires_at <= tx.now
    if (approval.status === 'pending' && isDue) await expireNow(tx, approval)
  })
}

/** Names the call that waits; a run's own approval wakes the run. */
export function wakeOf(
  approval: Pick<Selectable<ApprovalsTable>, 'step_id' | 'item_index'>,
): Record<string, unknown> {
  return approval.step_id === null ? {} : { key: wakeKey(approval.step_id, approval.item_index) }
}
