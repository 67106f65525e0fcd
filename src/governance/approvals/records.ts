import type { RawBuilder } from 'kysely'
import type { ApprovalStatus } from '../../contract/status.ts'
import { insertNewApprovals } from '../../db/queries/approvals/insert-approvals.ts'
import { insertNewDecisions } from '../../db/queries/approvals/insert-decisions.ts'
import { newestApproval } from '../../db/queries/approvals/newest-approval.ts'
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
  const [row] = await tx.send(newestApproval<ApprovalRecord>(tx.organizationId, where))
  if (row === undefined) return null
  const { approval, roles } = row
  return { approval, votes: withRoles(approval, new Map(Object.entries(roles ?? {}))) }
}

/** Part of a statement: inserts approvals. */
export function insertApprovals(tx: ChainTx, approvals: readonly NewApproval[]): RawBuilder<unknown> {
  const rows = approvals.map(({ record, sealed: _sealed, state: _state, ...rest }) => ({
    ...record,
    ...rest,
  }))
  return insertNewApprovals({
    organizationId: tx.organizationId,
    now: tx.now,
    rows,
    sealed: approvals.map((approval) => approval.sealed),
    states: approvals.map((approval) => approval.state),
  })
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
  return insertNewDecisions(`[${rows.join(',')}]`)
}
