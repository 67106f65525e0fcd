import { z } from 'zod'
import { destination, id, labels, matchedRule, side, time, verdict } from './common.ts'
import { approvalStatus, itemIndex, labelSources, vote } from './runs.ts'

const decision = z.strictObject({
  decision_id: id,
  seq: z.int(),
  step_id: z.string().nullable(),
  item_index: itemIndex,
  tool_use_id: z.string().nullable(),
  tool: z.string(),
  side_effect: side,
  destination,
  verdict,
  rule_id: id.nullable(),
  rule_name: z.string().nullable(),
  matched_rules: z.array(matchedRule),
  reason: z.string(),
  explanation: z.string(),
  labels,
  label_sources: labelSources,
  params_hash: z.string(),
  approval: z
    .strictObject({
      id,
      status: approvalStatus,
      votes: z.array(vote),
      supersedes_id: id.nullable().describe('the approval that it replaces'),
      held_again: z.string().nullable().describe('why it replaces it'),
    })
    .nullable(),
  held_at: time.nullable().describe('When the call was held for this approval.'),
  executed_at: time.nullable(),
  outcome: z.string().nullable(),
  decided_at: time,
})

/** The receipt of a run. It has every decision of the run, with the rule and the labels of the decision. */
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
      .describe('only with `limit` or `cursor`: leads to the next decisions, null after the last'),
  })
  .meta({ id: 'Receipt' })
