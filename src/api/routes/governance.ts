import { z } from 'zod'
import { changeGovernance, readManagedSettings } from '../../governance/rules/settings.ts'
import { completeSettings, type GovernanceSettings } from '../../policy/settings.ts'
import { mayBeHeld, unlessHeld, whenHeld } from '../held.ts'
import { ok, tagged } from '../route.ts'
import {
  readApprovalsReport,
  readReport,
  readReportTable,
  reportTables,
  periods,
} from '../../governance/reports/report.ts'
import { called, id, managedBy, time, named, listOf, listQueryOfPath } from '../schemas/common.ts'
import { pageWith, story } from '../schemas/example.ts'
import {
  limitsSchema,
  overridesSchema,
  plans,
  limitChanges,
  usageSchema,
} from '../../contract/plan-limits.ts'
import { changeQuota, readQuota } from '../../governance/limits/quota.ts'
import { mostCounted, readFreeze, setFreeze } from '../../governance/rules/freeze.ts'
import { errorAt } from '../../governance/errors.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { mostToolGlobs } from '../../policy/external-tools.ts'
import { restrictions } from '../../governance/rules/tool-policy-limits.ts'
import { textField } from '../../policy/text.ts'
import { facts } from '../../tools/index.ts'
import { listNotifications } from '../../governance/notifications/list.ts'
import { filter, instant } from '../query.ts'

/** Categories that one organization can flag. */
export const mostFlags = 100
/** Every change of the policy reads all of them. */
export const mostExternalTools = 1_000

export const governancePatch = z
  .strictObject(
    Object.fromEntries(
      Object.entries(completeSettings.shape).map(([name, field]) => [name, field.optional()]),
    ) as unknown as { [K in keyof GovernanceSettings]: z.ZodOptional<z.ZodType<GovernanceSettings[K]>> },
  )
  .superRefine(({ category_flags, external_tools }, context) => {
    const categories = Object.keys(category_flags ?? {})
    if (categories.length > mostFlags) {
      const message = `names ${categories.length} categories: at most ${mostFlags} are allowed`
      context.addIssue({ code: 'custom', path: ['category_flags'], message })
    }
    const tools = Object.keys(external_tools ?? {})
    if (tools.length > mostExternalTools) {
      const message = `names ${tools.length} tools: at most ${mostExternalTools.toLocaleString('en-US')} are kept`
      context.addIssue({ code: 'custom', path: ['external_tools'], message })
    }
    const globs = tools.filter((name) => name.includes('*')).length
    if (globs > mostToolGlobs) {
      const message = `names ${globs} globs: at most ${mostToolGlobs} are allowed`
      context.addIssue({ code: 'custom', path: ['external_tools'], message })
    }
    for (const name of tools) {
      const message = facts.names.settingIssue(name)
      if (message !== null) context.addIssue({ code: 'custom', path: ['external_tools', name], message })
    }
    for (const [name, told] of Object.entries(external_tools ?? {})) {
      if (told.side_effect !== undefined || told.output_labels !== undefined) continue
      const message = 'changes nothing: give `side_effect` or `output_labels`, or leave the tool out'
      context.addIssue({ code: 'custom', path: ['external_tools', name], message })
    }
  })
  .meta({ id: 'GovernanceChanges' })

const quotaPatch = called('QuotaChanges', limitChanges)

called('ToolRestrictions', restrictions)

const toolName = z
  .string()
  .min(1)
  .max(200)
  .refine((name) => !/[*?]/.test(name), 'name one tool: only rules take globs')
  .superRefine((name, context) => {
    const message = facts.names.issue(name)
    if (message !== null) context.addIssue({ code: 'custom', message })
  })

/** A role of members, the name of a group, or any other name. Names that differ only in letter case would mislead people. */
export const roleName = z
  .string()
  .regex(
    /^[a-z][a-z0-9_-]{0,63}$/,
    'a role has at most 64 lower-case letters, digits, `_` and `-`, and begins with a letter',
  )
