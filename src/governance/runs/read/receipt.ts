import type { Db } from '../../../db/schema/index.ts'
import type { LabelSource, MatchedRule } from '../../../db/schema/runs.ts'
import type { SideEffect, Verdict } from '../../../policy/types.ts'
import { briefColumns, briefOf, type ApprovalBrief } from '../../approvals/brief.ts'
import { readVotes, type VoteView } from '../../approvals/votes.ts'
import { notFound } from '../../errors.ts'
import { listInParts, objectInParts, type JsonParts } from '../../../shared/json-parts.ts'
import type { Resolution } from '../../../contract/sought.ts'
import { resolutionOf } from '../../approvals/unknown.ts'
import { writeCursor, readCursor } from '../../page.ts'
import { sql } from 'kysely'
import type { Reading } from '../../context.ts'

/** See docs/reference/effects.md, "Receipts". */
export interface ReceiptView {
  readonly run_id: string
  /** Is null for an agent's session. */
  readonly workflow_id: string | null
  readonly workflow_version: number | null
  /** The newest approvals of the whole run. */
  readonly run_approvals: readonly ApprovalBrief[]
  readonly decisions: readonly ReceiptDecision[]
  /** Steps that took their outcome from an earlier run, without a decision. At most `mostReused`. */
  readonly reused: readonly ReusedStep[]
  /** What people said about calls with an unknown outcome, the oldest first. At most `mostSaid`. */
  readonly resolutions: readonly (Resolution & { readonly step_id: string })[]
  readonly rules_version: number
  readonly audit_head: { readonly seq: number; readonly hash: string }
}

export interface ReusedStep {
  readonly step_id: string
  readonly item_index: number | null
  /** The run that made the call; its receipt has the decision. */
  readonly run_id: string
}

export interface ReceiptDecision {
  readonly decision_id: string
  readonly seq: number
  readonly step_id: string | null
  readonly item_index: number | null
  /** The id that an agent's client gave to the call. Is null for a call of a run. */
  readonly tool_use_id: string | null
  readonly tool: string
  readonly side_effect: SideEffect
  /** The host to which the call goes. Is null if the call stays here, and for a call of an agent. */
  readonly destination: string | null
  readonly verdict: Verdict
  readonly rule_id: string | null
  readonly rule_name: string | null
  readonly matched_rules: readonly MatchedRule[]
  readonly reason: string
  readonly explanation: string
  readonly labels: readonly string[]
  readonly label_sources: readonly LabelSource[]
  readonly params_hash: string
  readonly approval:
    | (ApprovalBrief & {
        /** The id of the former approval that this approval replaces. `held_again` is the reason for the new approval. */
        readonly supersedes_id: string | null
        readonly held_again: string | null
      })
    | null
  /** Is null if the call was not held. */
  readonly held_at: string | null
  /** Is null for an agent's call, and if this decision did not allow the newest attempt. */
  readonly executed_at: string | null
  /**
   * For the newest decision, the current state of the call. For an earlier attempt `failed`,
   * `unknown_outcome`, or `superseded` if it ended without an outcome. For an agent's call, the reported
   * outcome or null.
   */
  readonly outcome: string | null
  readonly decided_at: string
}

/** The decisions that exist now, read only when the caller takes them. Throws `not_found`. */
export async function readReceipt(
  db: Db,
  organizationId: string,
  runId: string,
  page: ReceiptPage = { limit: undefined, cursor: null },
): Promise<JsonParts> {
  const run = await readHead(db, organizationId, runId)
  const last = await lastDecision(db, runId)
  const isNewest = page.isNewestFirst === true
  const { from, to, next } = isNewest ? newestSpan(page, last.seq) : oldestSpan(page, last.seq)
  const isWhole = page.limit === undefined && page.cursor === null && !isNewest
  const between = () => decisionsBetween(db, runId, from, to)
  return objectInParts({
    run_id: runId,
    workflow_id: run.workflow_id,
    workflow_version: run.workflow_version,
    rules_version: last.policy_version ?? run.policy_version,
    audit_head: { seq: run.seq, hash: run.hash },
    run_approvals: await readRunApprovals(db, runId),
    reused: await readReused(db, runId),
    resolutions: await readSaid(db, runId),
    decisions: listInParts(isNewest ? () => reversed(between()) : between),
    ...(isWhole ? {} : { next_cursor: next === null ? null : writeCursor(String(next)) }),
  } satisfies Record<keyof ReceiptView, unknown> & { next_cursor?: string | null })
}

export const mostReused = 1_000
export const mostSaid = 1_000

async function readSaid(db: Db, runId: string): Promise<ReceiptView['resolutions']> {
  const rows = await db
    .selectFrom('resolutions')
    .selectAll()
    .where('run_id', '=', runId)
    .orderBy('at')
    .orderBy('step_id')
    .orderBy('item_index')
    .limit(mostSaid)
    .execute()
  return rows.map((row) => ({ step_id: row.step_id, ...resolutionOf(row) }))
}

