import type { Decided } from '../policy/decide.ts'
import { isRole, peopleFor, strictest } from '../policy/seats.ts'
import type { Label } from '../policy/types.ts'
import type { ChainTx } from '../governance/audit/chain-tx.ts'
import {
  requirementNow,
  withRoles,
  type ApprovalRecord,
  type Standings,
} from '../governance/approvals/records.ts'
import {
  requirementOf,
  storedSeats,
  typingTerms,
  type Requirement,
} from '../governance/approvals/requirement.ts'
import { alreadyMade } from './runs/earlier.ts'
import { edited } from './runs/revised.ts'
import { approvalState, type ApprovalState } from '../governance/approvals/state.ts'

/* An approval covers one call with all its technical retries. */

/** The first of these that is true counts. */
export type Standing =
  | 'none'
  /** Another call has used the approval. */
  | 'used'
  | 'rejected'
  | 'withdrawn'
  /** A person has edited the call since. */
  | 'revised'
  /** Nobody approved it in time, and this was noted. */
  | 'expired'
  /** Nobody approved it in time, and this was not noted yet. */
  | 'overdue'
  /** It was given, but its time was over before it was used. */
  | 'unused'
  | 'other_params'
  /** The call carries a label that the approvers were not shown. */
  | 'new_labels'
  | 'pending'
  /** It was given, but its votes do not satisfy the strictest rule that matches now. */
  | 'few_votes'
  /** The state that the approvers saw has changed. */
  | 'new_state'
  | 'usable'

/** `notes`: the approval is marked as expired first. */
export type Step =
  /** If the approval is pending, it is withdrawn. */
  | { readonly does: 'go' }
  | { readonly does: 'use' }
  | { readonly does: 'wait' }
  | { readonly does: 'hold' }
  /** The call is held with a new approval, which replaces this one and says why. */
  | { readonly does: 'hold_again'; readonly because: keyof typeof heldAgain; readonly notes?: true }
  /** The call ends. A rejection gets its reason from the vote. */
  | {
      readonly does: 'end'
      readonly outcome: 'rejected' | 'expired' | 'cancelled'
      readonly reason: string
      readonly notes?: true
    }

/** Texts for people. `state` comes after the name of what has changed. */
export const heldAgain = {
  used: 'another call has used its approval',
  params: 'its parameters are not those that were approved',
  labels: 'it carries a label that its approvers were not shown',
  votes: 'its votes are not enough under the present rules, settings and roles',
  late: 'its approval has expired',
  revised: 'its parameters were edited',
  state: 'has changed since it was approved',
} as const

type ApprovalTable = Readonly<Record<Standing, { readonly required: Step; readonly free: Step }>>

const go: Step = { does: 'go' }
const hold: Step = { does: 'hold' }
const again = (because: keyof typeof heldAgain): Step => ({ does: 'hold_again', because })
const both = (step: Step) => ({ required: step, free: step })

/** A call of a run has one outcome, so the end of its approval ends the call. */
export const tableOfRun: ApprovalTable = {
  none: { required: hold, free: go },
  used: { required: again('used'), free: go },
  rejected: both({ does: 'end', outcome: 'rejected', reason: '' }),
  withdrawn: both({ does: 'end', outcome: 'cancelled', reason: 'its approval was withdrawn' }),
  revised: { required: again('revised'), free: go },
  expired: both({ does: 'end', outcome: 'expired', reason: 'nobody approved it in time' }),
  overdue: both({ does: 'end', outcome: 'expired', reason: 'nobody approved it in time', notes: true }),
  unused: {
    required: { does: 'end', outcome: 'expired', reason: 'its approval expired before it was used' },
    free: go,
  },
  other_params: { required: again('params'), free: go },
  new_labels: { required: again('labels'), free: go },
  pending: { required: { does: 'wait' }, free: go },
  few_votes: { required: again('votes'), free: go },
  new_state: { required: again('state'), free: go },
  usable: { required: { does: 'use' }, free: go },
}

/**
 * An agent can always ask again, so only a rejection ends its call. A call after a used, withdrawn or expired
 * approval is a new call. If its own approval is late, the new approval says so.
 */
export const tableOfAgent: ApprovalTable = {
  ...tableOfRun,
  used: { required: hold, free: go },
  rejected: { required: tableOfRun.rejected.required, free: go },
  withdrawn: { required: hold, free: go },
  expired: { required: hold, free: go },
  overdue: { required: { does: 'hold_again', because: 'late', notes: true }, free: go },
  unused: { required: again('late'), free: go },
}

interface Compared {
  readonly paramsHash: string | null
  readonly labels: readonly Label[]
  /** What has changed since the approvers saw it. */
  readonly changed?: string
}

/** `state` is the approval's state for this call now. */
export function standingOf(
  approval: Pick<ApprovalRecord, 'status' | 'params_hash' | 'labels'>,
  state: ApprovalState,
  { paramsHash, labels, changed }: Compared,
): Standing {
  if (state === 'used' || state === 'rejected' || state === 'withdrawn' || state === 'revised') return state
  if (state === 'expired' && approval.status === 'approved') return 'unused'
  if (state === 'expired') return approval.status === 'pending' ? 'overdue' : 'expired'
  if (approval.params_hash !== paramsHash) return 'other_params'
  const shown = new Set(approval.labels)
  if (labels.some((label) => !shown.has(label))) return 'new_labels'
  if (approval.status === 'pending') return 'pending'
  if (state !== 'usable') return 'few_votes'
  return changed === undefined ? 'usable' : 'new_state'
}

interface Deciding {
  readonly tx: ChainTx
  readonly ledger: Standings
}

/**
 * `user` has the format of `used_by`. The votes must satisfy the rules of this moment. An approval that was
 * requested from owners or a group still needs their votes, even if the rules now require only admins. Expiry is
 * compared with the database's clock.
 */
export function standingNow(
  { tx, ledger }: Deciding,
  decided: Decided,
  approval: ApprovalRecord,
  user: string | null,
  compared: Compared,
): Standing {
  const isOwnHold =
    approval.kind === 'revision' ||
    (approval.kind === 'repeat' && decided.reason === alreadyMade) ||
    decided.reason === edited
  const required = isOwnHold
    ? requirementOf(approval, tx.policy.settings)
    : alsoAsked(requirementNow(tx, decided, new Date(approval.created_at)), approval)
  const votes = withRoles(approval, ledger)
  return standingOf(approval, approvalState(approval, votes, required, tx.now, user), compared)
}

/** The number of people of a role is that of the rules now. */
function alsoAsked(required: Requirement, approval: ApprovalRecord): Requirement {
  const role = required.seats.find(isRole)
  const asked = storedSeats(approval).map((seat) =>
    isRole(seat) && role !== undefined ? { ...seat, count: role.count } : seat,
  )
  const seats = strictest([...required.seats, ...asked])
  return {
    ...required,
    seats,
    needed: Math.max(required.needed, peopleFor(seats)),
    ...typingTerms(approval),
  }
}

export const stepOf = (
  table: ApprovalTable,
  standing: Standing,
  { verdict }: Pick<Decided, 'verdict'>,
): Step => table[standing][verdict === 'require_approval' ? 'required' : 'free']
