import { getTool } from '../../tools/index.ts'
import { decide, type Call, type CompiledPolicy } from '../../policy/decide.ts'
import type { ToolAccess } from '../../policy/tool-access.ts'
import type { JsonObject, Role, Verdict } from '../../policy/types.ts'
import { decideWithoutParams, type CertainVerdict } from '../../policy/unknown-params.ts'
import { Hole } from '../../policy/values.ts'
import { readCall } from '../../calls/agents/classify.ts'
import { mayDecide } from '../approvals/requirement.ts'
import { effectiveParams, openParams } from '../runs/values/sealed-params.ts'
import { UnsealError } from '../sealing/format.ts'
import { agentInputPlace } from '../sealing/places.ts'
import type { Sealer } from '../sealing/sealer.ts'
import type { DecidedCall } from './decided-calls.ts'

/**
 * Why a recorded call is not decided again.
 * - `parameters_not_kept`: the verdict depends on parameters that are not stored. Most calls of agents have no stored
 *   parameters.
 * - `parameters_not_shown`: the verdict depends on parameters that the caller may not see.
 * - `parameters_unreadable`: the stored parameters cannot be decrypted.
 * - `policy_decided`: something other than the rules decides the call, then or now. Examples: a tool policy, a freeze,
 *   a limit, or a missing role.
 * - `tool_unknown`: the catalogue no longer has the tool.
 */
export const unreplayed = [
  'parameters_not_kept',
  'parameters_not_shown',
  'parameters_unreadable',
  'policy_decided',
  'tool_unknown',
] as const
export type Unreplayed = (typeof unreplayed)[number]

/** The organization's present policy with drafts in place of its rules. */
export interface ReplayPolicy {
  readonly compiled: CompiledPolicy
  readonly toolAccess: ToolAccess
}

type Params = { readonly params: JsonObject } & Pick<Call, 'paramLabels'>

/** The parameters of a call, or the reason why the call is not decided with them. */
export type KnownParams = Params | Exclude<Unreplayed, 'tool_unknown'>

/**
 * Returns the verdict that the rules gave when the call was recorded. Returns null if something other than the rules
 * decided the call.
 */
export function verdictByRules(call: DecidedCall): Verdict | null {
  const isByRules =
    call.rule_id === null ? reasonsWithoutRule.has(call.reason) : call.reason === call.rule_name
  if (!isByRules) return null
  // If an agent's call has an approval, a rule required this approval. The recorded verdict may come from the people
  // who decided the approval.
  return call.session_id !== null && call.approval_id !== null ? 'require_approval' : call.verdict
}

const reasonsWithoutRule = new Set(['no rule matched', 'call too large to evaluate'])

/**
 * Decrypts the stored parameters of a recorded call. Returns a reason if the viewer may not see them, or if rules
 * cannot use them.
 */
export async function openKnown(
  sealer: Sealer,
  call: DecidedCall,
  viewer: { readonly role: Role },
): Promise<KnownParams> {
  const { run_id: runId, step_id: stepId, run_params, agent_params, approver } = call
  try {
    if (call.session_id === null) {
      const tool = getTool(call.tool)
      if (run_params === null || runId === null || stepId === null || tool === undefined)
        return 'parameters_not_kept'
      if (!mayDecide(viewer.role, approver ?? 'admin')) return 'parameters_not_shown'
      const key = { runId, stepId, itemIndex: call.item_index ?? -1 }
      const { params, paramLabels } = await openParams(sealer, key, run_params)
      return {
        params: effectiveParams(tool, params, call.requester_email ?? ''),
        paramLabels: new Map(paramLabels),
      }
    }
    if (agent_params === null || call.approval_id === null) return 'parameters_not_kept'
    if (!mayDecide(viewer.role, approver ?? 'owner')) return 'parameters_not_shown'
    const input = await sealer.open(agentInputPlace(call.approval_id), agent_params)
    const { params } = readCall(call.tool, JSON.parse(input) as JsonObject, {})
    return params === null ? 'policy_decided' : { params }
  } catch (error) {
    if (error instanceof UnsealError) return 'parameters_unreadable'
    throw error
  }
}

/** Decides a recorded call by the drafts. Returns a reason if the drafts cannot decide the call. */
export function replay(
  policy: ReplayPolicy,
  call: DecidedCall,
  known: KnownParams,
): CertainVerdict | Unreplayed {
  const { tool, side_effect: sideEffect, destination, labels, session_id } = call
  const source = session_id === null ? 'workflows' : 'agents'
  if (source === 'workflows' && getTool(tool) === undefined) return 'tool_unknown'
  if (known === 'policy_decided') return known
  const params = typeof known === 'string' ? new Hole(null) : known.params
  const refusal = policy.toolAccess.refusal({
    tool,
    sideEffect,
    // A person who has left has no role. Most people have the role `member`, so it is the best guess.
    role: call.role ?? 'member',
    authorRoles: call.author_roles ?? [],
    params: source === 'workflows' ? params : null,
  })
  if (refusal !== null) return refusal.isCertain || typeof known !== 'string' ? 'policy_decided' : known
  const asked = { source, tool, sideEffect, destination, labels } as const
  if (typeof known === 'string') return decideWithoutParams(policy.compiled, asked) ?? known
  return decide(policy.compiled, { ...asked, ...known })
}
