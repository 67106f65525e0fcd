import type { Decided } from '../../policy/decide.ts'
import { findChanges, type Change } from '../../policy/rule-diff.ts'
import type { LabelRuleBody, RuleBody, StoredLabelRule, StoredRule } from '../../policy/rule.ts'
import { askedWords, withThreshold } from '../../policy/seats.ts'
import {
  isDecidedAsStrictly,
  whyLooserLabelRule,
  whyLooserRule,
  type Terms,
} from '../../policy/strictness.ts'
import { nextTurn } from '../../shared/time-slices.ts'
import { facts } from '../../tools/index.ts'
import { usualTerms, type UsualTerms } from '../changes/gate.ts'
import { policySnapshot } from '../audit/combiner.ts'
import type { LoadedPolicy } from '../audit/policy-cache.ts'
import type { LooserExample } from '../approvals/change.ts'
import type { Changing } from '../context.ts'
import { agentEffects, savedRules } from './analysis.ts'
import type { AnyBody, RuleKindName } from './rule-kinds.ts'

/* What a change of a rule would decide less strictly: sentences under the lock, an example before it. */

interface BodyChange {
  readonly kind: RuleKindName
  readonly id: string
  readonly before: AnyBody | null
  readonly after: AnyBody | null
}

/** What changes are compared with. It is read once for all changes of an application, because that takes long. */
export interface Saved extends Pick<LoadedPolicy, 'settings' | 'agentsMayNeedRule'> {
  readonly rules: readonly StoredRule[]
  readonly labelRules: readonly StoredLabelRule[]
}

export const savedIn = (policy: LoadedPolicy): Saved => ({
  settings: policy.settings,
  agentsMayNeedRule: policy.agentsMayNeedRule,
  rules: savedRules(policy),
  labelRules: savedLabelRules(policy),
})

/** Call it under the lock. `waiting`: ids of rules whose own change waits. They may be gone once it is approved. */
export async function whyLooser(
  saved: Saved,
  change: BodyChange,
  usual: UsualTerms,
  waiting: () => Promise<ReadonlySet<string>>,
): Promise<readonly string[]> {
  const why = reasonsFor(saved, change, usual, new Set())
  if (why.length > 0) return why
  const unsure = reasonsFor(saved, change, usual, await waiting())
  return unsure.length === 0 ? [] : [...unsure, 'a rule whose own change waits does not count']
}

function reasonsFor(
  { rules, labelRules, settings, agentsMayNeedRule }: Saved,
  { kind, id, before, after }: BodyChange,
  usual: UsualTerms,
  waiting: ReadonlySet<string>,
): string[] {
  if (kind === 'rule') {
    const change = changeOf(rules, id, before, after as RuleBody | null)
    const staying = change.others.filter((rule) => !waiting.has(rule.id))
    return whyLooserRule({ ...change, staying }, termsIn({ settings, agentsMayNeedRule }, usual))
  }
  const others = labelRules.filter((rule) => rule.id !== id)
  const change = {
    before: before as LabelRuleBody | null,
    after: after as LabelRuleBody | null,
    others,
    staying: others.filter((rule) => !waiting.has(rule.id)),
  }
  return whyLooserLabelRule(change, rules, { facts })
}

export const savedLabelRules = ({ labelRules }: Pick<LoadedPolicy, 'labelRules'>): StoredLabelRule[] =>
  [...labelRules].map(([id, { text }]) => ({ ...(JSON.parse(text) as LabelRuleBody), id }))

const changeOf = (
  rules: readonly StoredRule[],
  id: string,
  before: AnyBody | null,
  after: RuleBody | null,
) => ({ before: before as RuleBody | null, after, others: rules.filter((rule) => rule.id !== id) })

const termsIn = (
  { settings, agentsMayNeedRule }: Pick<LoadedPolicy, 'settings' | 'agentsMayNeedRule'>,
  usual: UsualTerms,
): Terms => ({
  facts,
  threshold: settings.approval_threshold,
  agentsNeedRule: agentsMayNeedRule,
  ...usual,
})

/** Milliseconds of the thread, and of one slice. */
const mostWork = 500
const slice = 5

/** null if none is needed, or none was found in time. */
export async function looserExample(
  context: Changing,
  organizationId: string,
  id: string,
  after: RuleBody | null,
): Promise<LooserExample | null> {
  const policy = await policySnapshot(context, organizationId)
  if (policy.settings.loosening === 'free') return null
  const from = savedRules(policy)
  const before = from.find((rule) => rule.id === id) ?? null
  const terms = termsIn(policy, usualTerms(context))
  if (whyLooserRule(changeOf(from, id, before, after), terms).length === 0) return null
  const rest = from.map((rule) => (rule.id !== id ? [rule] : after === null ? [] : [{ ...after, id }])).flat()
  const to = before === null && after !== null ? [...from, { ...after, id }] : rest
  let example: LooserExample | null = null
  await search(policy, { from, to }, mostWork, (change) => {
    if (isDecidedAsStrictly(change.to, change.from, terms)) return false
    example = exampleOf(change, terms.threshold)
    return true
  })
  return example
}

interface Sets {
  readonly from: readonly StoredRule[]
  readonly to: readonly StoredRule[]
}

/** By the id of a rule of `ids` that decides it now or then: a call that would be decided otherwise. */
export async function decidedOtherwise(
  policy: LoadedPolicy,
  sets: Sets,
  ids: ReadonlySet<string>,
  most: number,
): Promise<ReadonlyMap<string, LooserExample>> {
  const examples = new Map<string, LooserExample>()
  await search(policy, sets, most, (change) => {
    for (const id of [change.from.ruleId, change.to.ruleId])
      if (id !== null && ids.has(id) && !examples.has(id))
        examples.set(id, exampleOf(change, policy.settings.approval_threshold))
    return examples.size === ids.size
  })
  return examples
}

/** Until `see` says that it has seen enough, or so many milliseconds have been worked. */
async function search(
  { settings }: LoadedPolicy,
  { from, to }: Sets,
  most: number,
  see: (change: Change) => boolean,
): Promise<void> {
  const sets = {
    from,
    to,
    approvalsEnabled: settings.approvals_enabled,
    facts,
    effectsOf: agentEffects(settings),
    externalTools: settings.external_tools,
    agentAccess: settings.default_agent_access,
  }
  const found = new Map<string, Change>()
  let [worked, began] = [0, performance.now()]
  for (const _ of findChanges(sets, found)) {
    for (const change of found.values()) if (see(change)) return
    found.clear()
    const now = performance.now()
    if (now - began < slice) continue
    worked += now - began
    if (worked > most) return
    await nextTurn()
    began = performance.now()
  }
}

const exampleOf = ({ from, to, example }: Change, threshold: number): LooserExample => ({
  call: example,
  ...viewOf(from, to, threshold),
})

function viewOf(before: Decided, after: Decided, threshold: number) {
  const words = ({ verdict, seats }: Decided): string | null =>
    verdict === 'require_approval' ? askedWords(withThreshold(seats, threshold), 'counted') : null
  return {
    before: before.verdict,
    after: after.verdict,
    terms: { before: words(before), after: words(after) },
  }
}
