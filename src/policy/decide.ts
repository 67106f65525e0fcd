import { Budget, BudgetExceeded } from './budget.ts'
import type { CompiledPolicy, CompiledRule } from './compile.ts'
import { type Subject, evaluate } from './evaluate.ts'
import { knownLabels } from './label-sets.ts'
import { inOneLine } from './text.ts'
import { explainApprovalsOff, explainVerdict } from './explain.ts'
import { oneAdmin, strictest, type Seat } from './seats.ts'
import { withLinked } from './tool-facts.ts'
import { yes } from './tri.ts'
import {
  type CallSource,
  type JsonObject,
  type Label,
  type SideEffect,
  type Verdict,
  rank,
  unionLabels,
  type Role,
} from './types.ts'
import type { ToolAccess } from './tool-access.ts'

export { type CompiledPolicy, type PolicySource, compilePolicy } from './compile.ts'

export interface Call {
  readonly source: CallSource
  readonly tool: string
  readonly sideEffect: SideEffect
  readonly params: JsonObject
  /** Null or absent if the call stays here. Not read for a call of an agent. */
  readonly destination?: string | null | undefined
  readonly labels: readonly Label[]
  /** The agent's key, or a group of its person, says that a rule must allow it. The organization's setting may too. */
  readonly needsRule?: boolean | undefined
  /** By dotted path, the labels of the parameter's sources, for `from_label`. If absent, all sources of the call. */
  readonly paramLabels?: ReadonlyMap<string, readonly Label[]> | undefined
}

export interface MatchedRule {
  readonly id: string
  readonly name: string
  readonly verdict: Verdict
  readonly shadow: boolean
}

export interface Decided {
  readonly verdict: Verdict
  readonly ruleId: string | null
  readonly ruleName: string | null
  /** The rule that decided, or a text such as `no rule matched` or `organization frozen`. */
  readonly reason: string
  readonly explanation: string
  readonly matchedRules: readonly MatchedRule[]
  /** Who must approve it. */
  readonly seats: readonly Seat[]
  /** 0: the approval never expires. Null: no rule sets a time. */
  readonly expiresAfterSeconds: number | null
  /** Null: nobody is reminded. */
  readonly remindAfterSeconds: number | null
  /** Names of the parameters that an approver may edit. */
  readonly mayEdit: readonly string[]
}

/**
 * The most restrictive matching rule wins, and of equal ones the first saved gives the reason. Shadow rules are only
 * reported. Without a match the call is allowed, unless agents need a rule that allows it; too large to evaluate, it is denied; and a restrictive rule that
 * cannot be evaluated counts as matching. Spends `budget`, changes nothing else, never throws.
 */
export function decide(policy: CompiledPolicy, call: Call, budget = new Budget()): Decided {
  if (policy.frozen !== null) return frozen(policy.frozen)
  const subject = subjectOf(policy, call, budget)
  const matches: CompiledRule[] = []
  try {
    for (const rule of policy.rulesFor(call.tool, call.sideEffect, call.source)) {
      if (evaluate(rule, subject) === yes) matches.push(rule)
    }
  } catch (error) {
    return tooLarge(matches, error)
  }
  const enforced = matches.filter((rule) => !rule.isShadow)
  const isDenied = enforced.some((rule) => effectOf(policy, rule.verdict) === 'deny')
  if (!isDenied && isTooLargeToLabel(policy, call)) return withoutRule(matches)
  if (!isDenied && needsRule(policy, call) && !enforced.some((rule) => rule.verdict === 'allow'))
    return { ...withoutAllowRule(call.tool), matchedRules: matches.map(report) }
  const first = enforced[0]
  if (first === undefined)
    return {
      ...plain('allow', 'no rule matched', 'No rule matched the call.'),
      matchedRules: matches.map(report),
    }
  const deciding = enforced.reduce(
    (best, rule) => (rank[rule.verdict] > rank[best.verdict] ? rule : best),
    first,
  )
  const verdict = effectOf(policy, deciding.verdict)
  const isRefusedHold = verdict !== deciding.verdict
  const explain = isRefusedHold ? explainApprovalsOff : explainVerdict
  return {
    verdict,
    ruleId: deciding.id,
    ruleName: deciding.name,
    reason: deciding.name,
    explanation: explain(deciding, call.tool),
    matchedRules: matches.map(report),
    ...approvalTerms(enforced),
  }
}

/** Whether a rule must allow the call. */
export const needsRule = (
  policy: CompiledPolicy,
  { source, needsRule: asked }: Pick<Call, 'source' | 'needsRule'>,
): boolean => source === 'agents' && (policy.agentsNeedRule || asked === true)

export const withoutAllowRule = (tool: string): Decided =>
  refused(
    noRuleAllows,
    `Agents may make only calls that a rule allows (\`default_agent_access\`), and none allows \`${inOneLine(tool)}\`: ask an admin for a rule with the verdict \`allow\`.`,
  )
export const noRuleAllows = 'no rule allows it'

/** While approvals are off, nobody can approve, so a rule that requires an approval denies. */
export function effectOf(policy: Pick<CompiledPolicy, 'approvalsEnabled'>, verdict: Verdict): Verdict {
  return verdict === 'require_approval' && !policy.approvalsEnabled ? 'deny' : verdict
}

