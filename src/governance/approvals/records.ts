import type { RawBuilder } from 'kysely'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import {
  insertNewApprovals,
  insertNewDecisions,
  insertVotes,
  newestApproval,
} from '../../db/queries/approvals.ts'
import type {
  ApprovalRevision,
  DecisionsTable,
  LabelSource,
  MatchedRule,
  Risk,
} from '../../db/schema/runs.ts'
import type { Role, SideEffect } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { isRole, peopleFor, withThreshold, type HeldSeat, type Later, type Seat } from '../../policy/seats.ts'
import { termsToStore, type Requirement, type StoredTerms, type VoteWithRole } from './requirement.ts'
import { newId } from '../../contract/ids.ts'
import type { Decided } from '../../policy/decide.ts'

/* Records change in memory under the chain lock, and one statement writes all of them. */

export interface VoteRecord {
  readonly user_id: string
  /** The absent person by whose right they voted; null: by their own. */
  readonly for_user: string | null
  /** Whether the absence, if there is one, still covers the vote. */
  readonly is_covered: boolean
  readonly at: string
  readonly email: string
  readonly decision: 'approve' | 'reject'
  readonly comment: string
  readonly changes_requested: boolean
}

export interface ApprovalRecord {
  readonly id: string
  readonly kind: ApprovalKind
  readonly run_id: string | null
  readonly workflow_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  /** Is null if the approval is not for an agent's call. */
  readonly session_id: string | null
  readonly requested_by: string
  /** Ids of the authors of the run's version. */
  readonly authors: readonly string[]
  readonly params_hash: string | null
  readonly labels: string[]
  readonly rule_name: string | null
  /** The former approval, replaced for the reason in `held_again`. Null for the first one of a call. */
  readonly supersedes_id: string | null
  readonly held_again: string | null
  readonly state_changes: number
  readonly approver: 'admin' | 'owner' | null
  readonly approvals_needed: number
  readonly seats: readonly HeldSeat[] | null
  readonly typed_by: readonly string[]
  readonly may_edit: readonly string[]
  readonly created_at: string
  readonly remind_at: string | null
  readonly expires_at: string | null
  readonly votes: readonly VoteRecord[]
  status: ApprovalStatus
  decided_at: string | null
  used_at: string | null
  used_by: string | null
  superseded_by: string | null
  answered_by: string | null
  answered_for: string | null
  revision: ApprovalRevision | null
  /** Null for a whole run. */
  decision_id: string | null
}

export interface NewApproval {
  record: ApprovalRecord
  sealed: Buffer | null
  /** The sealed `ApprovedState`; null if no state was read. */
  state: Buffer | null
  tool: string | null
  /** What a change would do, or what a question asks, in one sentence without values. */
  title?: string
  side_effect: SideEffect | null
  /** The host to which the call goes; null if it stays here, and for a whole run. */
  destination: string | null
  rule_id: string | null
  risk: Risk
  /** Ids of what a change would change. */
  touches?: readonly string[]
  /** The vote of the approver who edited the call. */
  vote?: { readonly user_id: string; readonly for_user: string | null; readonly comment: string }
}

export type NewDecision = Omit<DecisionsTable, 'matched_rules' | 'label_sources' | 'attempt' | 'bytes'> & {
  matched_rules: readonly MatchedRule[]
  label_sources: readonly LabelSource[]
  attempt: number
}

/** From the database's JSON, with an offset such as `+00:00`, to ISO 8601 with `Z`. */
export const isoTime = (time: string | null): string | null =>
  time === null ? null : new Date(time).toISOString()

/** Roles and ids of groups, by the id of the person. */
export interface Standings {
  readonly roles: ReadonlyMap<string, Role>
  readonly groups: ReadonlyMap<string, readonly string[]>
}

export const withRoles = (approval: ApprovalRecord, { roles, groups }: Standings): VoteWithRole[] =>
  approval.votes.map((vote) => {
    const holder = vote.for_user ?? vote.user_id
    return {
      ...vote,
      role: vote.is_covered ? (roles.get(holder) ?? null) : null,
      groups: groups.get(holder) ?? [],
    }
  })

/** With the current roles and groups of the voters. Call this function under the chain lock. */
export async function loadApproval(
  tx: ChainTx,
  where: RawBuilder<unknown>,
): Promise<{ approval: ApprovalRecord; tool: string | null; votes: readonly VoteWithRole[] } | null> {
  const [row] = await tx.send(newestApproval<ApprovalRecord>(tx.organizationId, where))
  if (row === undefined) return null
  const { approval, tool } = row
  const roles = new Map(Object.entries(row.roles ?? {}))
  return {
    approval,
    tool,
    votes: withRoles(approval, { roles, groups: new Map(Object.entries(row.groups ?? {})) }),
  }
}

