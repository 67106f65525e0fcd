import { z } from 'zod'
import { periods } from '../../governance/reports/report.ts'
import { id, time } from './common.ts'

const share = z.number().min(0).max(1)
const count = z.int().min(0)
const period = z.enum(periods)

export const reportQuery = z.object({
  period: period
    .default('30d')
    .describe('The last 7, 30 or 90 days until now, or everything that is stored.'),
})

const holdingRule = z.strictObject({
  rule_id: id,
  rule_name: z.string().nullable(),
  held: count,
  approved: count,
  rejected: count,
  always_approved: z.boolean().describe('at least one was approved and none was rejected'),
  median_decision_seconds: z.number().nullable(),
})

export const governanceReport = z
  .strictObject({
    period,
    since: time.nullable().describe('null for `all`'),
    total_executions: count.describe('runs that were accepted'),
    gated_executions: count.describe('those of them that asked for an approval'),
    held: count.describe('approvals that runs, steps and agents’ calls asked for'),
    approved: count,
    rejected: count,
    pending: count,
    expired: count,
    cancelled: count,
    approval_rate: share.describe('approved / (approved + rejected); 0 if nothing was decided'),
    avg_approval_time_minutes: z.number().describe('until a person decided; 0 if nothing was decided'),
    decisions: z
      .strictObject({ allow: count, require_approval: count, deny: count })
      .describe(
        'decisions of calls of runs and agents, by verdict; a held call that is approved and made has two `require_approval`',
      ),
    median_decision_seconds: z.number().nullable(),
    p95_decision_seconds: z.number().nullable(),
    approved_within_ten_seconds: count,
    share_approved_within_ten_seconds: share.nullable().describe('null if nothing was approved'),
    top_approvers: z.array(z.strictObject({ user_id: id, approvals: count })),
    top_rules: z.array(holdingRule).describe('the rules that hold most'),
    always_approved_rules: z.array(holdingRule).describe('those of them whose calls are always approved'),
  })
  .meta({ id: 'GovernanceReport' })

export const approvalsReport = z
  .strictObject({
    period,
    since: time.nullable(),
    by_workflow: z.array(
      z.strictObject({ workflow_id: id, name: z.string(), total: count, approved: count, rejected: count }),
    ),
    workflows: count.describe('all workflows that were held, also those beyond the list'),
    by_category: z.record(z.string(), z.strictObject({ total: count, approved: count })),
  })
  .meta({ id: 'ApprovalsReport' })
