import type { Changing } from '../context.ts'
import { facts, getTool } from '../../tools/index.ts'
import {
  compilePolicy,
  decide,
  type Call,
  type CompiledPolicy,
  type Decided,
  judgeCall,
} from '../../policy/decide.ts'
import type { RuleBody } from '../../policy/rule.ts'
import { termsOf, type ApprovalNeeds } from '../../policy/rule-diff.ts'
import { sideEffectOf } from '../../policy/tool-facts.ts'
import { isAgentsTool } from '../../policy/tool-names.ts'
import type { CallSource, JsonObject, Label, Role, SideEffect } from '../../policy/types.ts'
import {
  classifyIn,
  pathAboveRoot,
  readCall,
  type Classified,
  type ReadCall,
} from '../../calls/agents/classify.ts'
import type { Caller } from '../access/identity.ts'
import { refusalOfRole } from '../access/recheck.ts'
import { hasRole } from '../access/scopes.ts'
import type { LoadedPolicy } from '../audit/policy-cache.ts'
import { policySnapshot } from '../audit/combiner.ts'
import { DomainError, errorAt } from '../errors.ts'
import type { CallDestination } from '../audit/connected.ts'
import { toolDestination } from '../tools/connections.ts'
import { refuseLargeDrafts } from './size-limit.ts'

export interface TriedCall {
  /** The default is `agents` for a tool that only they have, else `workflows`. */
  readonly source?: CallSource | undefined
  readonly tool: string
  readonly side_effect?: SideEffect | undefined
  readonly params: JsonObject
  /**
   * The host to which a workflow's call goes. The default is that of the caller's present connection; with
   * `side_effect`, the call stays here.
   */
  readonly destination?: string | undefined
  readonly labels: readonly Label[]
  /** If absent, no role and no tool policy is checked. */
  readonly role?: Role | undefined
}

/** With the fields of a Decision. */
export interface Trial extends Pick<Decided, 'reason' | 'explanation'> {
  readonly decision: Decided['verdict']
  readonly rule_id: string | null
  readonly rule_name: string | null
  readonly matched_rules: Decided['matchedRules']
  readonly side_effect: SideEffect
  readonly labels: readonly Label[]
  /** With the votes that it would need in this organization. */
  readonly approval: ApprovalNeeds | null
}

/**
 * Decides a call without making or recording it. Drafts decide in their order in place of the saved rules, under the
 * present settings; their ids are `draft_0` and so on. With `call.role`, the role and the tool policies are checked
 * first.
 *
 * Throws `insufficient_role` for a role above the caller's, and `validation_error` if the drafts are too large to save,
 * or if a workflow's call names an unknown tool.
 */
export async function tryRules(
  context: Changing,
  caller: Pick<Caller, 'organizationId' | 'role' | 'userId'>,
  call: TriedCall,
  drafts: readonly RuleBody[] | null,
): Promise<Trial> {
  if (call.role !== undefined && !hasRole(caller.role, call.role))
    throw new DomainError('insufficient_role', `trying a call of role \`${call.role}\` needs that role`)
  if (drafts !== null) refuseLargeDrafts(drafts)
  const saved = await policySnapshot(context, caller.organizationId)
  const source = call.source ?? (isAgentsTool(call.tool) ? 'agents' : 'workflows')
  requireTool(source, call.tool)
  const to = source === 'agents' ? null : placeOf(context, saved, caller, call)
  const { sideEffect, words, params } = classify({ ...call, source }, saved, to)
  const destination = call.destination ?? to?.destination
  const tried = { ...call, source, sideEffect, params: params ?? {}, destination }
  const compiled = drafts === null ? saved.compiled : compileDrafts(saved, drafts)
  const refusal = saved.frozen === null ? refusalOf(tried, params === null) : null
  const decided = refusal ?? answerOf({ compiled, toolAccess: saved.toolAccess }, tried)
  const { approval_threshold: threshold } = saved.settings
  return trialOf(decided, { sideEffect, words, labels: call.labels, threshold })
}

/** Otherwise a misspelt name would look like a call that no rule stops. An agent may have tools that we do not know. */
function requireTool(source: CallSource, tool: string): void {
  const issue = source === 'workflows' ? facts.names.issue(tool) : null
  if (issue === null) return
  throw errorAt(
    'validation_error',
    'call.tool',
    `${issue}; for another tool of an agent, give \`source\`: \`agents\``,
  )
}

const compileDrafts = ({ settings, frozen }: LoadedPolicy, drafts: readonly RuleBody[]): CompiledPolicy =>
  compilePolicy(facts, {
    rules: drafts.map((draft, index) => ({ ...draft, id: `draft_${index}` })),
    labelRules: [],
    approvalsEnabled: settings.approvals_enabled,
    externalTools: settings.external_tools,
    agentAccess: settings.default_agent_access,
    frozen,
  })

/** What is refused before any rule or tool policy is checked. */
function refusalOf({ source, role }: Call & TriedCall, hasBadPath: boolean): Decided | null {
  const refusal = role === undefined ? null : refusalOfRole(source, role)
  return refusal ?? (hasBadPath ? pathAboveRoot : null)
}

const answerOf = (policy: Pick<LoadedPolicy, 'compiled' | 'toolAccess'>, call: Call & TriedCall): Decided =>
  call.role === undefined ? decide(policy.compiled, call) : judgeCall(policy, call, call.role)

/** Where a run of the caller would send the call. A host that the connection does not have is not the service's own. */
function placeOf(
  { config }: Pick<Changing, 'config'>,
  { connections }: LoadedPolicy,
  { userId }: Pick<Caller, 'userId'>,
  { tool, destination: said, side_effect }: TriedCall,
): CallDestination | null {
  const called = getTool(tool)
  if (side_effect !== undefined || called === undefined) return null
  const present = toolDestination(config.tools, connections, called, userId)
  if (said === undefined || said === present?.destination) return present
  return { destination: said, ownHost: false }
}

/** As the call says, else as a run or, for an agent, its hook would ask. */
function classify(
  { source, tool, params, labels, side_effect: said }: TriedCall,
  { settings }: LoadedPolicy,
  to: CallDestination | null,
): Pick<Classified, 'sideEffect' | 'words'> & Pick<ReadCall, 'params'> {
  if (source !== 'agents') {
    const known = getTool(tool)
    const own = known === undefined ? 'write' : sideEffectOf(known, params, to, labels.length > 0)
    return { sideEffect: said ?? own, words: '', params }
  }
  const read = readCall(tool, params, {})
  if (said !== undefined) return { sideEffect: said, words: '', params: read.params }
  return { ...classifyIn(read, labels, settings), params: read.params }
}

interface Facts {
  readonly sideEffect: SideEffect
  /** Why the call has this side effect. */
  readonly words: string
  readonly labels: readonly Label[]
  /** The least number of votes. */
  readonly threshold: number
}

function trialOf(decided: Decided, { sideEffect, words, labels, threshold }: Facts): Trial {
  const { verdict, reason, explanation, ruleId, ruleName, matchedRules } = decided
  return {
    decision: verdict,
    reason,
    explanation: verdict === 'allow' ? explanation : `${explanation}${words}`,
    rule_id: ruleId,
    rule_name: ruleName,
    matched_rules: matchedRules,
    side_effect: sideEffect,
    labels,
    approval: termsOf(decided, threshold),
  }
}
