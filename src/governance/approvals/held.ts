import { newId } from '../../contract/ids.ts'
import type { Decided } from '../../policy/decide.ts'
import type { Role } from '../../policy/types.ts'
import type { ChainTx } from '../chain-tx.ts'
import type { ApprovalRecord } from '../records.ts'
import { countingVotes, strictest, type Requirement } from './requirement.ts'

/* What runs and agents have in common when a rule holds a call. */

/** What the rules and settings of this moment ask of an approval (contract section 6). */
function requirementNow(tx: ChainTx, decided: Decided): Requirement {
  return {
    approver: decided.approver,
    needed: Math.max(tx.policy.settings.approval_threshold, decided.approvalsNeeded),
  }
}

/** Whether its votes satisfy the strictest of what it was asked for and what is asked now. */
export function suffices(
  tx: ChainTx,
  decided: Decided,
  approval: ApprovalRecord,
  roles: ReadonlyMap<string, Role>,
): boolean {
  const needs = strictest(requirementNow(tx, decided), { approver: approval.approver, needed: 1 })
  return countingVotes(approval, needs.approver, roles, tx.policy.settings) >= needs.needed
}

/** A new approval of a held call, which waits for `seconds` unless its rule says otherwise; 0 = for ever. */
export function pendingApproval(
  tx: ChainTx,
  decided: Decided,
  call: Pick<
    ApprovalRecord,
    'kind' | 'run_id' | 'step_id' | 'item_index' | 'session_id' | 'requested_by' | 'params_hash' | 'labels'
  >,
  seconds: number,
): ApprovalRecord {
  const { approver, needed } = requirementNow(tx, decided)
  const lasts = decided.expiresAfterSeconds ?? seconds
  return {
    id: newId('approval'),
    ...call,
    rule_name: decided.ruleName,
    approver,
    approvals_needed: needed,
    expires_at: lasts === 0 ? null : new Date(tx.now.getTime() + lasts * 1_000).toISOString(),
    votes: [],
    status: 'pending',
    decided_at: null,
    used_at: null,
    used_by: null,
    superseded_by: null,
  }
}
