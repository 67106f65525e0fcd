import type { ExampleCall } from '../../policy/example-calls.ts'
import type { Decided } from '../../policy/decide.ts'
import type { RuleBody, StoredRule } from '../../policy/rule.ts'
import { findChanges, sizeOf, type Change } from '../../policy/rule-diff.ts'
import type { Verdict } from '../../policy/types.ts'
import { policySnapshot } from '../audit/policy-snapshot.ts'
import type { Context } from '../context.ts'
import { savedRules } from './analysis.ts'
import { inSlices, type LongRequest } from './long-work.ts'
import { refuseLargeDrafts } from './size-limit.ts'

/** A comparison shows at most this many changes. */
export const mostChanges = 50
/** A comparison tries at most this many calls. Each read of a rule counts as a call. */
export const mostTried = 20_000
/** The thread tries this many calls in a row. Then it works for other requests. */
const sliceTries = 5

/** A rule that decides the example call, in one of the two sets. */
export interface DecidingRule {
  readonly set: 'from' | 'to'
  readonly id: string
  readonly name: string
  readonly verdict: Verdict
}

export interface ChangeView {
  /** The verdicts before and after, such as `allow->deny`. */
  readonly change: string
  readonly example_call: ExampleCall
  /** The rules that decide the example call. If no rule of a set decides, the set has no element here. */
  readonly rules: readonly DecidingRule[]
}

export interface RuleDiff {
  /** The smallest examples come first. */
  readonly changes: readonly ChangeView[]
  /** The number of calls that were tried. Each read of a rule counts as a call. */
  readonly tried: number
  /** The limit at which the comparison ended. Is null if the comparison tried all calls that it can make. */
  readonly limit_reached: 'changes' | 'calls' | 'time' | null
}

export interface DiffRequest extends LongRequest {
  /** `active` stands for the saved rules. */
  readonly from: readonly RuleBody[] | 'active'
  readonly to: readonly RuleBody[]
}

/**
 * Looks for calls that two sets of rules decide differently, under the organization's present settings. A freeze and
 * tool policies are left out. Throws `validation_error` if the rules of one set together are too large to save.
 */
export async function diffRules(
  context: Pick<Context, 'db' | 'combiner' | 'shares'>,
  organizationId: string,
  { from, to, ...request }: DiffRequest,
): Promise<RuleDiff> {
  if (from !== 'active') refuseLargeDrafts(from, 'from')
  refuseLargeDrafts(to, 'to')
  return inSlices(context, request, async (slices) => {
    const saved = await policySnapshot(context, organizationId)
    const changes = new Map<string, Change>()
    const sets = {
      from: from === 'active' ? await slices.run(() => savedRules(saved)) : drafted(from),
      to: drafted(to),
      approvalsEnabled: saved.settings.approvals_enabled,
    }
    const tries = findChanges(sets, changes)
    let tried = 0
    const result = (limit: RuleDiff['limit_reached']): RuleDiff => ({
      changes: [...changes.values()].sort((a, b) => sizeOf(a.example) - sizeOf(b.example)).map(viewOf),
      tried,
      limit_reached: limit,
    })
    for (;;) {
      if (changes.size >= mostChanges) return result('changes')
      if (tried >= mostTried) return result('calls')
      if (slices.isOver()) return result('time')
      const isDone = await slices.run(() => {
        for (let index = 0; index < sliceTries && changes.size < mostChanges; index += 1) {
          if (tries.next().done === true) return true
          tried += 1
        }
        return false
      })
      if (isDone) return result(null)
    }
  })
}

const drafted = (bodies: readonly RuleBody[]): StoredRule[] =>
  bodies.map((body, index) => ({ ...body, id: `draft_${index}` }))

const viewOf = ({ from, to, example }: Change): ChangeView => ({
  change: `${from.verdict}->${to.verdict}`,
  example_call: example,
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
