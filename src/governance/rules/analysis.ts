import type { ExampleCall, AgentEffects } from '../../policy/example-calls.ts'
import type { RuleBody, StoredRule } from '../../policy/rule.ts'
import { analyzeRules, type Finding } from '../../policy/rule-analysis.ts'
import type { MatchedRule } from '../../policy/decide.ts'
import { facts } from '../../tools/index.ts'
import { Steps, type Json, type SideEffect } from '../../policy/types.ts'
import { inOneLine } from '../../policy/text.ts'
import type { LoadedPolicy } from '../audit/policy-cache.ts'
import { policySnapshot } from '../audit/combiner.ts'
import type { Context, Changing } from '../context.ts'
import { inSlices, type LongRequest } from './long-work.ts'
import { agentTool } from '../../policy/agent-tools.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'
import { classifyIn, readCall, type ReadCall } from '../../calls/agents/classify.ts'

export const mostFindings = 200
/** Comparisons. All pairs of 2,000 rules are 4 million; two globs with `*` can need one for each pair of characters. */
export const mostSteps = 10_000_000

/** See docs/rules.md#find-rules-without-effect. */
export interface FindingView {
  readonly kind: Finding['kind']
  /** The first one has no effect. For `duplicate` and `contradicts`, the second is `covered_by`. */
  readonly rules: readonly MatchedRule[]
  readonly covered_by: MatchedRule | null
  /** Both rules match it. It has the form of `rules/test`; null if none was found. */
  readonly example_call: ExampleCall | null
  readonly message: string
}

export interface RuleAnalysis {
  readonly findings: readonly FindingView[]
  /** null if all rules were looked at. */
  readonly limit_reached: 'findings' | 'comparisons' | 'time' | null
}

/** Such a rule matches no call, or other rules decide all of its calls. */
export async function analyzeSavedRules(
  context: Changing & Pick<Context, 'shares'>,
  organizationId: string,
  request: LongRequest,
): Promise<RuleAnalysis> {
  return inSlices(context, request, async (slices) => {
    const saved = await policySnapshot(context, organizationId)
    const steps = new Steps(mostSteps)
    const rules = await slices.run(() => savedRules(saved))
    const findings: FindingView[] = []
    const effectsOf = agentEffects(saved.settings)
    const search = analyzeRules(rules, steps, {
      facts,
      effectsOf,
      externalTools: saved.settings.external_tools,
    })
    const limit = await slices.follow(search, (finding) => {
      if (steps.areUsedUp) return 'comparisons'
      if (finding !== null && findings.length === mostFindings) return 'findings'
      if (finding !== null) findings.push(viewOf(finding))
      return null
    })
    return { findings, limit_reached: limit ?? (steps.areUsedUp ? 'comparisons' : null) }
  })
}

/** In the order in which they were saved. */
export const savedRules = ({ rules }: Pick<LoadedPolicy, 'rules'>): StoredRule[] =>
  [...rules].map(([id, { text }]) => ({ ...(JSON.parse(text) as RuleBody), id }))

function viewOf({ kind, rule, coveredBy, example, message }: Finding): FindingView {
  const isPair = kind === 'duplicate' || kind === 'contradicts'
  return {
    kind,
    rules: [rule, ...(isPair && coveredBy !== null ? [coveredBy] : [])].map(refOf),
    covered_by: coveredBy === null ? null : refOf(coveredBy),
    example_call: example,
    message,
  }
}

const refOf = ({ id, name, verdict, status }: StoredRule): MatchedRule => ({
  id,
  name: inOneLine(name),
  verdict,
  shadow: status === 'shadow',
})

/** Reading a command takes long. */
const mostKept = 1_000
const byStrictness: readonly SideEffect[] = ['read', 'write', 'egress']

/** As of a real agent. The gateway also sends the annotations of a protocol tool, which can make it stricter. */
export function agentEffects(settings: Pick<GovernanceSettings, 'external_tools'>): AgentEffects {
  const kept = new Map<string, ReadCall>()
  return (tool, params, labels) => {
    const key = agentTool(tool)?.code === undefined ? tool : JSON.stringify([tool, partsThatCount(params)])
    const read = kept.get(key) ?? readCall(tool, partsThatCount(params), {})
    if (kept.size >= mostKept) kept.clear()
    kept.set(key, read)
    const { sideEffect } = classifyIn(read, labels, settings)
    return tool.startsWith('mcp__') ? byStrictness.slice(byStrictness.indexOf(sideEffect)) : [sideEffect]
  }
}

/** Only these change the side effect of a call. */
function partsThatCount(params: Readonly<Record<string, Json>>): Record<string, Json> {
  const names = ['command', 'cmd', 'ws']
  return Object.fromEntries(Object.entries(params).filter(([name]) => names.includes(name)))
}
