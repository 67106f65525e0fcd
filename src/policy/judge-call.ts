import { type Call, type CompiledPolicy, type Decided, decide, refused } from './decide.ts'
import type { ToolAccess } from './tool-access.ts'
import type { Role } from './types.ts'

/**
 * Decides one call of a person with this role. `authorRoles` are the roles of the people who wrote the call's step. A freeze is checked first, then tool policies, then rules. Runs and
 * trials of rules use this function. `analyzePlan` makes the same checks in the same order for calls with unknown
 * parts. test/policy/plan-law.test.ts checks that `judgeCall` and `analyzePlan` give the same answers. A tool policy
 * can limit the values of parameters. Such limits apply only to calls of workflows.
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
