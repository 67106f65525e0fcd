import { compileRule, joinRules } from '../../policy/compile.ts'
import { facts } from '../../tools/facts.ts'
import type { RuleBody } from '../../policy/rule.ts'
import type { Verdict } from '../../policy/types.ts'
import { activeOf } from '../audit/compiled-rows.ts'
import type { LoadedPolicy } from '../audit/policy-cache.ts'
import { policySnapshot } from '../audit/policy-snapshot.ts'
import type { Context } from '../context.ts'
import { listCalls, readSlice, type DecidedCall, type Window } from './decided-calls.ts'
import { inSlices, type LongRequest } from '../rules/long-work.ts'
import {
  openKnown,
  replay,
  verdictByRules,
  type KnownParams,
  type ReplayPolicy,
  type Unreplayed,
} from './replay.ts'
import { refuseLargeDrafts } from '../rules/size-limit.ts'

/** A backtest shows at most this many calls whose verdict would change. */
export const mostSamples = 20

/** A recorded call for which the drafts give another verdict. */
export interface BacktestSample {
  readonly decision_id: string
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly session_id: string | null
  readonly tool: string
  readonly decided_at: string
  readonly labels: readonly string[]
  readonly from: { readonly verdict: Verdict; readonly rule_name: string | null }
  readonly to: {
    readonly verdict: Verdict
    readonly rule_name: string | null
    readonly explanation: string
  }
}

export interface Backtest {
  /** The number of calls, including those that cannot be replayed. */
  readonly examined: number
  /** The number of calls for which the drafts give another verdict. */
  readonly changed: number
  readonly not_replayable: readonly { readonly reason: Unreplayed; readonly count: number }[]
  /** The number of changed calls for each change. Example of a change: `allow->deny`. */
  readonly by_change: Readonly<Record<string, number>>
  /** The newest changed calls. */
  readonly samples: readonly BacktestSample[]
  /** The limit at which the backtest ended; null if it examined all calls of the window. */
  readonly limit_reached: 'decisions' | 'bytes' | 'time' | null
  /** When the oldest examined call was decided. Is null if no call was examined. */
  readonly oldest: string | null
}

export interface BacktestRequest extends Window, LongRequest {
  readonly drafts: readonly RuleBody[]
}

/**
 * Decides recorded calls of an organization again, with the drafts in place of the saved rules. Counts the verdicts that
 * change (docs/decisions/0221). Uses the recorded labels and side effects. Uses the present tool policies and the present
 * setting `approvals_enabled`. Ignores a freeze. Writes nothing.
 *
 * Throws `validation_error` if the drafts together are too large to save, and the errors of `inSlices`.
 */
export async function backtestRules(
  context: Pick<Context, 'db' | 'combiner' | 'sealer' | 'shares'>,
  organizationId: string,
  { drafts, ...request }: BacktestRequest,
): Promise<Backtest> {
  refuseLargeDrafts(drafts)
  return inSlices(context, request, async (parts) => {
    const saved = await policySnapshot(context, organizationId)
    const policy = await parts.run(() => withDrafts(saved, drafts))
    const { slices, limit } = await listCalls(context.db, organizationId, request)
    const count = createCount(policy)
    for (const ids of slices) {
      for (const call of await readSlice(context.db, organizationId, ids)) {
        if (parts.isOver()) return count.result('time')
        const known = await parts.run(() => openKnown(context.sealer, call, parts))
        await parts.run(() => count.add(call, known))
      }
    }
    return count.result(limit)
  })
}

const withDrafts = (saved: LoadedPolicy, drafts: readonly RuleBody[]): ReplayPolicy => ({
  compiled: joinRules(facts, {
    rules: drafts
      .map((draft, index) => compileRule({ ...draft, id: `draft_${index}` }))
      .filter((rule) => rule !== null),
    labelRules: activeOf(saved.labelRules),
    approvalsEnabled: saved.settings.approvals_enabled,
    externalTools: saved.settings.external_tools,
  }),
  toolAccess: saved.toolAccess,
})

/** Replays calls, and counts the changes of verdicts and the calls that cannot be replayed. */
function createCount(policy: ReplayPolicy) {
  let [examined, changed] = [0, 0]
  let oldest: string | null = null
  const reasons = new Map<Unreplayed, number>()
  const changes = new Map<string, number>()
  const samples: BacktestSample[] = []
  return {
    add(call: DecidedCall, known: KnownParams): void {
      const from = verdictByRules(call)
      const to = from === null ? 'policy_decided' : replay(policy, call, known)
      examined += 1
      oldest = call.decided_at.toISOString()
      if (typeof to === 'string') return addOne(reasons, to)
      if (from === null || to.verdict === from) return
      changed += 1
      addOne(changes, `${from}->${to.verdict}`)
      if (samples.length < mostSamples) samples.push(sampleOf(call, from, to))
    },
    result: (limit: Backtest['limit_reached']): Backtest => ({
      examined,
      changed,
      not_replayable: inOrder(reasons).map(([reason, count]) => ({ reason, count })),
      by_change: Object.fromEntries(inOrder(changes)),
      samples,
      limit_reached: limit,
      oldest,
    }),
  }
}

const addOne = <Key>(counts: Map<Key, number>, key: Key): void =>
  void counts.set(key, (counts.get(key) ?? 0) + 1)

/** Returns the counts, the largest first. */
const inOrder = <Key extends string>(counts: ReadonlyMap<Key, number>): [Key, number][] =>
  [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))

const sampleOf = (
  call: DecidedCall,
  from: Verdict,
  to: Exclude<ReturnType<typeof replay>, Unreplayed>,
): BacktestSample => ({
  decision_id: call.id,
  run_id: call.run_id,
  step_id: call.step_id,
  item_index: call.item_index,
  session_id: call.session_id,
  tool: call.tool,
  decided_at: call.decided_at.toISOString(),
  labels: call.labels,
  from: { verdict: from, rule_name: call.rule_name },
  to: { verdict: to.verdict, rule_name: to.ruleName, explanation: to.explanation },
})
