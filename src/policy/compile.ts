import {
  type CompiledCondition,
  type Conditions,
  type LabelConditions,
  compileCondition,
  compileLabels,
} from './evaluate.ts'
import { type Described, describeConditions } from './explain.ts'
import { isUnclassed, type ExternalTools } from './external-tools.ts'
import { matchesGlob } from './glob.ts'
import type { StoredLabelRule, StoredRule } from './rule.ts'
import { nobody, seatsOf, type Seat } from './seats.ts'
import { inOneLine } from './text.ts'
import type { ToolFacts } from './tool-facts.ts'
import {
  type AgentAccess,
  type CallSource,
  type Label,
  type SideEffect,
  type Verdict,
  rank,
} from './types.ts'

/** In the order in which they were saved. */
export interface PolicySource {
  readonly rules: readonly StoredRule[]
  readonly labelRules: readonly StoredLabelRule[]
  readonly approvalsEnabled: boolean
  readonly frozen?: string | null | undefined
  /** The setting `default_agent_access`. Without it, calls of agents need no rule. */
  readonly agentAccess?: AgentAccess | undefined
  /** Without it, no tool is classed. */
  readonly externalTools?: ExternalTools | undefined
}

export interface CompiledRule extends Conditions {
  readonly id: string
  readonly name: string
  readonly verdict: Verdict
  readonly isShadow: boolean
  readonly because: string
  readonly described: Described
  readonly seats: readonly Seat[]
  readonly expiresAfterSeconds: number | null
  readonly remindAfterSeconds: number | null
  readonly mayEdit: readonly string[]
  readonly covers: (tool: string, sideEffect: SideEffect, source: CallSource) => boolean
  /** Only for tools that nobody has classed: `joinRules` checks this, `covers` does not. */
  readonly isForUnclassed: boolean
}

export interface CompiledLabelRule extends Conditions {
  readonly addLabels: readonly Label[]
  readonly covers: (tool: string) => boolean
}

export interface CompiledPolicy {
  readonly facts: ToolFacts
  readonly approvalsEnabled: boolean
  readonly frozen: string | null
  /** A call of an agent passes only where a rule allows it. */
  readonly agentsNeedRule: boolean
  /** The labels in `none_of` of active rules that restrict: such a rule does not match a call with one of them. */
  readonly excludedLabels: ReadonlySet<Label>
  /** Active and shadow rules, in the order in which they were saved. */
  rulesFor(tool: string, sideEffect: SideEffect, source: CallSource): readonly CompiledRule[]
  labelRulesFor(tool: string): readonly CompiledLabelRule[]
}

/** Entries of an index by tool. Agents can send any text as a tool's name, so a full index is cleared. */
const indexSize = 4096

/** Never throws: an unreadable part makes a restrictive rule match more calls; an unknown verdict counts as `deny`. */
export function compilePolicy(facts: ToolFacts, source: PolicySource): CompiledPolicy {
  return joinRules(facts, {
    ...source,
    rules: source.rules.map(compileRule).filter((rule) => rule !== null),
    labelRules: source.labelRules.map(compileLabelRule).filter((rule) => rule !== null),
  })
}

/** The rules must be in the order in which they were saved. */
export function joinRules(
  facts: ToolFacts,
  {
    rules,
    labelRules,
    approvalsEnabled,
    frozen = null,
    externalTools = nothingTold,
    agentAccess = 'allow',
  }: Pick<PolicySource, 'approvalsEnabled' | 'frozen' | 'externalTools' | 'agentAccess'> & {
    readonly rules: readonly CompiledRule[]
    readonly labelRules: readonly CompiledLabelRule[]
  },
): CompiledPolicy {
  const byCall = new Map<string, readonly CompiledRule[]>()
  const byTool = new Map<string, readonly CompiledLabelRule[]>()
  return {
    facts,
    approvalsEnabled,
    frozen,
    agentsNeedRule: agentAccess === 'deny',
    excludedLabels: new Set(
      rules.flatMap(({ isRestrictive, isShadow, labels }) =>
        isRestrictive && !isShadow ? [...(labels?.noneOf ?? [])] : [],
      ),
    ),
    rulesFor: (tool, sideEffect, from) =>
      remember(byCall, `${from} ${sideEffect} ${tool}`, () =>
        rules.filter(
          (rule) =>
            rule.covers(tool, sideEffect, from) &&
            (!rule.isForUnclassed || isUnclassed(externalTools, tool, from)),
        ),
      ),
    labelRulesFor: (tool) => remember(byTool, tool, () => labelRules.filter((rule) => rule.covers(tool))),
  }
}

