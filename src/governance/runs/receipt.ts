import type { Context } from '../../context.ts'
import type { ApprovalStatus } from '../../contract/status.ts'
import type { LabelSource, MatchedRule } from '../../db/schema/runs.ts'
import type { SideEffect, Verdict } from '../../policy/types.ts'
import { readVotes, type VoteView } from '../approvals/votes.ts'
import { notFound } from '../errors.ts'

/** The receipt of a run (contract section 4): every decision with its rule, labels, approval and outcome. */
export interface ReceiptView {
  readonly run_id: string
  /** null: the record of an agent session. */
  readonly workflow_id: string | null
  readonly workflow_version: number | null
  readonly decisions: readonly ReceiptDecision[]
  readonly rules_version: number
  readonly audit_head: { readonly seq: number; readonly hash: string }
}

export interface ReceiptDecision {
  readonly decision_id: string
  readonly seq: number
  readonly step_id: string | null
  readonly item_index: number | null
  /** The client's id of an agent's call. */
  readonly tool_use_id: string | null
  readonly tool: string
  readonly side_effect: SideEffect
  readonly verdict: Verdict
  readonly rule_id: string | null
  readonly rule_name: string | null
  readonly matched_rules: readonly MatchedRule[]
  readonly reason: string
  readonly explanation: string
  readonly labels: readonly string[]
  readonly label_sources: readonly LabelSource[]
  readonly params_hash: string
  readonly approval: {
    readonly id: string
    readonly status: ApprovalStatus
    readonly votes: readonly VoteView[]
  } | null
  /** When the call that this decision let through began; null for one that let nothing through. */
  readonly executed_at: string | null
  /** State of the call's effect; null where this decision let nothing through. */
  readonly outcome: string | null
  readonly decided_at: string
}

/** Throws `not_found` for a run of another organization. */
export async function readReceipt(
  context: Context,
  organizationId: string,
  runId: string,
): Promise<ReceiptView> {
  const run = await readHead(context, organizationId, runId)
  const decisions = await readDecisions(context, runId)
  const votes = await readVotes(context, [...new Set(decisions.flatMap((each) => each.approval_id ?? []))])
  return {
    run_id: runId,
    workflow_id: run.workflow_id,
    workflow_version: run.workflow_version,
    rules_version: decisions.at(-1)?.policy_version ?? run.policy_version,
    audit_head: { seq: run.seq, hash: run.hash },
    decisions: decisions.map((each) => ({
      decision_id: each.id,
      seq: each.seq ?? 0,
      step_id: each.step_id,
      item_index: each.item_index,
      tool_use_id: each.tool_use_id,
      tool: each.tool,
      side_effect: each.side_effect,
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
              id: each.approval_id,
              status: each.approval_status ?? 'cancelled',
              votes: votes.get(each.approval_id) ?? [],
            },
      // The effect points at its newest decision: earlier ones let earlier attempts through, or held the call.
      executed_at: each.effect_decision === each.id ? (each.intent_at?.toISOString() ?? null) : null,
      outcome:
        each.session_id === null ? (each.effect_decision === each.id ? each.effect_state : null) : seen(each),
      decided_at: each.decided_at.toISOString(),
    })),
  }
}

/** Of an agent's call only its client can tell what became of it. */
function seen({
  observed_at,
  observed_outcome,
}: {
  observed_at: Date | null
  observed_outcome: string | null
}) {
  return observed_at === null ? null : (observed_outcome ?? 'finished')
}

async function readHead(context: Context, organizationId: string, runId: string) {
  const run = await context.db
    .selectFrom('runs as r')
    .innerJoin('chain_head as h', 'h.organization_id', 'r.organization_id')
    .select(['r.workflow_id', 'r.workflow_version', 'h.seq', 'h.hash', 'h.policy_version'])
    .where('r.id', '=', runId)
    .where('r.organization_id', '=', organizationId)
    .executeTakeFirst()
  if (run !== undefined) return run
  const session = await context.db
    .selectFrom('agent_sessions as s')
    .innerJoin('chain_head as h', 'h.organization_id', 's.organization_id')
    .select(['h.seq', 'h.hash', 'h.policy_version'])
    .where('s.run_id', '=', runId)
    .where('s.organization_id', '=', organizationId)
    .executeTakeFirst()
  if (session === undefined) throw notFound('run', runId)
  return { ...session, workflow_id: null, workflow_version: null }
}

function readDecisions(context: Context, runId: string) {
  return context.db
    .selectFrom('decisions as d')
    .leftJoin('approvals as a', 'a.id', 'd.approval_id')
    .leftJoin('effects as e', (join) =>
      join
        .onRef('e.run_id', '=', 'd.run_id')
        .onRef('e.step_id', '=', 'd.step_id')
        .on((eb) => eb('e.item_index', '=', eb.fn.coalesce('d.item_index', eb.lit(-1)))),
    )
    .leftJoin('agent_observations as o', 'o.decision_id', 'd.id')
    .selectAll('d')
    .select([
      'a.status as approval_status',
      'e.state as effect_state',
      'e.decision_id as effect_decision',
      'e.intent_at',
      'o.at as observed_at',
      'o.outcome as observed_outcome',
    ])
    .where('d.run_id', '=', runId)
    .orderBy('d.seq')
    .execute()
}