async function readReused(db: Db, runId: string): Promise<ReusedStep[]> {
  const rows = await db
    .selectFrom('effects')
    .select(['step_id', 'item_index', 'reused_from'])
    .where('run_id', '=', runId)
    .where('reused_from', 'is not', null)
    .orderBy('step_id')
    .orderBy('item_index')
    .limit(mostReused)
    .execute()
  return rows.map(({ step_id, item_index, reused_from }) => ({
    step_id,
    item_index: item_index < 0 ? null : item_index,
    run_id: reused_from ?? '',
  }))
}

/** One read returns at most `mostRows` decisions with at most `mostBytes` bytes, and always at least one decision. */
const mostRows = 200

async function* decisionsBetween(
  db: Db,
  runId: string,
  from: number,
  to: number,
): AsyncGenerator<ReceiptDecision> {
  for (let after = from; after < to;) {
    const until = await batchEnd(db, runId, after, to)
    const decisions = await readDecisions({ db }, runId, after, until)
    const votes = await readVotes({ db }, [...new Set(decisions.flatMap((each) => each.approval_id ?? []))])
    for (const each of decisions)
      if (!isShownAtItsUse(each) && !isAskedAgain(each)) yield receiptDecision(each, votes)
    after = until
  }
}

/** The `seq` of the last decision of one read, which returns at least one. */
async function batchEnd(db: Db, runId: string, after: number, to: number): Promise<number> {
  const rows = await db
    .selectFrom('decisions')
    .select(['seq', 'bytes'])
    .where('run_id', '=', runId)
    .where('seq', '>', after)
    .where('seq', '<=', to)
    .orderBy('seq')
    .limit(mostRows)
    .execute()
  let bytes = 0
  const fitting = rows.filter((row, index) => (bytes += row.bytes) <= 1024 ** 2 || index === 0)
  return fitting.at(-1)?.seq ?? to
}

/** The decision and its approval are from one transaction, so they have the same time. */
const isHold = (each: DecisionRow): boolean =>
  each.held_at !== null && each.held_at.getTime() === each.decided_at.getTime()

/** An approved call is shown once: at the decision that used the approval, and not at earlier questions. */
const isShownAtItsUse = (each: DecisionRow): boolean =>
  each.approval_used_at !== null &&
  (each.session_id === null ? isHold(each) : each.verdict === 'require_approval')

/** The hook, and then the gateway behind it, can ask about one call. Only the first decision is shown. */
const isAskedAgain = (each: DecisionRow): boolean =>
  each.verdict === 'allow' && each.first_allowed !== null && (each.seq ?? 0) > each.first_allowed

function receiptDecision(
  each: DecisionRow,
  votes: ReadonlyMap<string, readonly VoteView[]>,
): ReceiptDecision {
  return {
    decision_id: each.id,
    seq: each.seq ?? 0,
    step_id: each.step_id,
    item_index: each.item_index,
    tool_use_id: each.tool_use_id,
    tool: each.tool,
    side_effect: each.side_effect,
    destination: each.destination,
    verdict: each.verdict,
    rule_id: each.rule_id,
    rule_name: each.rule_name,
    matched_rules: each.matched_rules,
    reason: each.reason,
    explanation: each.explanation,
    labels: each.labels,
    label_sources: each.label_sources,
    params_hash: each.params_hash ?? '',
    approval:
      each.approval_id === null
        ? null
        : {
            ...briefOf(each.approval_id, each, votes),
            supersedes_id: each.supersedes_id,
            held_again: each.held_again,
          },
    held_at: each.held_at?.toISOString() ?? null,
    // Only the newest decision has it: earlier ones allowed earlier attempts, or held the call.
    executed_at: each.effect_decision === each.id ? (each.intent_at?.toISOString() ?? null) : null,
    outcome: each.session_id === null ? outcomeOf(each) : seen(each),
    decided_at: each.decided_at.toISOString(),
  }
}

function outcomeOf(each: DecisionRow): string | null {
  if (each.effect_decision === each.id || each.effect_state === null) return each.effect_state
  return each.past_outcomes?.find(({ decision_id }) => decision_id === each.id)?.outcome ?? 'superseded'
}

/** Returns `finished` for a report without an outcome, and null if there is no report. */
function seen({
  observed_at,
  observed_outcome,
}: {
  observed_at: Date | null
  observed_outcome: string | null
}) {
  return observed_at === null ? null : (observed_outcome ?? 'finished')
}

const mostRunApprovals = 20

async function readRunApprovals(db: Db, runId: string): Promise<ApprovalBrief[]> {
  const rows = await db
    .selectFrom('approvals as a')
    .select(briefColumns)
    .select('a.id')
    .where('a.run_id', '=', runId)
    .where('a.kind', '=', 'run')
    .orderBy('a.id', 'desc')
    .limit(mostRunApprovals)
    .execute()
  const votes = await readVotes(
    { db },
    rows.map(({ id }) => id),
  )
  return rows.map((row) => briefOf(row.id, row, votes))
}

