import { type Call, type CompiledPolicy, type Decided, decide, refused } from './decide.ts'
import type { ToolAccess } from './tool-access.ts'
import type { Role } from './types.ts'

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
