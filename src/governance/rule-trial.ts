import type { Context } from '../context.ts'
import { getTool } from '../catalog/index.ts'
import { compilePolicy, decide, type Decided } from '../policy/decide.ts'
import type { RuleBody } from '../policy/rule.ts'
import { isAgentsTool } from '../policy/tool-names.ts'
import type { CallSource, JsonObject, Label, SideEffect } from '../policy/types.ts'
import { classifyIn, nobodysPath, readCall, type Classified, type ReadCall } from './agents/classify.ts'
import { loadPolicy } from './policy-cache.ts'
import type { GovernanceSettings } from './settings.ts'

/** A call that nobody makes: what would the rules say? */
export interface TriedCall {
  /** Left out: `agents` for a tool that only agents have, else `workflows`. */
  readonly source?: CallSource | undefined
  readonly tool: string
  readonly side_effect?: SideEffect | undefined
  readonly params: JsonObject
  readonly labels: readonly Label[]
}

/** The decision on such a call, in the words of a Decision (contract section 5, `POST .../rules/test`). */
export interface Trial extends Pick<Decided, 'reason' | 'explanation'> {
  readonly decision: Decided['verdict']
  readonly rule_id: string | null
  readonly rule_name: string | null
  readonly matched_rules: Decided['matchedRules']
  readonly side_effect: SideEffect
  readonly labels: readonly Label[]
  readonly approval: {
    readonly approver: 'admin' | 'owner'
    readonly approvals_needed: number
    readonly expires_after_seconds: number | null
  } | null
}

/**
 * Decides a call without making it: no decision is recorded, nothing changes. With `drafts` they alone are asked, in
 * their order and under the organization's settings; a draft's id is its place, `draft_0`. Without, the saved rules.
 */
export async function tryRules(
  context: Context,
  organizationId: string,
  call: TriedCall,
  drafts: readonly RuleBody[] | null,
): Promise<Trial> {
  const { compiled: saved, settings, frozen } = await currentPolicy(context, organizationId)
  const policy =
    drafts === null
      ? saved
      : compilePolicy({
          rules: drafts.map((draft, index) => ({ ...draft, id: `draft_${index}` })),
          labelRules: [],
          approvalsEnabled: settings.approvals_enabled,
          frozen,
        })
  const source = call.source ?? (isAgentsTool(call.tool) ? 'agents' : 'workflows')
  const { sideEffect, words, params } = classify({ ...call, source }, settings)
  const decided = params === null ? nobodysPath : decide(policy, { ...call, source, sideEffect, params })
  return trialOf(decided, sideEffect, words, call.labels)
}

/** Read at one moment, without the chain's lock: a trial decides nothing. */
function currentPolicy(context: Context, organizationId: string) {
  return context.db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (trx) => {
      const head = await trx
        .selectFrom('chain_head')
        .select(['policy_version', 'frozen'])
        .where('organization_id', '=', organizationId)
        .executeTakeFirstOrThrow()
      return loadPolicy(trx, organizationId, head.policy_version, head.frozen)
    })
}

/** As the call says, else what the tool declares; an agent's as it would be classified, with what its hook would be told. */
function classify(
  { source, tool, params, labels, side_effect: said }: TriedCall,
  settings: GovernanceSettings,
): Pick<Classified, 'sideEffect' | 'words'> & Pick<ReadCall, 'params'> {
  if (source !== 'agents')
    return { sideEffect: said ?? getTool(tool)?.sideEffect ?? 'write', words: '', params }
  const read = readCall(tool, params, {})
  if (said !== undefined) return { sideEffect: said, words: '', params: read.params }
  return { ...classifyIn(read, labels, settings), params: read.params }
}

function trialOf(decided: Decided, sideEffect: SideEffect, words: string, labels: readonly Label[]): Trial {
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
    approval:
      verdict === 'require_approval'
        ? {
            approver: decided.approver,
            approvals_needed: decided.approvalsNeeded,
            expires_after_seconds: decided.expiresAfterSeconds,
          }
        : null,
  }
}