async function readHead(db: Db, organizationId: string, runId: string) {
  const run = await db
    .selectFrom('runs as r')
    .innerJoin('chain_head as h', 'h.organization_id', 'r.organization_id')
    .select(['r.workflow_id', 'r.workflow_version', 'h.seq', 'h.hash', 'h.policy_version'])
    .where('r.id', '=', runId)
    .where('r.organization_id', '=', organizationId)
    .executeTakeFirst()
  if (run !== undefined) return run
  const session = await db
    .selectFrom('agent_sessions as s')
    .innerJoin('chain_head as h', 'h.organization_id', 's.organization_id')
    .select(['h.seq', 'h.hash', 'h.policy_version'])
    .where('s.run_id', '=', runId)
    .where('s.organization_id', '=', organizationId)
    .executeTakeFirst()
  if (session === undefined) throw notFound('run', runId)
  return { ...session, workflow_id: null, workflow_version: null }
}

/** Returns 0 and null if there is no decision. */
async function lastDecision(
  db: Db,
  runId: string,
): Promise<{ readonly seq: number; readonly policy_version: number | null }> {
  const row = await db
    .selectFrom('decisions')
    .select(['seq', 'policy_version'])
    .where('run_id', '=', runId)
    .where('seq', 'is not', null)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst()
  return { seq: row?.seq ?? 0, policy_version: row?.policy_version ?? null }
}

export type DecisionRow = Awaited<ReturnType<typeof readDecisions>>[number]

/** Reads the decisions with a `seq` above `after` and up to `until`, with their approvals, calls and reports. */
export function readDecisions(context: Reading, runId: string, after: number, until: number) {
  return (
    context.db
      .selectFrom('decisions as d')
      .leftJoin('approvals as a', 'a.id', 'd.approval_id')
      .leftJoin('effects as e', (join) =>
        join
          .onRef('e.run_id', '=', 'd.run_id')
          .onRef('e.step_id', '=', 'd.step_id')
          .on((eb) => eb('e.item_index', '=', eb.fn.coalesce('d.item_index', eb.lit(-1)))),
      )
      .leftJoin('agent_observations as o', 'o.decision_id', 'd.id')
      // The client's report can belong to any decision that allowed this call with this approval.
      .leftJoinLateral(
        (eb) =>
          eb
            .selectFrom('decisions as same')
            .leftJoin('agent_observations as r', 'r.decision_id', 'same.id')
            .select([
              sql<number | null>`min(same.seq)`.as('first_allowed'),
              sql<Date | null>`min(r.at)`.as('reported_at'),
              sql<string | null>`(array_agg(r.outcome order by r.at))[1]`.as('reported_outcome'),
            ])
            .whereRef('same.approval_id', '=', 'd.approval_id')
            .where('same.verdict', '=', 'allow')
            .where('d.session_id', 'is not', null)
            .as('use'),
        (join) => join.onTrue(),
      )
      .selectAll('d')
      .select(briefColumns)
      .select([
        'a.created_at as held_at',
        'a.used_at as approval_used_at',
        'a.supersedes_id',
        'a.held_again',
        'e.past_outcomes',
        'e.state as effect_state',
        'e.decision_id as effect_decision',
        'e.intent_at',
        'use.first_allowed',
      ])
      .select((eb) => [
        eb.fn.coalesce('o.at', 'use.reported_at').as('observed_at'),
        eb.fn.coalesce('o.outcome', 'use.reported_outcome').as('observed_outcome'),
      ])
      .where('d.run_id', '=', runId)
      .where('d.seq', '>', after)
      .where('d.seq', '<=', until)
      .orderBy('d.seq')
      .execute()
  )
}

/** At most `limit` decisions after the cursor. */
export interface ReceiptPage {
  readonly limit: number | undefined
  readonly cursor: string | null
  /** Such a receipt is always read in pages. */
  readonly isNewestFirst?: boolean
}

/** For the newest decisions, if the request has no `limit`. */
const usualLimit = 50

/** Sequence numbers above `from` and up to `to`. `next` is null after the last page. */
interface Span {
  readonly from: number
  readonly to: number
  readonly next: number | null
}

export function oldestSpan({ cursor, limit = Infinity }: ReceiptPage, last: number): Span {
  const from = positionAfter(cursor)
  const to = Math.min(last, from + limit)
  return { from, to, next: to < last ? to : null }
}

export function newestSpan({ cursor, limit = usualLimit }: ReceiptPage, last: number): Span {
  const to = cursor === null ? last : Math.min(last, positionAfter(cursor))
  const from = Math.max(0, to - limit)
  return { from, to, next: from > 0 ? from : null }
}

export async function* reversed<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  const all: T[] = []
  for await (const each of items) all.unshift(each)
  yield* all
}

const positionAfter = (cursor: string | null): number => Number(readCursor(cursor, /^\d{1,9}$/) ?? '0')
