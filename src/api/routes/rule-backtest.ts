import { z } from 'zod'
import { backtestRules, mostSamples, mostDecisions, unreplayed } from '../../governance/backtests/backtest.ts'
import { ok, route } from '../route.ts'
import { id, labels, time, verdict } from '../schemas/common.ts'
import { ruleBacktestBody } from '../schemas/rules.ts'

const sample = z.strictObject({
  decision_id: id,
  run_id: id.nullable().meta({ description: 'the run, or the record of the agent’s session' }),
  step_id: z.string().nullable(),
  item_index: z.int().nullable(),
  session_id: id.nullable().meta({ description: 'the agent’s session; null for a call of a run' }),
  tool: z.string(),
  decided_at: time,
  labels,
  from: z
    .strictObject({ verdict, rule_name: z.string().nullable() })
    .meta({ description: 'what the rules said when the call was recorded' }),
  to: z
    .strictObject({ verdict, rule_name: z.string().nullable(), explanation: z.string() })
    .meta({ description: 'what the drafts say' }),
})

const backtest = z
  .strictObject({
    examined: z.int().meta({ description: 'calls, including those that are not replayable' }),
    changed: z.int().meta({ description: 'calls that get another verdict' }),
    not_replayable: z.array(z.strictObject({ reason: z.enum(unreplayed), count: z.int() })),
    by_change: z
      .record(z.string(), z.int())
      .meta({ description: 'changed calls by old and new verdict, such as `allow->deny`' }),
    samples: z.array(sample).max(mostSamples).meta({ description: 'the newest changed calls' }),
    limit_reached: z
      .enum(['decisions', 'bytes', 'time'])
      .nullable()
      .meta({ description: 'the limit that leaves out older calls; null if none is left out' }),
    oldest: time.nullable().meta({ description: 'when the oldest examined call was decided' }),
  })
  .meta({ id: 'RuleBacktest' })

export const postRuleBacktest = route({
  key: 'POST /organizations/{id}/rules/backtest',
  summary: 'Decide recorded calls again by drafts, and count what would change',
  tag: 'Rules',
  description: `Examines the newest ${mostDecisions.toLocaleString('en-US')} decisions of the period. Each call counts once, by its first decision. Nothing is called and nothing recorded. A key also needs \`runs:read\`, \`approvals:read\` and \`agents:read\`, because the answer shows what these scopes protect.`,
  body: ruleBacktestBody,
  responses: { 200: backtest },
  async handle({ context, caller, identity, body, signal, leaveShare, callerNow }) {
    // `backtestRules` takes a place of its own in the share, for long work.
    leaveShare()
    return ok(
      await backtestRules(context, caller.organizationId, {
        drafts: body.rules,
        since: body.since ?? null,
        until: body.until ?? null,
        chargedTo: identity.charged.holderId,
        callerNow,
        signal,
      }),
    )
  },
})