/** What active label rules add to the call's output, sorted, beside the labels of its inputs. */
export function addedLabels(policy: CompiledPolicy, call: Call): Label[] {
  const { added, unsure } = labelsByRules(policy, call)
  return unionLabels(...added, ...unsure)
}

/**
 * The labels of rules that match, and, once the budget is used up, those of the rules that remain: `unsure`. They count
 * as added, because a label usually restricts later calls. `isTooLargeToLabel` handles labels with which a call could
 * escape a rule.
 */
function labelsByRules(
  policy: CompiledPolicy,
  call: Call,
): { readonly added: readonly (readonly Label[])[]; readonly unsure: readonly (readonly Label[])[] } {
  const added: (readonly Label[])[] = []
  const unsure: (readonly Label[])[] = []
  const rules = policy.labelRulesFor(call.tool)
  if (rules.length === 0) return { added, unsure }
  const subject = subjectOf(policy, call, new Budget())
  for (const rule of rules) {
    try {
      if (evaluate(rule, subject) === yes) added.push(rule.addLabels)
    } catch {
      unsure.push(rule.addLabels)
    }
  }
  return { added, unsure }
}

/** A rule names an unsure label in `none_of`: with a label that it got without reason, a later call could escape. */
function isTooLargeToLabel(policy: CompiledPolicy, call: Call): boolean {
  if (policy.excludedLabels.size === 0) return false
  return labelsByRules(policy, call)
    .unsure.flat()
    .some((label) => policy.excludedLabels.has(label))
}

function subjectOf({ facts }: CompiledPolicy, call: Call, budget: Budget): Subject {
  const reading = facts.reading(call.tool, call.source)
  const origins =
    call.paramLabels === undefined
      ? null
      : new Map([...call.paramLabels].map(([path, labels]) => [path, knownLabels(labels)] as const))
  return {
    params: withLinked(reading, call.params),
    places: reading.places,
    defaults: reading.defaults,
    destination: call.source === 'agents' ? undefined : (call.destination ?? null),
    labels: knownLabels(call.labels),
    origins,
    budget,
    byLabels: new Map(),
    found: new Map(),
  }
}

/** The strictest terms of the rules that hold the call: all of their seats (`strictest`), the shortest times, and the shared `mayEdit`. */
export function approvalTerms(rules: readonly CompiledRule[]) {
  const holding = rules.filter((rule) => rule.verdict === 'require_approval')
  const times = holding.map((rule) => rule.expiresAfterSeconds).filter((seconds) => seconds !== null)
  const reminders = holding.map((rule) => rule.remindAfterSeconds).filter((seconds) => seconds !== null)
  const limited = times.filter((seconds) => seconds > 0)
  return {
    seats: holding.length === 0 ? oneAdmin : strictest(holding.flatMap(({ seats }) => seats)),
    expiresAfterSeconds: times.length === 0 ? null : limited.length === 0 ? 0 : Math.min(...limited),
    remindAfterSeconds: reminders.length === 0 ? null : Math.min(...reminders),
    mayEdit: (holding[0]?.mayEdit ?? []).filter((name) =>
      holding.every(({ mayEdit }) => mayEdit.includes(name)),
    ),
  }
}

function report(rule: CompiledRule): MatchedRule {
  return { id: rule.id, name: rule.name, verdict: rule.verdict, shadow: rule.isShadow }
}

function frozen(why: string): Decided {
  return plain('deny', 'organization frozen', explainFrozen(why))
}

export function explainFrozen(why: string): string {
  const because = why.trim() === '' ? '' : `: ${why.trim()}`
  return `The organization is frozen, so every call is denied${because}`
}

function tooLarge(matches: readonly CompiledRule[], error: unknown): Decided {
  if (!(error instanceof BudgetExceeded)) throw error
  return withoutRule(matches)
}

function withoutRule(matches: readonly CompiledRule[]): Decided {
  const explanation =
    'The call has more values or labels than the rules can compare in bounded time, so it is denied.'
  return { ...plain('deny', 'call too large to evaluate', explanation), matchedRules: matches.map(report) }
}

/** A denial that comes from no rule, e.g. because the caller may not use the tool. */
export function refused(reason: string, explanation: string): Decided {
  return plain('deny', reason, explanation)
}

function plain(verdict: Verdict, reason: string, explanation: string): Decided {
  return {
    verdict,
    ruleId: null,
    ruleName: null,
    reason,
    explanation,
    matchedRules: [],
    seats: oneAdmin,
    expiresAfterSeconds: null,
    remindAfterSeconds: null,
    mayEdit: [],
  }
}

/**
 * A freeze comes first, then tool policies, then rules, for the role of the person and of the authors of the step.
 * `analyzePlan` checks the same in the same order for calls with unknown parts (test/policy/plan-law.test.ts compares
 * both). Limits of tool policies on parameters apply only to calls of workflows.
 */
export function judgeCall(
  { compiled, toolAccess }: { readonly compiled: CompiledPolicy; readonly toolAccess: ToolAccess },
  call: Call,
  role: Role,
  authorRoles?: readonly Role[],
): Decided {
  if (compiled.frozen !== null) return decide(compiled, call)
  const { tool, sideEffect, source } = call
  const params = source === 'workflows' ? call.params : null
  const refusal = toolAccess.refusal({ tool, sideEffect, params, role, authorRoles })
  return refusal === null ? decide(compiled, call) : refused(refusal.reason, refusal.explanation)
}
