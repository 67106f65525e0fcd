import type { Selectable } from 'kysely'
import type { Context } from '../../context.ts'
import type { ApprovalStatus } from '../../contract/status.ts'
import type { ApprovalsTable } from '../../db/schema/runs.ts'
import { expireIfDue } from '../approvals/expire.ts'
import { readVotes } from '../approvals/votes.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf } from '../identity.ts'
import { requireRole, runAs } from '../standing.ts'
import { callerIn, type Asker } from './ask.ts'

/** What an agent learns of the approval it waits for. */
export interface AgentApproval {
  readonly approval_id: string
  readonly status: ApprovalStatus
  /** The person whose vote decided; null while nobody's has. */
  readonly decided_by: string | null
  readonly comment: string
  readonly expires_at: string | null
}

/**
 * One approval of the asker's own calls. Throws `not_found` for any other, whoever it belongs to, and once they have left its
 * organization; `insufficient_role` where their agents may not ask any more.
 */
export async function readAgentApproval(
  context: Context,
  asker: Asker,
  approvalId: string,
): Promise<AgentApproval> {
  const row = await own(context, asker, approvalId)
  const isDue = row.status === 'pending' && row.expires_at !== null && row.expires_at <= new Date()
  if (isDue) await expireIfDue(context, row)
  const { status } = isDue ? await own(context, asker, approvalId) : row
  const votes = (await readVotes(context, [approvalId])).get(approvalId) ?? []
  const last = status === 'approved' || status === 'rejected' ? votes.at(-1) : undefined
  return {
    approval_id: approvalId,
    status,
    decided_by: last?.user_id ?? null,
    comment: last?.comment ?? '',
    expires_at: row.expires_at?.toISOString() ?? null,
  }
}

/** Withdraws one that waits (contract section 7). Throws `approval_already_decided`. */
export async function withdrawOwn(
  context: Context,
  asker: Asker,
  approvalId: string,
  once: Once | null,
): Promise<void> {
  const { organization_id } = await own(context, asker, approvalId)
  const caller = callerIn(asker, organization_id)
  await runAs(context, caller, 'agent.session', async (tx) => {
    await once?.markActed(tx.trx)
    const row = await tx.trx
      .updateTable('approvals')
      .set({ status: 'cancelled', decided_at: tx.now })
      .where('id', '=', approvalId)
      .where('status', '=', 'pending')
      .returning('session_id')
      .executeTakeFirst()
    if (row === undefined)
      throw new DomainError(
        'approval_already_decided',
        'the approval no longer waits: ask for the call again',
      )
    tx.touched.add(approvalId)
    tx.append({
      eventType: 'approval.withdrawn',
      action: 'cancel',
      status: 'cancelled',
      actor: actorOf(caller),
      metadata: { approval_id: approvalId, session_id: row.session_id },
    })
  })
}

async function own(
  { db }: Context,
  { identity }: Asker,
  approvalId: string,
): Promise<Selectable<ApprovalsTable>> {
  const row = await db
    .selectFrom('approvals as a')
    .innerJoin('memberships as m', (join) =>
      join.onRef('m.organization_id', '=', 'a.organization_id').onRef('m.user_id', '=', 'a.requested_by'),
    )
    .selectAll('a')
    .select('m.role')
    .where('a.id', '=', approvalId)
    .where('a.kind', '=', 'agent_call')
    .where('a.requested_by', '=', identity.user.id)
    .executeTakeFirst()
  if (row === undefined) throw notFound('approval', approvalId)
  requireRole(row.role, 'member')
  return row
}
