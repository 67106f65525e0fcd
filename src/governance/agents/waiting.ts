import { sql, type Selectable } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { Changing } from '../context.ts'
import type { ApprovalStatus } from '../../contract/status.ts'
import type { SessionStatus } from '../../db/schema/agents.ts'
import type { ApprovalsTable } from '../../db/schema/runs.ts'
import { expireIfDue } from '../approvals/expire.ts'
import { withdrawByRequester, writeAtOnce } from '../approvals/moves.ts'
import { loadApproval } from '../approvals/records.ts'
import { isDue } from '../approvals/state.ts'
import { readVotes } from '../approvals/votes.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf } from '../access/identity.ts'
import { requireRole, runAs } from '../access/recheck.ts'
import { callerIn, type Asker } from '../../calls/agents/ask.ts'

export interface AgentApproval {
  readonly approval_id: string
  readonly status: ApprovalStatus
  /** Says why a `cancelled` approval was withdrawn, if its session was ended or revoked. */
  readonly session_status: SessionStatus
  /** Is null if no vote has decided. */
  readonly decided_by: string | null
  readonly comment: string
  readonly expires_at: string | null
}

/** Throws `not_found` for other people's calls or if the asker has left, and `insufficient_role`. */
export async function readAgentApproval(
  context: Changing,
  asker: Asker,
  approvalId: string,
): Promise<AgentApproval> {
  const row = await readOwnApproval(context.db, asker, approvalId)
  const isOver = isDue(row, new Date())
  if (isOver) await expireIfDue(context, row)
  const { status, session_status } = isOver ? await readOwnApproval(context.db, asker, approvalId) : row
  const votes = (await readVotes(context, [approvalId])).get(approvalId) ?? []
  const last = status === 'approved' || status === 'rejected' ? votes.at(-1) : undefined
  return {
    approval_id: approvalId,
    status,
    session_status,
    decided_by: last?.user_id ?? null,
    comment: last?.comment ?? '',
    expires_at: row.expires_at?.toISOString() ?? null,
  }
}

/** Throws `approval_already_decided` if the approval is not pending. */
export async function withdrawOwn(
  context: Changing,
  asker: Asker,
  approvalId: string,
  once: Once | null,
): Promise<void> {
  const { organization_id } = await readOwnApproval(context.db, asker, approvalId)
  const caller = callerIn(asker, organization_id)
  await runAs(context, caller, 'agent.session', async (tx) => {
    await once?.markActed(tx.trx)
    const { approval } = (await loadApproval(tx, sql`id = ${approvalId}`)) ?? {}
    if (approval?.status !== 'pending')
      throw new DomainError(
        'approval_already_decided',
        'the approval is no longer pending: ask for the call again',
      )
    withdrawByRequester(writeAtOnce(tx), approval, actorOf(caller))
  })
}

async function readOwnApproval(
  db: Db,
  { identity }: Asker,
  approvalId: string,
): Promise<Selectable<ApprovalsTable> & { readonly session_status: SessionStatus }> {
  const row = await db
    .selectFrom('approvals as a')
    .innerJoin('memberships as m', (join) =>
      join.onRef('m.organization_id', '=', 'a.organization_id').onRef('m.user_id', '=', 'a.requested_by'),
    )
    .innerJoin('agent_sessions as s', 's.id', 'a.session_id')
    .selectAll('a')
    .select(['m.role', 's.status as session_status'])
    .where('a.id', '=', approvalId)
    .where('a.kind', '=', 'agent_call')
    .where('a.requested_by', '=', identity.user.id)
    .executeTakeFirst()
  if (row === undefined) throw notFound('approval', approvalId)
  requireRole(row.role, 'member')
  return row
}
