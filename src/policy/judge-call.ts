import { type Call, type CompiledPolicy, type Decided, decide, refused } from './decide.ts'
import type { ToolAccess } from './tool-access.ts'
import type { Role } from './types.ts'

/**
 * Everything that the policy says of one call by a person of this role: a freeze, then tool policies, then rules. Runs
 * and trials ask it. `analyzePlan` asks the same functions in the same order about calls with unknown parts, and
 * test/policy/judge-call.test.ts holds the two together. Limits on parameters apply to calls of workflows only.
 */
export function judgeCall(
  { compiled, toolAccess }: { readonly compiled: CompiledPolicy; readonly toolAccess: ToolAccess },
  call: Call,
  role: Role,
): Decided {
  if (compiled.frozen !== null) return decide(compiled, call)
  const { tool, sideEffect, source } = call
  const params = source === 'workflows' ? call.params : null
  const refusal = toolAccess.refusal({ tool, sideEffect, params, role })
  return refusal === null ? decide(compiled, call) : refused(refusal.reason, refusal.explanation)
}
