import { compileLimits, type Restrictions } from './tool-limits.ts'
import type { JsonObject, Role, SideEffect } from './types.ts'

/** A tool policy as saved (specification, "Tool policy"); without `role` it is the organization's. */
export interface ToolPolicy {
  readonly toolName: string
  readonly role: Role | null
  /** false blocks; null leaves the access as it is and only adds limits. */
  readonly allowed: boolean | null
  readonly restrictions: Restrictions
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
  /** Why the limits refuse a call with these resolved parameters; null: they do not. */
  exceeds(tool: string, role: Role, params: JsonObject): Blocked | null
  /** Largest output in KiB; null: no policy says. Without a role the organization's alone. */
  largestOutput(tool: string, role: Role | undefined): number | null
}

/**
 * Combines policies as the specification says ("Tool policy combination rules"): a block of the organization always
 * holds, a role's narrows further, `read_only` holds if either side sets it, a recipient must be in the domains of both,
 * and the smaller of two numbers holds. `fallback` is the organization's
 * `default_tool_access`: with `deny` a tool needs a policy that allows it.
 */
export function compileToolAccess(policies: readonly ToolPolicy[], fallback: 'allow' | 'deny'): ToolAccess {
  const key = (tool: string, role: Role | null): string => `${role ?? ''} ${tool}`
  const byKey = new Map(
    policies.map((policy) => [
      key(policy.toolName, policy.role),
      { ...policy, check: compileLimits(policy.toolName, policy.restrictions) },
    ]),
  )
  return {
    blocks(tool, role, sideEffect) {
      const organization = byKey.get(key(tool, null))
      const ofRole = byKey.get(key(tool, role))
      if (organization?.allowed === false) return blocked(tool, null)
      if (ofRole?.allowed === false) return blocked(tool, role)
      const isAllowed = organization?.allowed === true || ofRole?.allowed === true
      if (fallback === 'deny' && !isAllowed) return unlisted(tool)
      if (sideEffect === 'read') return null
      if (organization?.restrictions.read_only === true) return readOnly(tool, null, sideEffect)
      return ofRole?.restrictions.read_only === true ? readOnly(tool, role, sideEffect) : null
    },
    exceeds(tool, role, params) {
      for (const whoseRole of [null, role]) {
        const issue = byKey.get(key(tool, whoseRole))?.check(params) ?? null
        if (issue !== null) return beyond(tool, whoseRole, issue)
      }
      return null
    },
    largestOutput(tool, role) {
      const both = [null, ...(role === undefined ? [] : [role])].flatMap(
        (each) => byKey.get(key(tool, each))?.restrictions.max_response_size_kb ?? [],
      )
      return both.length === 0 ? null : Math.min(...both)
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

const beyond = (tool: string, role: Role | null, issue: string): Blocked => ({
  reason: role === null ? 'outside the limits of the organization' : `outside the limits of role ${role}`,
  explanation: `A tool policy of ${whose(role)} lets \`${tool}\` take ${issue}.`,
})

const readOnly = (tool: string, role: Role | null, sideEffect: SideEffect): Blocked => ({
  reason: role === null ? 'tool is read-only in the organization' : `tool is read-only for role ${role}`,
  explanation: `A tool policy of ${whose(role)} lets \`${tool}\` only read, and this call is of side effect \`${sideEffect}\`.`,
})
