import { sql } from 'kysely'
import type { Reading } from '../context.ts'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import { readApprovalDetail } from '../../db/queries/approvals.ts'
import type { LabelSource, MatchedRule } from '../../db/schema/runs.ts'
import type { Viewer } from '../access/viewer.ts'
import { readSettings } from '../../policy/settings.ts'
import { endedRefusal, voterRefusal } from './refusals.ts'
import {
  countingVotes,
  decisionRefusal,
  requirementOf,
  type FirstPeople,
  type VoteWithRole,
} from './requirement.ts'
import type { ApprovalDetail } from './read.ts'
import { isOverSql } from './state.ts'

interface Row extends FirstPeople {
  readonly kind: ApprovalKind
  readonly status: ApprovalStatus
  readonly approver: 'admin' | 'owner'
  readonly approvals_needed: number
  readonly is_over: boolean
  readonly agent_name: string | null
  readonly agent_kind: string | null
  readonly rule_name: string | null
  readonly explanation: string | null
  readonly matched_rules: readonly MatchedRule[] | null
  readonly label_sources: readonly LabelSource[] | null
  readonly settings: object
  readonly observed_outcome: string | null
  readonly observed_at: Date | null
  readonly votes: readonly VoteWithRole[]
  readonly deciders: readonly Pick<VoteWithRole, 'user_id' | 'role'>[]
}

/** People who can still vote are counted up to this number. An approval needs at most 20 votes. */
const mostDeciders = 100

/** The approval must exist in the viewer's organization. */
export async function readDetail(
  { db }: Reading,
  { organizationId, userId, role }: Viewer,
  approvalId: string,
): Promise<ApprovalDetail> {
  const { rows } = await readApprovalDetail<Row>({
    approvalId,
    organizationId,
    isOver: isOverSql(sql<Date>`clock_timestamp()`),
    mostDeciders,
  }).execute(db)
  const row = rows[0] as Row
  const required = requirementOf(row, readSettings(row.settings))
  const counting = countingVotes(row.votes, row, required)
  const refusal =
    endedRefusal({ ...row, isDue: row.is_over && row.status === 'pending' }) ??
    (await voterRefusal(db, organizationId, { user_id: userId, role }, row, required))
  return {
    agent: row.agent_name === null ? null : { name: row.agent_name, kind: row.agent_kind ?? '' },
    explanation: row.explanation,
    held_by: holding(row),
    label_sources: row.label_sources ?? [],
    votes_missing: Math.max(0, required.needed - counting),
    voters_left:
      row.status === 'pending'
        ? row.deciders.filter((person) => decisionRefusal(person, row, required) === null).length
        : 0,
    vote_refused: refusal?.message ?? null,
    observed:
      row.observed_at === null
        ? null
        : { outcome: row.observed_outcome ?? 'finished', at: row.observed_at.toISOString() },
  }
}

/** Enforced rules that require an approval. The deciding rule comes first. */
function holding({ rule_name, matched_rules }: Pick<Row, 'rule_name' | 'matched_rules'>): string[] {
  const others = (matched_rules ?? []).flatMap(({ name, verdict, shadow }) =>
    verdict === 'require_approval' && !shadow ? [name] : [],
  )
  return [...new Set([...(rule_name === null ? [] : [rule_name]), ...others])]
}
