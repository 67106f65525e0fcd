import { sql, type RawBuilder } from 'kysely'
import type { ApprovalStatus } from '../../contract/status.ts'
import type { DecisionsTable, LabelSource, MatchedRule, Risk } from '../../db/schema/runs.ts'
import type { Role, SideEffect } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { VoteWithRole } from './requirement.ts'

/*
 * Decisions and approvals, shared by runs' steps and agents' calls. They change in memory under the chain lock, and one
 * statement writes them all.
 */

export interface VoteRecord {
  readonly user_id: string
  readonly email: string
  readonly decision: 'approve' | 'reject'
  readonly comment: string
  readonly changes_requested: boolean
}

export interface ApprovalRecord {
  readonly id: string
  readonly kind: 'step' | 'run' | 'agent_call'
  readonly run_id: string | null
  readonly workflow_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  /** Only for an agent's call: ses_... */
  readonly session_id: string | null
  readonly requested_by: string
  readonly params_hash: string | null
  readonly labels: string[]
  readonly rule_name: string | null
  /** The approval that it replaces, and why; null for the first one of a call. */
  readonly supersedes_id: string | null
  readonly held_again: string | null
  readonly state_changes: number
  readonly approver: 'admin' | 'owner'
  readonly approvals_needed: number
  readonly expires_at: string | null
  readonly votes: readonly VoteRecord[]
  status: ApprovalStatus
  decided_at: string | null
  used_at: string | null
  used_by: string | null
  superseded_by: string | null
}

/** A new row of `approvals`. */
export interface NewApproval {
  record: ApprovalRecord
  sealed: Buffer | null
  /** What the call changes, sealed; null for a tool without a precondition. */
  state: Buffer | null
  tool: string | null
  side_effect: SideEffect | null
  rule_id: string | null
  risk: Risk
}

export type NewDecision = Omit<DecisionsTable, 'matched_rules' | 'label_sources' | 'attempt' | 'bytes'> & {
  matched_rules: readonly MatchedRule[]
  label_sources: readonly LabelSource[]
  attempt: number
}

/** The columns of an ApprovalRecord, for a query on `approvals`. */
export const approvalColumns = sql`id, kind, run_id, workflow_id, step_id, item_index, session_id, requested_by, params_hash, labels,
  rule_name, supersedes_id, held_again, state_changes, approver, approvals_needed, expires_at, status, decided_at, used_at, used_by, superseded_by,
  coalesce((select json_agg(json_build_object('user_id', v.user_id, 'email', u.email, 'decision', v.decision,
                                              'comment', v.comment, 'changes_requested', v.changes_requested))
            from approval_votes v join users u on u.id = v.user_id where v.approval_id = approvals.id), '[]') as votes`

/** A time in JSON from the database has an offset, not `Z`. */
export const isoTime = (time: string | null): string | null =>
  time === null ? null : new Date(time).toISOString()

/** An approval's votes with the present roles of the voters. */
export const withRoles = (approval: ApprovalRecord, roles: ReadonlyMap<string, Role>): VoteWithRole[] =>
  approval.votes.map((vote) => ({ ...vote, role: roles.get(vote.user_id) ?? null }))

/** Reads one approval under the chain lock, the newest that matches, and its votes with roles. */
export async function loadApproval(
  tx: ChainTx,
  where: RawBuilder<unknown>,
): Promise<{ approval: ApprovalRecord; votes: readonly VoteWithRole[] } | null> {
  const [row] = await tx.send(sql<{ approval: ApprovalRecord; roles: Record<string, Role> | null }>`
    select to_json(a) as approval, (
        select json_object_agg(user_id, role) from memberships
        where organization_id = ${tx.organizationId}
          and user_id in (select v.user_id from approval_votes v where v.approval_id = a.id)
      ) as roles
    from (select ${approvalColumns} from approvals where ${where} order by id desc limit 1) as a`)
  if (row === undefined) return null
  const { approval, roles } = row
  return { approval, votes: withRoles(approval, new Map(Object.entries(roles ?? {}))) }
}

