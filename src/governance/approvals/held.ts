import { newId } from '../../contract/ids.ts'
import type { Decided } from '../../policy/decide.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { ApprovalRecord } from './records.ts'
import type { Requirement } from './requirement.ts'

/* What every new approval gets: of whole runs, and of calls of runs and agents. */

export function requirementNow(tx: ChainTx, decided: Decided): Requirement {
  const { approval_threshold, allow_self_approval } = tx.policy.settings
  return {
    approver: decided.approver,
    needed: Math.max(approval_threshold, decided.approvalsNeeded),
    allowSelfApproval: allow_self_approval,
  }
}

export interface HeldAgain {
  readonly former: ApprovalRecord
  /** One sentence for people. It contains no value of the call. */
  readonly because: string
  /** Whether the state that the approvers saw has changed. */
  readonly hasChanged: boolean
}

type StoredLater = 'id' | 'approver' | 'approvals_needed' | 'expires_at' | 'votes' | 'status' | 'decided_at'
type StoredAtUse = 'used_at' | 'used_by' | 'superseded_by'
type FromFormer = 'supersedes_id' | 'held_again' | 'state_changes'

/** `seconds` until it expires; 0 means never. */
export function pendingApproval(
  tx: ChainTx,
  held: Omit<ApprovalRecord, StoredLater | StoredAtUse | FromFormer>,
  { approver, needed }: Pick<Requirement, 'approver' | 'needed'>,
  seconds: number,
  {
    id = newId('approval'),
    again = null,
  }: { readonly id?: string | undefined; readonly again?: HeldAgain | null } = {},
): ApprovalRecord {
  return {
    id,
    ...held,
    supersedes_id: again?.former.id ?? null,
    held_again: again?.because ?? null,
    state_changes: (again?.former.state_changes ?? 0) + (again?.hasChanged === true ? 1 : 0),
    approver,
    approvals_needed: needed,
    expires_at: seconds === 0 ? null : new Date(tx.now.getTime() + seconds * 1_000).toISOString(),
    votes: [],
    status: 'pending',
    decided_at: null,
    used_at: null,
    used_by: null,
    superseded_by: null,
  }
}
