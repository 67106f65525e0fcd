import { z } from 'zod'
import { ruleInput } from '../../governance/rules/rule-kinds.ts'
import { ok, tagged } from '../route.ts'
import {
  called,
  id,
  listOf,
  time,
  listQueryOfPath,
  named,
  anyJson,
  approver,
  approvers,
  role,
  side,
  labels,
  matchedRule,
  verdict,
} from '../schemas/common.ts'
import { story } from '../schemas/example.ts'
import { labelSlug } from '../../policy/text.ts'
import { filter, instant } from '../query.ts'
import { tryRules } from '../../governance/rules/rule-trial.ts'
import type { JsonObject } from '../../policy/types.ts'
import { backtestRules, mostDecisions, mostSamples, unreplayed } from '../../governance/backtests/backtest.ts'
import { analyzeSavedRules, mostFindings } from '../../governance/rules/analysis.ts'
import { findingKinds } from '../../policy/rule-analysis.ts'
import { countByRule, countedDays, mostCounted } from '../../governance/rules/counts.ts'
import { diffRules, mostChanges } from '../../governance/rules/diff.ts'

/* Questions about rules: what they decide, would have decided, differ in, and lack. None changes anything. */

const { route } = tagged('Rules')

const host = z.string().min(1).max(261)

const call = called(
  'TrialCall',
  z.strictObject({
    source: z
      .enum(['workflows', 'agents'])
      .optional()
      .describe('default: `agents` for a tool that only agents have, else `workflows`'),
    tool: z.string().min(1).max(200),
    side_effect: side
      .optional()
      .describe(
        'default: what a run would count it as, by the tool, the parameters and the connection; for an unknown tool `write`',
      ),
    params: z.record(z.string(), anyJson).default({}),
    destination: host
      .optional()
      .describe(
        'the host to which a call of a workflow goes; default: that of your present connection, but with `side_effect` it stays here',
      ),
    labels: z.array(labelSlug).max(1000).default([]).describe('labels of the call’s inputs'),
    role: role
      .optional()
      .describe(
        'the caller’s role, at most your own: it and its tool policies are asked before the rules; without it, the rules alone',
      ),
  }),
)

/** As `rules/test` takes it. */
export const exampleCall = z
  .strictObject({
    source: z.enum(['workflows', 'agents']),
    tool: z.string(),
    side_effect: side,
    params: z.record(z.string(), anyJson),
    destination: z.string().optional(),
    labels: z.array(z.string()),
  })
  .meta({ id: 'ExampleCall', description: 'a call in the form in which `rules/test` takes it' })

/** null if the call needs no approval. */
export const approvalNeeds = z
  .strictObject({
    approver: approver.nullable(),
    approvals_needed: z.int(),
    approvers,
    expires_after_seconds: z.int().nullable(),
    remind_after_seconds: z.int().nullable(),
    approver_may_edit: z.array(z.string()).describe('the parameters that an approver may edit'),
  })
  .nullable()
  .describe('what the approval of a held call needs')

const drafts = z.array(ruleInput).max(1000)

export const ruleTrialBody = named('RuleTrialRequest', { call, rules: drafts.optional() })

export const ruleDiffBody = named('RuleDiffRequest', {
  from: z
    .union([z.literal('active'), drafts])
    .describe('`active` stands for the saved rules that are active'),
  to: drafts,
})

export const ruleBacktestBody = z
  .strictObject({
    rules: drafts.describe('they decide in place of the saved rules'),
    beside_saved: z
      .strictObject({ replaces: id.nullable().describe('the saved rule in whose place the drafts stand') })
      .optional()
      .describe(
        'the drafts decide beside the saved rules, and each call is compared with what the saved rules would decide now',
      ),
    most: z
      .int()
      .min(1)
      .max(mostDecisions)
      .default(mostDecisions)
      .describe('examines so many of the newest decisions'),
    since: instant.optional().describe('only calls that were decided at this time or later'),
    until: instant.optional().describe('only calls that were decided before this time'),
  })
  .refine(({ since, until }) => since === undefined || until === undefined || since < until, {
    path: ['until'],
    message: 'must be after `since`',
  })
  .meta({ id: 'RuleBacktestRequest' })

const trial = named('RuleTrial', {
  decision: verdict,
  reason: z.string(),
  explanation: z.string(),
  rule_id: id.nullable(),
  rule_name: z.string().nullable(),
  matched_rules: z.array(matchedRule),
  side_effect: side,
  labels,
  approval: approvalNeeds,
})

const sample = z.strictObject({
  decision_id: id,
  run_id: id.nullable().describe('the run, or the record of the agent’s session'),
  step_id: z.string().nullable(),
  item_index: z.int().nullable(),
  session_id: id.nullable().describe('the agent’s session; null for a call of a run'),
  tool: z.string(),
  decided_at: time,
  labels,
  from: z
    .strictObject({ verdict, rule_name: z.string().nullable() })
    .describe('what the rules said when the call was recorded'),
  to: z
    .strictObject({ verdict, rule_name: z.string().nullable(), explanation: z.string() })
    .describe('what the drafts say'),
})

