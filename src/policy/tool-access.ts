import type { Role, SideEffect } from './types.ts'

/** A tool policy as saved (specification, "Tool policy"); without `role` it is the organization's. */
export interface ToolPolicy {
  readonly toolName: string
  readonly role: Role | null
  /** false blocks; null leaves the access as it is and only adds limits. */
  readonly allowed: boolean | null
  readonly readOnly: boolean
}

/** Why a tool may not be called, in the form of a decision. */
export interface Blocked {
  readonly reason: string
  readonly explanation: string
}

/** Tool policies ready to be asked. */
export interface ToolAccess {
  /** Null: the policies let the call on to the rules. They only narrow, they never allow what a rule denies. */
  blocks(tool: string, role: Role, sideEffect: SideEffect): Blocked | null
}

/**
 * Combines policies as the specification says ("Tool policy combination rules"): a block of the organization always
 * holds, a role's narrows further, `read_only` holds if either side sets it. `fallback` is the organization's
 * `default_tool_access`: with `deny` a tool needs a policy that allows it.
 */
export function compileToolAccess(policies: readonly ToolPolicy[], fallback: 'allow' | 'deny'): ToolAccess {
  const key = (tool: string, role: Role | null): string => `${role ?? ''} ${tool}`
  const byKey = new Map(policies.map((policy) => [key(policy.toolName, policy.role), policy]))
  return {
    blocks(tool, role, sideEffect) {
      const organization = byKey.get(key(tool, null))
      const ofRole = byKey.get(key(tool, role))
      if (organization?.allowed === false) return blocked(tool, null)
      if (ofRole?.allowed === false) return blocked(tool, role)
      const isAllowed = organization?.allowed === true || ofRole?.allowed === true
      if (fallback === 'deny' && !isAllowed) return unlisted(tool)
      if (sideEffect === 'read') return null
      if (organization?.readOnly === true) return readOnly(tool, null, sideEffect)
      return ofRole?.readOnly === true ? readOnly(tool, role, sideEffect) : null
    },
  }
}

const whose = (role: Role | null): string => (role === null ? 'the organization' : `role \`${role}\``)

const blocked = (tool: string, role: Role | null): Blocked => ({
  reason: role === null ? 'tool blocked by the organization' : `tool blocked for role ${role}`,
  explanation: `A tool policy of ${whose(role)} blocks \`${tool}\`.`,
})

const unlisted = (tool: string): Blocked => ({
  reason: 'tool not allowed by any policy',
  explanation: `The organization allows only tools that a tool policy allows, and none allows \`${tool}\`.`,
})

const readOnly = (tool: string, role: Role | null, sideEffect: SideEffect): Blocked => ({
  reason: role === null ? 'tool is read-only in the organization' : `tool is read-only for role ${role}`,
  explanation: `A tool policy of ${whose(role)} lets \`${tool}\` only read, and this call is of side effect \`${sideEffect}\`.`,
})