const nothingTold: ExternalTools = {}

export function compileRule(rule: StoredRule): CompiledRule | null {
  if (rule.status === 'inactive') return null
  const isRestrictive = rule.verdict !== 'allow'
  const coversTool = toolMatcher(rule.tools)
  return {
    id: rule.id,
    name: inOneLine(rule.name),
    verdict: Object.hasOwn(rank, rule.verdict) ? rule.verdict : 'deny',
    isShadow: rule.status === 'shadow',
    because: describeConditions(rule),
    described: rule,
    seats: readSeats(rule),
    expiresAfterSeconds: rule.expires_after_seconds ?? null,
    remindAfterSeconds: rule.remind_after_seconds ?? null,
    mayEdit: rule.approver_may_edit ?? [],
    isRestrictive,
    labels: readLabels(rule.labels),
    params: compileConditions(rule.params, isRestrictive),
    isForUnclassed: rule.classed === false,
    covers: (tool, sideEffect, source) =>
      unlessBroken(
        isRestrictive,
        () =>
          (rule.side_effects === undefined || rule.side_effects.includes(sideEffect)) &&
          (rule.applies_to === undefined || rule.applies_to.includes(source)) &&
          coversTool(tool),
      ),
  }
}

export function compileLabelRule(rule: StoredLabelRule): CompiledLabelRule | null {
  if (rule.status !== 'active') return null
  const coversTool = toolMatcher(rule.tools)
  return {
    addLabels: rule.add_labels,
    // An added label usually restricts later calls; only a rule with `none_of` can stop matching because of one. So one
    // matching element of a list is enough, as in rules that restrict.
    isRestrictive: true,
    labels: readLabels(rule.labels),
    params: compileConditions(rule.params, true),
    covers: (tool) => unlessBroken(true, () => coversTool(tool)),
  }
}

/** The cheap ones first. Null if one cannot be read: a restrictive rule then matches all that it covers. */
function compileConditions(params: StoredRule['params'], isRestrictive: boolean): CompiledCondition[] | null {
  try {
    const compiled = params?.map((condition) => compileCondition(condition, isRestrictive)) ?? []
    const cost = (condition: CompiledCondition) => (condition.matcher === null ? 0 : 1)
    return compiled.sort((a, b) => cost(a) - cost(b))
  } catch {
    return null
  }
}

function readLabels(labels: StoredRule['labels']): LabelConditions | null | undefined {
  try {
    return compileLabels(labels)
  } catch {
    return null
  }
}

function readSeats(rule: StoredRule): readonly Seat[] {
  try {
    return seatsOf(rule)
  } catch {
    return nobody
  }
}

function unlessBroken(fallback: boolean, ask: () => boolean): boolean {
  try {
    return ask()
  } catch {
    return fallback
  }
}

function toolMatcher(globs: readonly string[] | undefined): (tool: string) => boolean {
  if (globs === undefined) return () => true
  return (tool) =>
    globs.some((glob) => {
      if (typeof glob !== 'string') throw new TypeError('a glob must be text')
      return matchesGlob(glob, tool)
    })
}

function remember<T>(index: Map<string, T>, key: string, compute: () => T): T {
  let value = index.get(key)
  if (value === undefined) {
    if (index.size >= indexSize) index.clear()
    value = compute()
    index.set(key, value)
  }
  return value
}