const backtest = named('RuleBacktest', {
  examined: z.int().describe('calls, including those that are not replayable'),
  changed: z.int().describe('calls that get another verdict'),
  not_replayable: z.array(z.strictObject({ reason: z.enum(unreplayed), count: z.int() })),
  by_change: z
    .record(z.string(), z.int())
    .describe('changed calls by old and new verdict, such as `allow->deny`'),
  samples: z.array(sample).max(mostSamples).describe('the newest changed calls'),
  limit_reached: z
    .enum(['decisions', 'bytes', 'time'])
    .nullable()
    .describe('the limit that leaves out older calls; null if none is left out'),
  oldest: time.nullable().describe('when the oldest examined call was decided'),
})

const counted = z.int().min(0).max(mostCounted)
const ruleCounts = named('RuleCounts', {
  id,
  held: counted.describe('approvals that it required'),
  denied: counted.describe('calls that it denied'),
})

const finding = z.strictObject({
  kind: z.enum(findingKinds),
  rules: z
    .array(matchedRule)
    .describe('the rule without effect; for `duplicate` and `contradicts`, the second rule is the other one'),
  covered_by: matchedRule.nullable().describe('the rule that decides in its place'),
  example_call: exampleCall.nullable().describe('a call that both rules match'),
  message: z.string(),
})

const analysis = named('RuleAnalysis', {
  findings: z.array(finding).max(mostFindings),
  limit_reached: z
    .enum(['findings', 'comparisons', 'time'])
    .nullable()
    .describe('the limit that leaves out further findings; null if none is left out'),
})

const change = z.strictObject({
  change: z
    .string()
    .describe('the verdicts before and after, such as `allow->deny`; if they are equal, `approval` differs'),
  example_call: exampleCall,
  approval: z
    .strictObject({ from: approvalNeeds, to: approvalNeeds })
    .describe('what the approval of the call needs, before and after'),
  rules: z
    .array(z.strictObject({ set: z.enum(['from', 'to']), id, name: z.string(), verdict }))
    .describe('the rules that decide the call; a set without such a rule is missing'),
})

const diff = named('RuleDiff', {
  changes: z.array(change).max(mostChanges).describe('the smallest examples come first'),
  tried: z.int().describe('the number of calls that were tried'),
  limit_reached: z
    .enum(['changes', 'calls', 'time', 'comparisons'])
    .nullable()
    .describe(
      'the limit that ended the search; `comparisons`: calls or rules that need too many comparisons are left out',
    ),
})