/** Rows as JSON text for `json_to_recordset`; `n` numbers them from 1. */
export const numbered = (rows: readonly object[]): string =>
  JSON.stringify(rows.map((row, index) => ({ ...row, n: index + 1 })))

/** Part of a statement: inserts approvals. */
export function insertApprovals(tx: ChainTx, approvals: readonly NewApproval[]): RawBuilder<unknown> {
  const rows = approvals.map(({ record, sealed: _sealed, state: _state, ...rest }) => ({
    ...record,
    ...rest,
  }))
  return sql`new_approvals as (
    insert into approvals (organization_id, id, kind, status, run_id, step_id, item_index, session_id, workflow_id, tool,
      side_effect, params_hash, rule_id, rule_name, labels, risk, requested_by, approver, approvals_needed, created_at,
      expires_at, supersedes_id, held_again, state_changes, params_sealed, state_sealed)
    select ${tx.organizationId}, r.id, r.kind, r.status, r.run_id, r.step_id, r.item_index, r.session_id, r.workflow_id, r.tool,
      r.side_effect, r.params_hash, r.rule_id, r.rule_name, r.labels, r.risk, r.requested_by, r.approver,
      r.approvals_needed, ${tx.now}::timestamptz, r.expires_at, r.supersedes_id, r.held_again, r.state_changes, o.sealed, o.state
    from json_to_recordset(${numbered(rows)}::json) as r(n int, id text, kind text, status text, run_id text,
      step_id text, item_index int, session_id text, workflow_id text, tool text, side_effect text, params_hash text, rule_id text,
      rule_name text, labels text[], risk jsonb, requested_by text, approver text, approvals_needed int,
      expires_at timestamptz, supersedes_id text, held_again text, state_changes int)
    join unnest(${approvals.map((approval) => approval.sealed)}::bytea[],
                ${approvals.map((approval) => approval.state)}::bytea[])
      with ordinality as o(sealed, state, n) on o.n = r.n
  )`
}

/** Part of a statement: saves changed approvals. */
export function updateApprovals(approvals: Iterable<ApprovalRecord>): RawBuilder<unknown> {
  return sql`moved_approvals as (
    update approvals set status = r.status, decided_at = r.decided_at, used_at = r.used_at, used_by = r.used_by,
      superseded_by = r.superseded_by
    from json_to_recordset(${JSON.stringify([...approvals])}::json) as r(id text, status text,
      decided_at timestamptz, used_at timestamptz, used_by text, superseded_by text)
    where approvals.id = r.id
  )`
}

/** Bytes of a decision beside its JSON: indexes, and later notes about its call. */
const decisionBytes = 256

/** Part of a statement: inserts decisions, and adds their bytes to the organization's counter. */
export function insertDecisions(tx: ChainTx, decisions: readonly NewDecision[]): RawBuilder<unknown> {
  const rows = decisions.map((decision) => {
    const text = JSON.stringify(decision)
    const bytes = Buffer.byteLength(text) + decisionBytes
    tx.stores(bytes)
    return `${text.slice(0, -1)},"bytes":${bytes}}`
  })
  return sql`new_decisions as (
    insert into decisions (id, organization_id, run_id, seq, step_id, item_index, attempt, tool, side_effect, verdict,
      rule_id, rule_name, matched_rules, reason, explanation, labels, label_sources, params_hash, approval_id,
      policy_version, decided_at, session_id, tool_use_id, requested_by, bytes)
    select * from json_to_recordset(${`[${rows.join(',')}]`}::json) as r(id text, organization_id text,
      run_id text, seq int, step_id text, item_index int, attempt int, tool text, side_effect text, verdict text,
      rule_id text, rule_name text, matched_rules jsonb, reason text, explanation text, labels text[],
      label_sources jsonb, params_hash text, approval_id text, policy_version bigint, decided_at timestamptz,
      session_id text, tool_use_id text, requested_by text, bytes int)
  )`
}