export const toolPolicyBody = named('ToolPolicyRequest', {
  tool_name: toolName,
  allowed: z.boolean().nullable().default(null),
  restrictions: restrictions.default({}),
  role: roleName.optional(),
})
/** Without `role`, the policy of the whole organization changes. */
export const toolPolicyPatch = named('ToolPolicyChanges', {
  allowed: z.boolean().nullable().optional(),
  restrictions: restrictions.optional(),
  role: roleName.optional(),
})

export const roleOverrideBody = named('RoleOverrideRequest', {
  tool_name: toolName,
  role: roleName,
  allowed: z.boolean(),
})

export const freezeBody = named('FreezeRequest', { reason: textField(500, 1) })

const { route } = tagged('Governance')

const settings = completeSettings.extend({ managed_by: managedBy }).meta({ id: 'GovernanceSettings' })

const share = z.number().min(0).max(1)
const count = z.int().min(0)
const period = z.enum(periods)

const reportQuery = z.object({
  period: period
    .optional()
    .describe('The last 7, 30 (default) or 90 days until now, or everything that is stored.'),
  from: instant.optional().describe('What was requested at this time or later, in place of `period`.'),
  to: instant.optional().describe('What was requested before this time.'),
})
/** Throws `validation_error`. */
function timeOf(query: z.infer<typeof reportQuery>) {
  const { period: named, from, to } = query
  if (named !== undefined && (from !== undefined || to !== undefined))
    throw errorAt('validation_error', 'period', '`period` cannot stand beside `from` or `to`: leave it out')
  if (from !== undefined && to !== undefined && from >= to)
    throw errorAt('validation_error', 'to', '`to` must be later than `from`')
  return query
}

const holdingRule = z.strictObject({
  rule_id: id,
  rule_name: z.string().nullable(),
  held: count,
  approved: count,
  rejected: count,
  always_approved: z.boolean().describe('at least one was approved and none was rejected'),
  median_decision_seconds: z.number().nullable(),
})

const reportTime = {
  period: period.nullable().describe('null if the request has `from` or `to`'),
  since: time.nullable().describe('null: from the beginning'),
  until: time.nullable().describe('null: until now'),
}

const governanceReport = named('GovernanceReport', {
  ...reportTime,
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
  top_approvers: z.array(
    z.strictObject({
      user_id: id,
      name: z.string().nullable(),
      email: z.string().nullable().describe('null if the account was deleted'),
      approvals: count,
    }),
  ),
  top_rules: z.array(holdingRule).describe('the rules that hold most'),
  always_approved_rules: z.array(holdingRule).describe('those of them whose calls are always approved'),
  by_day: z
    .array(
      z.strictObject({
        day: z.string().describe('`YYYY-MM-DD`, in UTC'),
        held: count,
        approved: count,
        rejected: count,
        expired: count,
        median_decision_seconds: z.number().nullable(),
      }),
    )
    .describe('the newest 92 days on which something was held, the oldest first'),
  agents: z
    .array(
      z.strictObject({
        agent_name: z.string(),
        sessions: count.describe('that began in this time; the other numbers are those of their calls'),
        allowed: count,
        held: count,
        denied: count,
        unapproved: count.describe('calls that were made without a decision that allowed them'),
      }),
    )
    .describe('those with the most calls'),
})

const tableOfReport = named('GovernanceReportTable', {
  ...reportTime,
  ...governanceReport
    .pick({ by_day: true, top_rules: true, always_approved_rules: true, top_approvers: true, agents: true })
    .partial().shape,
})

const approvalsReport = named('ApprovalsReport', {
  ...reportTime,
  by_workflow: z.array(
    z.strictObject({ workflow_id: id, name: z.string(), total: count, approved: count, rejected: count }),
  ),
  workflows: count.describe('all workflows that were held, also those beyond the list'),
  by_category: z.record(z.string(), z.strictObject({ total: count, approved: count })),
})

const quota = named('Quota', {
  plan: z.enum(plans),
  limits: limitsSchema.describe('limits of the plan'),
  overrides: overridesSchema.describe('limits that an owner has set instead'),
  effective: limitsSchema.describe('what holds'),
  usage: usageSchema
    .optional()
    .describe(
      'present use of each limit; of requests with what processes have taken in advance. Only in the answer to GET',
    ),
  overrides_by: z
    .enum(['owner', 'operator'])
    .optional()
    .describe('who may override; only in the answer to GET'),
})