export const ruleQuestionRoutes = [
  route({
    key: 'POST /organizations/{id}/rules/test',
    needs: { scope: 'rules:read', role: 'member', subject: 'organization' },
    asks: true,
    summary: 'Ask what the rules would decide; nothing is called and nothing recorded',
    description: 'With `rules` these drafts alone are asked, else the saved ones.',
    body: ruleTrialBody,
    example: {
      body: { call: { tool: 'mail_send', params: { to: story.mail }, labels: ['internal'] } },
      answers: {
        200: {
          decision: 'require_approval',
          reason: story.ruleName,
          explanation: `Rule \`${story.ruleName}\` holds \`mail_send\` because it sends data out and the data is labelled internal.`,
          rule_id: story.rule,
          rule_name: story.ruleName,
          matched_rules: [
            { id: story.rule, name: story.ruleName, verdict: 'require_approval', shadow: false },
          ],
          side_effect: 'egress',
          labels: ['internal'],
          approval: {
            approver: 'admin',
            approvals_needed: 1,
            approvers: [{ role: 'admin', count: 1 }],
            expires_after_seconds: null,
            remind_after_seconds: null,
            approver_may_edit: [],
          },
        },
      },
    },
    responses: { 200: trial },
    async handle({ context, caller, body }) {
      const { params, ...rest } = body.call
      const asked = { ...rest, params: params as JsonObject }
      return ok(await tryRules(context, caller, asked, body.rules ?? null))
    },
  }),
  route({
    key: 'POST /organizations/{id}/rules/backtest',
    // Counts of a draft with a condition show what the parameters of calls were, and samples name runs, sessions and
    // labels. So only people who may see these values may send a backtest, with a key that may read them.
    needs: {
      scope: 'rules:read',
      further: ['runs:read', 'approvals:read', 'agents:read'],
      role: 'admin',
      subject: 'organization',
    },
    asks: true,
    summary: 'Decide recorded calls again by drafts, and count what would change',
    description: `Examines the newest ${mostDecisions.toLocaleString('en-US')} decisions of the period. Each call counts once, by its first decision. Nothing is called and nothing recorded. A key also needs \`runs:read\`, \`approvals:read\` and \`agents:read\`, because the answer shows what these scopes protect.`,
    body: ruleBacktestBody,
    example: {
      body: {
        rules: [{ name: 'agents fetch nothing', verdict: 'deny', tools: ['WebFetch'] }],
        since: '2026-01-01T00:00:00Z',
      },
      answers: {
        200: {
          examined: 1,
          changed: 1,
          not_replayable: [],
          by_change: { 'allow->deny': 1 },
          samples: [
            {
              decision_id: 'dec_01M8D56DGX8YN89DS9GEDSN15Q',
              run_id: 'run_01M8D56DGX8YN89DS9GEDSN15P',
              step_id: null,
              item_index: null,
              session_id: 'ses_01M8D56DGX8YN89DS9GEDSN15N',
              tool: 'WebFetch',
              decided_at: '2026-11-27T00:06:30.665Z',
              labels: [],
              from: { verdict: 'allow', rule_name: null },
              to: {
                verdict: 'deny',
                rule_name: 'agents fetch nothing',
                explanation: 'Rule `agents fetch nothing` denies `WebFetch` because it names this tool.',
              },
            },
          ],
          limit_reached: null,
          oldest: '2026-11-27T00:06:30.665Z',
        },
      },
    },
    responses: { 200: backtest },
    async handle({ context, caller, identity, body, signal, leaveShare, callerNow }) {
      // `backtestRules` takes a place of its own in the share, for long work.
      leaveShare()
      return ok(
        await backtestRules(context, caller.organizationId, {
          drafts: body.rules,
          besideSaved: body.beside_saved ?? null,
          most: body.most,
          since: body.since ?? null,
          until: body.until ?? null,
          chargedTo: identity.charged.holderId,
          callerNow,
          signal,
        }),
      )
    },
  }),
  route({
    key: 'GET /organizations/{id}/rules/counts',
    needs: { scope: 'rules:read', role: 'member', subject: 'organization' },
    summary: `What each rule held and denied in the last ${countedDays} days`,
    description: `For the rules of a page of their list, which takes the same \`limit\`, \`cursor\` and \`search\`. ${mostCounted} stands for that many or more.`,
    query: listQueryOfPath.extend({ search: filter.optional() }),
    responses: { 200: listOf(ruleCounts) },
    async handle({ context, caller, query }) {
      const { limit, cursor = null, search } = query
      return ok(await countByRule(context, caller.organizationId, { limit, cursor }, search))
    },
  }),
  route({
    key: 'GET /organizations/{id}/rules/analysis',
    needs: { scope: 'rules:read', role: 'member', subject: 'organization' },
    summary: 'Saved rules that have no effect, each with its reason',
    description:
      'Looks at active and shadow rules. Each finding is proven. A rule without a finding may have no effect all the same.',
    example: {
      answers: {
        200: {
          findings: [
            {
              kind: 'never_decides',
              rules: [
                {
                  id: 'rule_01M8D56DKYFME84B9A29M0B8V4',
                  name: 'letters',
                  verdict: 'require_approval',
                  shadow: false,
                },
              ],
              covered_by: {
                id: 'rule_01M8D56DK4GH9CQW27XYSVB03P',
                name: 'no mail',
                verdict: 'deny',
                shadow: false,
              },
              example_call: {
                source: 'workflows',
                tool: 'mail_send',
                side_effect: 'egress',
                params: {},
                labels: [],
              },
              message:
                'Rule `letters` never decides a call: rule `no mail` matches every call that it matches, and is at least as strict.',
            },
          ],
          limit_reached: null,
        },
      },
    },
    responses: { 200: analysis },
    async handle({ context, caller, identity, signal, leaveShare, callerNow }) {
      // `analyzeSavedRules` takes a place of its own in the share, for long work.
      leaveShare()
      const request = { chargedTo: identity.charged.holderId, callerNow, signal }
      return ok(await analyzeSavedRules(context, caller.organizationId, request))
    },
  }),
  route({
    key: 'POST /organizations/{id}/rules/diff',
    needs: { scope: 'rules:read', role: 'member', subject: 'organization' },
    asks: true,
    summary: 'Look for calls that two sets of rules decide differently',
    description:
      'Tries calls that are made from the conditions of the rules. An empty list of changes does not prove that the sets are equal.',
    body: ruleDiffBody,
    example: {
      body: {
        from: [
          {
            name: 'mail stays inside',
            verdict: 'deny',
            tools: ['mail_send'],
            params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }],
          },
        ],
        to: [
          {
            name: 'mail stays inside',
            verdict: 'deny',
            tools: ['mail_send'],
            params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com', 'partner.example'] }],
          },
        ],
      },
      answers: {
        200: {
          changes: [
            {
              change: 'deny->allow',
              example_call: {
                source: 'workflows',
                tool: 'mail_send',
                side_effect: 'egress',
                params: { to: 'someone@partner.example' },
                labels: [],
              },
              approval: { from: null, to: null },
              rules: [{ set: 'from', id: 'draft_0', name: 'mail stays inside', verdict: 'deny' }],
            },
          ],
          tried: 76,
          limit_reached: null,
        },
      },
    },
    responses: { 200: diff },
    async handle({ context, caller, identity, body, signal, leaveShare, callerNow }) {
      // `diffRules` takes a place of its own in the share, for long work.
      leaveShare()
      const request = { ...body, chargedTo: identity.charged.holderId, callerNow, signal }
      return ok(await diffRules(context, caller.organizationId, request))
    },
  }),
]
