import { newId } from '../../contract/ids.ts'
import type { Decided } from '../../policy/decide.ts'
import type { Role } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { withRoles, type ApprovalRecord } from './records.ts'
import type { Requirement } from './requirement.ts'
import { approvalState, type ApprovalState } from './state.ts'

/* Functions for calls that need an approval. Calls of runs and calls of agents use these functions. */

/** Returns the role of the approvers and the number of votes that the rules and settings require at this moment. */
export function requirementNow(tx: ChainTx, decided: Decided): Requirement {
  const { approval_threshold, allow_self_approval } = tx.policy.settings
  return {
    approver: decided.approver,
    needed: Math.max(approval_threshold, decided.approvalsNeeded),
    allowSelfApproval: allow_self_approval,
  }
}

/**
 * Returns the state of an approval at the moment when a call or run wants to use it. `user` identifies this call or run
 * in the format of `used_by`. The votes must satisfy the rules of this moment. An approval that was requested from
 * owners still needs the votes of owners, even if the rules now require only admins.
 */
export function stateAtUse(
  { tx, ledger }: { readonly tx: ChainTx; readonly ledger: { readonly roles: ReadonlyMap<string, Role> } },
  decided: Decided,
  approval: ApprovalRecord,
  user: string | null,
): ApprovalState {
  const required = requirementNow(tx, decided)
  const approver = approval.approver === 'owner' ? 'owner' : required.approver
  const votes = withRoles(approval, ledger.roles)
  return approvalState(approval, votes, { ...required, approver }, tx.now, user)
}

/** The reasons why a call is held again, as texts for people. */
export const heldAgain = {
  used: 'another call has used its approval',
  params: 'its parameters are not those that were approved',
  labels: 'it carries a label that its approvers were not shown',
  votes: 'its votes are not enough under the present rules, settings and roles',
  late: 'its approval has expired',
} as const

/** The former approval of a call, and the reason why the call is held again. */
export interface HeldAgain {
  readonly former: ApprovalRecord
  /** The reason as one sentence for people. It contains no value of the call. */
  readonly because: string
  /** Whether the state that the approvers saw has changed. */
  readonly hasChanged: boolean
}

type StoredLater = 'id' | 'approver' | 'approvals_needed' | 'expires_at' | 'votes' | 'status' | 'decided_at'
type StoredAtUse = 'used_at' | 'used_by' | 'superseded_by'
type FromFormer = 'supersedes_id' | 'held_again' | 'state_changes'

/** Makes the record of a new pending approval. The approval expires after `seconds`; 0 means that it never expires. */
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
