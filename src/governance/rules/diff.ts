import type { ExampleCall } from '../../policy/example-calls.ts'
import type { Decided } from '../../policy/decide.ts'
import type { RuleBody, StoredRule } from '../../policy/rule.ts'
import { findChanges, sizeOf, termsOf, type ApprovalNeeds, type Change } from '../../policy/rule-diff.ts'
import { facts } from '../../tools/index.ts'
import type { Verdict } from '../../policy/types.ts'
import { policySnapshot } from '../audit/combiner.ts'
import type { Context, Changing } from '../context.ts'
import { agentEffects, savedRules } from './analysis.ts'
import { inSlices, type LongRequest } from './long-work.ts'
import { refuseLargeDrafts } from './size-limit.ts'

export const mostChanges = 50
export const mostTried = 20_000

/** It decides the example call, in one of the two sets. */
export interface DecidingRule {
  readonly set: 'from' | 'to'
  readonly id: string
  readonly name: string
  readonly verdict: Verdict
}

export interface ChangeView {
  /** Such as `allow->deny`. If they are equal, both ask for an approval, and `approval` differs. */
  readonly change: string
  readonly example_call: ExampleCall
  /** null for a side that asks for no approval. */
  readonly approval: Readonly<Record<'from' | 'to', ApprovalNeeds | null>>
  /** Without an element for a set in which no rule decides. */
  readonly rules: readonly DecidingRule[]
}

export interface RuleDiff {
  /** The smallest examples come first. */
  readonly changes: readonly ChangeView[]
  /** Calls that both sets decided. */
  readonly tried: number
  /** `comparisons`: calls or rules that need too many were left out. null if all calls were tried. */
  readonly limit_reached: 'changes' | 'calls' | 'time' | 'comparisons' | null
}

export interface DiffRequest extends LongRequest {
  /** `active` stands for the saved rules. */
  readonly from: readonly RuleBody[] | 'active'
  readonly to: readonly RuleBody[]
}

/** Under the present settings, without a freeze and tool policies. Throws `validation_error` for too large sets. */
export async function diffRules(
  context: Changing & Pick<Context, 'shares'>,
  organizationId: string,
  { from, to, ...request }: DiffRequest,
): Promise<RuleDiff> {
  if (from !== 'active') refuseLargeDrafts(from, 'from')
  refuseLargeDrafts(to, 'to')
  return inSlices(context, request, async (slices) => {
    const saved = await policySnapshot(context, organizationId)
    const changes = new Map<string, Change>()
    const { approval_threshold: threshold } = saved.settings
    const active = from === 'active' ? await slices.run(() => savedRules(saved)) : drafted(from)
    const sets = {
      from: withThreshold(active, threshold),
      to: withThreshold(drafted(to), threshold),
      approvalsEnabled: saved.settings.approvals_enabled,
      facts,
      effectsOf: agentEffects(saved.settings),
      externalTools: saved.settings.external_tools,
      agentAccess: saved.settings.default_agent_access,
    }
    let tried = 0
    let leftOut = false
    const limit = await slices.follow(findChanges(sets, changes), (step) => {
      if (step === 'too large') leftOut = true
      if (step !== 'tried') return null
      tried += 1
      if (changes.size >= mostChanges) return 'changes'
      return tried >= mostTried ? 'calls' : null
    })
    return {
      changes: [...changes.values()]
        .sort((a, b) => sizeOf(a.example) - sizeOf(b.example))
        .map((change) => viewOf(change, threshold)),
      tried,
      limit_reached: limit ?? (leftOut ? 'comparisons' : null),
    }
  })
}

const drafted = (bodies: readonly RuleBody[]): StoredRule[] =>
  bodies.map((body, index) => ({ ...body, id: `draft_${index}` }))

/** At least `approval_threshold`. */
const withThreshold = (rules: readonly StoredRule[], threshold: number): StoredRule[] =>
  rules.map((rule) =>
    rule.approvers === undefined
      ? { ...rule, approvals_needed: Math.max(threshold, rule.approvals_needed ?? 1) }
      : rule,
  )

const viewOf = ({ from, to, example }: Change, threshold: number): ChangeView => ({
  change: `${from.verdict}->${to.verdict}`,
  example_call: example,
  approval: { from: termsOf(from, threshold), to: termsOf(to, threshold) },
  rules: [...decidingRule('from', from), ...decidingRule('to', to)],
})

const decidingRule = (
  set: DecidingRule['set'],
  { ruleId, ruleName, matchedRules }: Decided,
): DecidingRule[] =>
  ruleId === null || ruleName === null
    ? []
    : [
        {
          set,
          id: ruleId,
          name: ruleName,
          verdict: matchedRules.find(({ id }) => id === ruleId)?.verdict ?? 'deny',
        },
      ]