export function insertApprovals(tx: ChainTx, approvals: readonly NewApproval[]): RawBuilder<unknown> {
  const rows = approvals.map(({ record, sealed: _sealed, state: _state, vote: _vote, ...rest }) => ({
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

/** CTE for the votes of new approvals; null if there are none. */
export function insertFirstVotes(
  { now }: ChainTx,
  approvals: readonly NewApproval[],
): RawBuilder<unknown> | null {
  const votes = approvals.flatMap(({ record, vote }) =>
    vote === undefined ? [] : [{ approval_id: record.id, ...vote }],
  )
  return votes.length === 0 ? null : insertVotes(votes, now)
}

/** Bytes that a decision takes in addition to its JSON: indexes, and what is later recorded about its call. */
const decisionBytes = 256

/** Also adds the decisions' bytes to the organization's counter. */
export function insertDecisions(tx: ChainTx, decisions: readonly NewDecision[]): RawBuilder<unknown> {
  const rows = decisions.map((decision) => {
    const text = JSON.stringify(decision)
    const bytes = Buffer.byteLength(text) + decisionBytes
    tx.stores(bytes)
    return `${text.slice(0, -1)},"bytes":${bytes}}`
  })
  return insertNewDecisions(`[${rows.join(',')}]`)
}

/* What every new approval gets: of whole runs, and of calls of runs and agents. */

/** `heldAt`: when the call was held, for a new approval now. */
export const requirementNow = (
  { policy, now }: Pick<ChainTx, 'policy' | 'now'>,
  { seats }: Pick<Decided, 'seats'>,
  heldAt = now,
): Requirement => requirementFor(seats, policy, heldAt)

/** With the groups that have these names now. */
export function requirementFor(
  seats: readonly Seat[],
  { settings, groups }: Pick<ChainTx['policy'], 'settings' | 'groups'>,
  heldAt: Date,
): Requirement {
  const { approval_threshold: threshold, allow_self_approval: allowSelfApproval } = settings
  const held = (who: Seat | Later) =>
    isRole(who) ? { role: who.role } : { group: who.group, id: groups.get(who.group) ?? null }
  return {
    seats: withThreshold(seats, threshold).map((seat) => ({
      ...held(seat),
      count: seat.count,
      ...(seat.also === undefined
        ? {}
        : { also: seat.also.map((later) => ({ ...held(later), at: after(heldAt, later.after_seconds) })) }),
    })),
    needed: Math.max(threshold, peopleFor(seats)),
    allowSelfApproval,
  }
}

export interface HeldAgain {
  readonly former: ApprovalRecord
  /** One sentence for people. It contains no value of the call. */
  readonly because: string
  /** Whether the state that the approvers saw has changed. */
  readonly hasChanged: boolean
  /** Nobody is asked to approve: the requester is asked to edit the call. */
  readonly asksForChanges?: boolean
}

/** ISO 8601. */
const after = (time: Date, seconds: number): string =>
  new Date(time.getTime() + seconds * 1_000).toISOString()

export interface Times {
  /** 0 means never. */
  readonly expiresAfterSeconds: number
  /** Null: nobody is reminded. */
  readonly remindAfterSeconds: number | null
}

type StoredLater =
  'id' | keyof StoredTerms | 'created_at' | 'remind_at' | 'expires_at' | 'votes' | 'status' | 'decided_at'
type StoredAtUse = 'used_at' | 'used_by' | 'superseded_by' | 'answered_by' | 'answered_for' | 'revision'
/** Only of calls of runs. */
type Typed = 'typed_by' | 'may_edit'
type FromFormer = 'supersedes_id' | 'held_again' | 'state_changes'

/** Until the approval of an agent's call expires, unless a rule sets another time. */
export const agentApprovalSeconds = 3_600

export function pendingApproval(
  tx: ChainTx,
  held: Omit<ApprovalRecord, StoredLater | StoredAtUse | FromFormer | Typed> &
    Partial<Pick<ApprovalRecord, Typed>>,
  terms: Pick<Requirement, 'seats' | 'needed'>,
  { expiresAfterSeconds: seconds, remindAfterSeconds: reminder }: Times,
  {
    id = newId('approval'),
    again = null,
  }: { readonly id?: string | undefined; readonly again?: HeldAgain | null } = {},
): ApprovalRecord {
  return {
    id,
    typed_by: [],
    may_edit: [],
    ...held,
    supersedes_id: again?.former.id ?? null,
    held_again: again?.because ?? null,
    state_changes: (again?.former.state_changes ?? 0) + (again?.hasChanged === true ? 1 : 0),
    ...termsToStore(terms),
    created_at: tx.now.toISOString(),
    remind_at: reminder === null ? null : after(tx.now, reminder),
    expires_at: seconds === 0 ? null : after(tx.now, seconds),
    votes: [],
    status: 'pending',
    decided_at: null,
    used_at: null,
    used_by: null,
    superseded_by: null,
    answered_by: null,
    answered_for: null,
    revision: null,
  }
}