const frozen = z.strictObject({ frozen: z.boolean(), reason: z.string().nullable() })

const change = (verb: 'freeze' | 'unfreeze') =>
  route({
    key: `POST /organizations/{id}/${verb}`,
    needs: { scope: 'governance:write', role: 'owner', subject: 'organization' },
    audit: [verb === 'freeze' ? 'organization.frozen' : 'organization.unfrozen'],
    summary:
      verb === 'freeze'
        ? 'Deny every call of runs and agents from the next decision on'
        : 'Let the rules decide again',
    body: freezeBody,
    responses: { 200: frozen },
    async handle({ context, caller, body: { reason }, once }) {
      const given = { reason, askedAt: performance.now(), once }
      return ok(await actOnce(once, () => setFreeze(context, caller, verb === 'freeze', given)))
    },
  })

const freezeView = named('Freeze', {
  frozen: z.boolean(),
  reason: z.string().nullable().describe('null if it is not frozen'),
  changed: z
    .strictObject({
      at: time,
      by: z.string().nullable().describe('the mail address; null if the account was deleted'),
      reason: z.string(),
    })
    .nullable()
    .describe('the newest freeze, or the end of one; null if there was none'),
  waiting: z
    .strictObject({ approvals: count, trigger_starts: count, rerun_starts: count })
    .describe(
      `what waits now: approvals, and up to ${mostCounted.toLocaleString('en')} runs of triggers and of requests to run many again, which do not start while it is frozen`,
    ),
})

export const freezeRoutes = [
  route({
    key: 'GET /organizations/{id}/freeze',
    needs: { scope: null, role: 'viewer', subject: 'organization' },
    summary: 'Whether everything is stopped, since when, by whom and why',
    responses: { 200: freezeView },
    handle: async ({ context, caller }) => ok(await readFreeze(context.db, caller.organizationId)),
  }),
  change('freeze'),
  change('unfreeze'),
]

export const governanceRoutes = [
  route({
    key: 'GET /organizations/{id}/governance',
    needs: { scope: 'governance:read', role: 'admin', subject: 'organization' },
    summary: 'The organization’s settings',
    responses: { 200: settings },
    handle: async ({ context, caller }) => ok(await readManagedSettings(context.db, caller.organizationId)),
  }),
  route({
    key: 'PATCH /organizations/{id}/governance',
    needs: { scope: 'governance:write', role: 'owner', subject: 'organization' },
    audit: ['governance.updated', whenHeld],
    summary: 'Change settings; they apply from the next decision on',
    body: governancePatch,
    responses: { 200: settings, ...mayBeHeld },
    handle: async ({ context, caller, body }) =>
      // What comes from a file is refused.
      unlessHeld(await changeGovernance(context, caller, body), (saved) =>
        ok({ ...saved, managed_by: null }),
      ),
  }),
  route({
    key: 'GET /organizations/{id}/governance/report',
    needs: { scope: 'governance:read', role: 'admin', subject: 'organization' },
    summary: 'How much was held, how people decided and how fast, over a period',
    query: reportQuery.extend({
      table: z
        .enum(reportTables)
        .optional()
        .describe('Only this table. The answer has nothing else of the report, and comes sooner.'),
    }),
    responses: { 200: z.union([governanceReport, tableOfReport]) },
    handle: async ({ context, caller, query }) => {
      const [{ db }, { organizationId }, time] = [context, caller, timeOf(query)]
      return ok(
        query.table === undefined
          ? await readReport(db, organizationId, time)
          : await readReportTable(db, organizationId, time, query.table),
      )
    },
  }),
  route({
    key: 'GET /organizations/{id}/governance/approvals',
    needs: { scope: 'governance:read', role: 'admin', subject: 'organization' },
    summary: 'Approvals of a period by workflow and by category',
    query: reportQuery,
    responses: { 200: approvalsReport },
    handle: async ({ context, caller, query }) =>
      ok(await readApprovalsReport(context.db, caller.organizationId, timeOf(query))),
  }),
  route({
    key: 'GET /organizations/{id}/quota',
    needs: { scope: 'quota:read', role: 'admin', subject: 'organization' },
    summary: 'The plan, its limits, the overrides and the effective limits',
    responses: { 200: quota },
    handle: async ({ context, caller }) => ok(await readQuota(context, caller.organizationId)),
  }),
  route({
    key: 'PATCH /organizations/{id}/quota',
    needs: { scope: 'quota:write', role: 'owner', subject: 'organization' },
    audit: ['quota.updated'],
    summary: 'Override limits; they apply at once',
    description: 'Positive whole numbers, each at most 100 times the plan’s limit; null removes an override.',
    body: quotaPatch,
    responses: { 200: quota },
    handle: async ({ context, caller, body }) => ok(await changeQuota(context, caller, body)),
  }),
]

