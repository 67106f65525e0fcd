import { z } from 'zod'
import { approvalKinds, approvalStatuses, runStatuses, stepStatuses } from '../../contract/status.ts'
import { anyJson, id, labels, riskLevel, side, time, verdict } from './common.ts'

export const runStatus = z.enum(runStatuses)
export const approvalStatus = z.enum(approvalStatuses)
export const approvalKind = z.enum(approvalKinds)
const milliseconds = z.int().min(0)
const itemIndex = z.int().min(0).nullable()
const risk = z.strictObject({ level: riskLevel, reasons: z.array(z.string()) })
const stepError = z.strictObject({ code: z.string(), message: z.string() })
const vote = z.strictObject({
  user_id: id,
  email: z.string(),
  decision: z.enum(['approve', 'reject']),
  comment: z.string(),
  at: time,
})

const headShape = {
  id,
  execution_id: id,
  workflow_id: id,
  workflow_version: z.int(),
  organization_id: id,
  status: runStatus,
  status_reason: z.string(),
  requested_by: id,
  risk,
  created_at: time,
  started_at: time.nullable(),
  finished_at: time.nullable(),
  data_removed_at: time.nullable(),
  duration_ms: milliseconds.nullable(),
  nodes_executed: z.int(),
  nodes_failed: z.int(),
  cost: z.number(),
}

/** A run as listed: without its data. */
export const runSummary = z.strictObject(headShape).meta({ id: 'RunSummary' })

const waiting = z.strictObject({
  approval_id: id,
  step_id: z.string().nullable(),
  item_index: itemIndex,
  tool: z.string().nullable(),
  rule_name: z.string().nullable(),
  since: time,
  expires_at: time.nullable(),
})

const step = z.strictObject({
  id: z.string(),
  tool: z.string(),
  status: z.enum(stepStatuses),
  unresolved_items: z
    .array(z.int())
    .describe(
      'Items of a `for_each` step whose outcome nobody knows: the `item_index` that `resolve` takes.',
    ),
  verdict: verdict.nullable(),
  attempts: z.int(),
  labels,
  started_at: time.nullable(),
  finished_at: time.nullable(),
  duration_ms: milliseconds.nullable(),
  error: stepError.nullable(),
  approval_ids: z.array(id),
})

const labelSources = z
  .array(z.strictObject({ label: z.string(), from: z.array(z.string()) }))
  .describe('`from` names steps, inputs as `input.NAME`, and steps of other runs as `RUN/STEP`')
const outputs = z.record(z.string(), anyJson)

/** A run (contract section 4). */
export const run = z
  .strictObject({
    ...headShape,
    workflow_id: id.nullable().describe('null: the record of an agent session'),
    workflow_version: z.int().nullable(),
    waiting_for: z.array(waiting),
    inputs: z.record(z.string(), anyJson),
    input_labels: z
      .record(z.string(), labelSources)
      .describe('labels that inputs carry; an input without any is not in it'),
    outputs,
    result: anyJson,
    steps: z.array(step),
  })
  .meta({ id: 'Run' })

/** The specification's answer to an execution, over or not. */
export const execution = z
  .strictObject({
    execution_id: id,
    status: runStatus,
    status_reason: z.string(),
    waiting_for: z.array(waiting),
    outputs,
    result: anyJson,
    duration_ms: milliseconds,
    nodes_executed: z.int(),
    nodes_failed: z.int(),
  })
  .meta({ id: 'Execution' })

const decision = z.strictObject({
  decision_id: id,
  seq: z.int(),
  step_id: z.string().nullable(),
  item_index: itemIndex,
  tool_use_id: z.string().nullable(),
  tool: z.string(),
  side_effect: side,
  verdict,
  rule_id: id.nullable(),
  rule_name: z.string().nullable(),
  matched_rules: z.array(z.strictObject({ id, name: z.string(), verdict, shadow: z.boolean() })),
  reason: z.string(),
  explanation: z.string(),
  labels,
  label_sources: labelSources,
  params_hash: z.string(),
  approval: z.strictObject({ id, status: approvalStatus, votes: z.array(vote) }).nullable(),
  executed_at: time.nullable(),
  outcome: z.string().nullable(),
  decided_at: time,
})

/** Every decision of a run with its rule and labels (contract section 4, "Receipt"). */
export const receipt = z
  .strictObject({
    run_id: id,
    workflow_id: id.nullable(),
    workflow_version: z.int().nullable(),
    decisions: z.array(decision),
    rules_version: z.int(),
    audit_head: z.strictObject({ seq: z.int(), hash: z.string() }),
    next_cursor: z
      .string()
      .nullable()
      .optional()
      .describe('only with `limit` or `cursor`: for the decisions that follow, null after the last'),
  })
  .meta({ id: 'Receipt' })

/** An approval (contract section 6). */
export const approval = z
  .strictObject({
    id,
    kind: approvalKind,
    status: approvalStatus,
    used_at: time.nullable(),
    organization_id: id,
    run_id: id.nullable(),
    step_id: z.string().nullable(),
    item_index: itemIndex,
    session_id: z.string().nullable(),
    agent_session_id: id.nullable(),
    workflow_id: id.nullable(),
    tool: z.string().nullable(),
    side_effect: side.nullable(),
    params: z
      .record(z.string(), anyJson)
      .optional()
      .meta({ description: 'only for those who may decide it' }),
    params_hash: z.string().nullable(),
    rule_id: id.nullable(),
    rule_name: z.string().nullable(),
    labels,
    risk,
    requested_by: id,
    requester_email: z
      .string()
      .nullable()
      .meta({ description: 'what `me` in the parameters stands for; of an agent’s call whom it acts for' }),
    approver: z.enum(['admin', 'owner']),
    approvals_needed: z.int(),
    votes: z.array(vote),
    created_at: time,
    expires_at: time.nullable(),
    decided_at: time.nullable(),
    console_url: z.string(),
  })
  .meta({ id: 'Approval' })
