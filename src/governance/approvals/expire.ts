import { sql } from 'kysely'
import { readDueApprovals } from '../../db/queries/approvals.ts'
import type { Context, Changing } from '../context.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { eachOrganization } from '../audit/each-organization.ts'
import type { DomainError } from '../errors.ts'
import { expireApproval, wakeRun, writeAtOnce } from './moves.ts'
import { loadApproval, type ApprovalRecord } from './records.ts'
import { endedRefusal } from './refusals.ts'
import { isDue, isOverSql } from './state.ts'

/** Also wakes the run that waits for the approval. */
export function expireNow(tx: ChainTx, approval: ApprovalRecord): void {
  expireApproval(writeAtOnce(tx), approval)
  wakeRun(tx, approval)
}

/**
 * Null while it can be decided. Throws what has ended it. If its time is over and nobody has noted that, notes it, and
 * returns the refusal, to be thrown after the commit.
 */
export function refuseEnded(tx: ChainTx, approval: ApprovalRecord, hasStandIn = false): DomainError | null {
  const due = isDue(approval, tx.now)
  const ended = endedRefusal({ ...approval, isDue: due, hasStandIn })
  if (due) expireNow(tx, approval)
  else if (ended !== null) throw ended
  return ended
}

/** One pass expires at most this many approvals. The next pass is a second later. */
const mostExpired = 100

/**
 * Commit point `approval.expire`. Runs also have a timer in Temporal, which does not help while Temporal is
 * away. Agents' calls have no timer. Organizations take turns.
 */
export async function expireDue(context: Changing & Pick<Context, 'sparseLog'>): Promise<number> {
  const { rows: due } = await readDueApprovals(isOverSql(sql`clock_timestamp()`), mostExpired).execute(
    context.db,
  )
  await eachOrganization(context.sparseLog, 'expiry', due, async (own) => {
    for (const each of own) await expireIfDue(context, each)
  })
  return due.length
}

/** Only while it is pending, and by the database's clock. */
export async function expireIfDue(
  context: Changing,
  { id, organization_id }: { readonly id: string; readonly organization_id: string },
): Promise<void> {
  await context.combiner.run(organization_id, 'approval.expire', async (tx) => {
    const { approval } = (await loadApproval(tx, sql`id = ${id}`)) ?? {}
    if (approval !== undefined && isDue(approval, tx.now)) expireNow(tx, approval)
  })
}
