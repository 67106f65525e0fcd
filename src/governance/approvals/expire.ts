import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { expireApproval, wakeRun, writeAtOnce } from './moves.ts'
import { loadApproval, type ApprovalRecord } from './records.ts'
import { isDue, isOverSql } from './state.ts'

/** Marks a pending approval as expired and wakes its run. */
export function expireNow(tx: ChainTx, approval: ApprovalRecord): void {
  expireApproval(writeAtOnce(tx), approval)
  wakeRun(tx, approval)
}

/**
 * Expires approvals whose time is over (commit point `approval.expire`). A run's timer in Temporal does the same. This
 * function also covers agents' calls, and runs that cannot act now. So the list never shows a pending approval that
 * nobody can approve.
 */
export async function expireDue(context: Pick<Context, 'combiner' | 'db'>, limit = 100): Promise<number> {
  const due = await context.db
    .selectFrom('approvals')
    .select(['id', 'organization_id'])
    .where('status', '=', 'pending')
    .where(isOverSql(sql`clock_timestamp()`))
    .orderBy('expires_at')
    .limit(limit)
    .execute()
  for (const each of due) await expireIfDue(context, each)
  return due.length
}

/** Expires one approval if it is pending and its time has passed, by the database's clock. */
export async function expireIfDue(
  context: Pick<Context, 'combiner'>,
  { id, organization_id }: { readonly id: string; readonly organization_id: string },
): Promise<void> {
  await context.combiner.run(organization_id, 'approval.expire', async (tx) => {
    const { approval } = (await loadApproval(tx, sql`id = ${id}`)) ?? {}
    if (approval !== undefined && isDue(approval, tx.now)) expireNow(tx, approval)
  })
}