const channel = z.enum(['slack', 'mail', 'webhook'])
const state = z.enum(['pending', 'sent', 'updated', 'failed'])

const notification = named('Notification', {
  id,
  channel,
  event: z.string().describe('such as `approval.created` and `approval.decided`'),
  recipient: id.describe('the person, or the webhook'),
  recipient_email: z.string().nullable().describe('null for a webhook, or if the account was deleted'),
  approval_id: id.nullable().describe('the id in the list of approvals'),
  run_id: id.nullable().describe('the run of a message about a run'),
  state,
  attempts: z.int(),
  last_error: z.string().nullable().describe('the code of the last failure'),
  created_at: time,
  sent_at: time.nullable(),
})

export const getNotifications = route({
  key: 'GET /organizations/{id}/notifications',
  needs: { scope: 'approvals:read', role: 'admin', subject: 'organization' },
  summary: 'Messages about what waits and how it ended, the newest first',
  description: 'The list shows who was told through which channel. It keeps no text of a message.',
  query: listQueryOfPath.extend({
    channel: channel.optional(),
    state: state.optional(),
    approval_id: filter.optional(),
    recipient: filter.optional().describe('the id of a person or webhook, or the address of a person'),
  }),
  example: {
    answers: {
      200: pageWith(
        {
          id: 'dlv_01M84HX0W2CKT9DFN0GDB5YQ6T',
          channel: 'webhook',
          event: 'approval.created',
          recipient: story.webhook,
          recipient_email: null,
          approval_id: 'apr_01M82XD2FE36W9PYPF92CPJWPM',
          run_id: null,
          state: 'sent',
          attempts: 1,
          last_error: null,
          created_at: '2026-11-23T09:30:01.000Z',
          sent_at: '2026-11-23T09:30:02.000Z',
        },
        {
          id: 'ntf_01M84HX0VZ7Q0J8M4S4WZ1B3FD',
          channel: 'mail',
          event: 'approval.created',
          recipient: 'usr_01M82XC49JT4FSC3EKQ16VJJDB',
          recipient_email: 'approver@countersign.test',
          approval_id: 'apr_01M82XD2FE36W9PYPF92CPJWPM',
          run_id: null,
          state: 'pending',
          attempts: 0,
          last_error: null,
          created_at: '2026-11-23T09:30:00.000Z',
          sent_at: null,
        },
        {
          id: 'ntf_01M84HX0VYH1F9M5T2R1QK6Z9C',
          channel: 'slack',
          event: 'approval.created',
          recipient: 'usr_01M82XC49JT4FSC3EKQ16VJJDB',
          recipient_email: 'approver@countersign.test',
          approval_id: 'apr_01M82XD2FE36W9PYPF92CPJWPM',
          run_id: null,
          state: 'failed',
          attempts: 2,
          last_error: 'slack_forbidden',
          created_at: '2026-11-23T09:30:00.000Z',
          sent_at: null,
        },
      ),
    },
  },
  responses: { 200: listOf(notification) },
  async handle({ context, caller, query: { limit, cursor, ...filters } }) {
    const page = { limit, cursor: cursor ?? null }
    return ok(await listNotifications(context.db, caller.organizationId, filters, page))
  },
})
