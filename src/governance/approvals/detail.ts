import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import { readApprovalDetail } from '../../db/queries/approvals.ts'
import type { LabelSource, MatchedRule } from '../../db/schema/runs.ts'
import type { Viewer } from '../access/viewer.ts'
import type { DomainError } from '../errors.ts'
import { readSettings } from '../../policy/settings.ts'
import { endedRefusal, voterRefusal } from './refusals.ts'
import {
  approving,
  bestOf,
  decisionRefusal,
  fillSeats,
  missingVotes,
  requirementOf,
  type Requirement,
  type StoredTerms,
  type Voted,
  type Voter,
} from './requirement.ts'
import type { ApprovalDetail } from './read.ts'
import { mostRevisions } from './edits.ts'
import { readDeletedGroups, readVoters, whyNobodyCan } from './voters.ts'
import { rightsOf } from './rights.ts'
import { shownSeats } from '../../policy/seats.ts'
import { isOverSql } from './state.ts'
import { readQuestion } from './question.ts'
import type { VersionReader } from '../runs/values/version-cache.ts'

interface Row extends Voted, StoredTerms {
  readonly kind: ApprovalKind
  readonly status: ApprovalStatus
  readonly is_over: boolean
  readonly can_be_edited: boolean
  readonly agent_name: string | null
  readonly agent_kind: string | null
  readonly rule_name: string | null
  readonly explanation: string | null
  readonly matched_rules: readonly MatchedRule[] | null
  readonly label_sources: readonly LabelSource[] | null
  readonly settings: object
  readonly observed_outcome: string | null
  readonly observed_at: Date | null
  readonly expires_at: Date | null
  readonly typed_by: readonly string[]
}

/** People who can still vote are counted up to this number. An approval needs at most 100 votes. */
const mostCounted = 100

/** The approval must exist in the viewer's organization. */
export async function readDetail(
  context: VersionReader,
  viewer: Viewer,
  approvalId: string,
): Promise<ApprovalDetail> {
  const { db } = context
  const { organizationId } = viewer
  const row = await readRow(db, organizationId, approvalId)
  const asked = row.kind === 'ask' ? await readQuestion(context, organizationId, approvalId) : null
  const hasStandIn = asked?.question?.otherwise !== undefined
  const { required, voter, refusal } = await standingOf(db, viewer, row, hasStandIn)
  const people = row.status === 'pending' ? await readVoters(db, organizationId, required.seats) : []
  const left = people.filter((person) => decisionRefusal(person, row, required) === null).length
  const filled = fillSeats(required.seats, approving(row.votes, row, required))
  return {
    agent: row.agent_name === null ? null : { name: row.agent_name, kind: row.agent_kind ?? '' },
    explanation: row.explanation,
    held_by: holding(row),
    label_sources: row.label_sources ?? [],
    votes_missing: missingVotes(row.votes, row, required),
    seats: shownSeats(required.seats).map((seat, index) => ({ ...seat, filled: filled[index] ?? 0 })),
    voters_left: Math.min(left, mostCounted),
    cannot_be_given:
      row.status === 'pending'
        ? whyNobodyCan(people, row, required, await readDeletedGroups(db, required.seats))
        : null,
    vote_refused: refusal?.message ?? null,
    can_be_edited: row.can_be_edited && asksForEdits.has(row.kind),
    deciding_for: refusal === null ? await absentPerson(db, organizationId, voter.for_user) : null,
    observed:
      row.observed_at === null
        ? null
        : { outcome: row.observed_outcome ?? 'finished', at: row.observed_at.toISOString() },
  }
}

/** Null if the vote would count. It is as of now: check it again under the lock. The approval is one of a call. */
export const readVoteRefusal = async (
  db: Db,
  viewer: Viewer,
  approvalId: string,
): Promise<DomainError | null> =>
  (await standingOf(db, viewer, await readRow(db, viewer.organizationId, approvalId))).refusal

async function readRow(db: Db, organizationId: string, approvalId: string): Promise<Row> {
  const isOver = isOverSql(sql<Date>`clock_timestamp()`)
  const { rows } = await readApprovalDetail<Row>({
    approvalId,
    organizationId,
    isOver,
    mostEdits: mostRevisions,
  }).execute(db)
  return rows[0] as Row
}

async function standingOf(
  db: Db,
  { organizationId, userId, role }: Viewer,
  row: Row,
  hasStandIn = false,
): Promise<{ required: Requirement; voter: Voter; refusal: DomainError | null }> {
  const required = requirementOf(row, readSettings(row.settings))
  const voter = bestOf(await rightsOf(db, organizationId, { userId, role }), row, required)
  const refusal =
    endedRefusal({ ...row, isDue: row.is_over && row.status === 'pending', hasStandIn }) ??
    (await voterRefusal(db, organizationId, voter, row, required))
  return { required, voter, refusal }
}

const asksForEdits: ReadonlySet<ApprovalKind> = new Set(['step', 'edit', 'revision'])

async function absentPerson(
  db: Db,
  organizationId: string,
  userId: string | null,
): Promise<ApprovalDetail['deciding_for']> {
  if (userId === null) return null
  const row = await db
    .selectFrom('absences as a')
    .innerJoin('users as u', 'u.id', 'a.user_id')
    .select(['u.email', 'a.until_at'])
    .where('a.organization_id', '=', organizationId)
    .where('a.user_id', '=', userId)
    .executeTakeFirst()
  return row === undefined ? null : { user_id: userId, email: row.email, until: row.until_at.toISOString() }
}

/** Enforced rules that require an approval. The deciding rule comes first. */
function holding({ rule_name, matched_rules }: Pick<Row, 'rule_name' | 'matched_rules'>): string[] {
  const others = (matched_rules ?? []).flatMap(({ name, verdict, shadow }) =>
    verdict === 'require_approval' && !shadow ? [name] : [],
  )
  return [...new Set([...(rule_name === null ? [] : [rule_name]), ...others])]
}
