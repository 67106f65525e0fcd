import { restrictingNames } from './agent-tools.ts'
import type { Audience } from './audience.ts'
import { Budget } from './budget.ts'
import { compileLimits, type LimitCheck, type LimitedParams, type Restrictions } from './tool-limits.ts'
import type { Role, SideEffect } from './types.ts'
import type { Partial } from './values.ts'

/** `role` is that of members, or the name of a group; null means the whole organization. */
export interface ToolPolicy {
  readonly toolName: string
  readonly role: string | null
  /** false blocks the tool; null only adds limits. */
  readonly allowed: boolean | null
  readonly restrictions: Restrictions
}

/** The role may be the name of a group, or a name that no member has. */
export interface RoleOverride {
  readonly toolName: string
  readonly role: string
  readonly allowed: boolean
}

export interface SavedAccess {
  readonly policies: readonly ToolPolicy[]
  readonly overrides: readonly RoleOverride[]
  /** By the id of a person, the names of their groups that policies or overrides name. */
  readonly groups?: ReadonlyMap<string, readonly string[]>
  /** The setting `default_tool_access`. With `deny`, a tool needs a policy or an override that allows it. */
  readonly fallback: 'allow' | 'deny'
}

/** A decision (`Decided`) has the same two texts. */
export interface Blocked {
  readonly reason: string
  readonly explanation: string
}

export interface CallOfTool {
  readonly tool: string
  readonly role: Role
  /** The authors of the step. Their policies restrict the call too. */
  readonly authorRoles?: readonly Role[] | undefined
  readonly sideEffect: SideEffect
  /** null for the call of an agent: limits on parameters do not apply to it. */
  readonly params: Partial | null
}

export interface Refusal extends Blocked {
  /** False if it depends on unknown values or exceeded the budget. A call about to run is refused all the same. */
  readonly isCertain: boolean
}

export interface ToolAccess {
  /** With what holds for the person's groups too. */
  of(userId: string): ToolAccess
  /** Null if the call may go on to the rules. Without the budget of a plan, the call gets its own. */
  refusal(call: CallOfTool, budget?: Budget): Refusal | null
  /** KiB; null if no policy of the organization or of these roles sets a maximum. */
  largestOutput(tool: string, roles: readonly Role[]): number | null
  /** Domains, by policy, of those who may read what the call writes to. Only the tool's service knows the readers. */
  audience(tool: string, roles: readonly Role[]): Audience
}

/**
 * The organization's policy, and those for the roles of the caller and of the step's authors (docs/decisions/0266). A
 * role's or group's policy adds limits and removes none: a block or `read_only` of either applies, a value must be in both lists,
 * and the smaller number counts (docs/decisions/0091). A block or `read_only` of `Bash` also applies to every other
 * tool that gives commands to a shell (docs/decisions/0244).
 */
export function compileToolAccess(
  { policies, overrides, fallback, groups = new Map() }: SavedAccess,
  limitedBy: (tool: string) => LimitedParams,
): ToolAccess {
  const key = (tool: string, of: string | null): string => `${of ?? ''} ${tool}`
  const byKey = new Map(
    policies.map((policy) => [
      key(policy.toolName, policy.role),
      { ...policy, check: compileLimits(limitedBy(policy.toolName), policy.restrictions) },
    ]),
  )
  const overridden = new Map(overrides.map((each) => [key(each.toolName, each.role), each.allowed]))
  /** `names`: the role and groups whose policies hold. */
  const refusalOf = (
    { tool, sideEffect, params }: CallOfTool,
    names: readonly string[],
    budget: Budget,
  ): Refusal | null => {
    const covered = restrictingNames(tool)
    const first = (
      of: readonly (string | null)[],
      find: (name: string, of: string | null) => Refusal | null,
    ) => firstOf(of, (each) => firstOf(covered, (name) => find(name, each)))
    const isBlocked = (name: string, of: string | null): boolean =>
      (of !== null && overridden.get(key(name, of)) === false) || byKey.get(key(name, of))?.allowed === false
    const all = [null, ...names]
    const block = first(all, (name, of) => (isBlocked(name, of) ? blocked(tool, name, of) : null))
    if (block !== null) return block
    const isAllowed = all.some(
      (of) =>
        byKey.get(key(tool, of))?.allowed === true || (of !== null && overridden.get(key(tool, of)) === true),
    )
    if (fallback === 'deny' && !isAllowed) return unlisted(tool)
    const change =
      sideEffect === 'read'
        ? null
        : first(all, (name, of) =>
            byKey.get(key(name, of))?.restrictions.read_only === true
              ? readOnly(tool, name, of, sideEffect)
              : null,
          )
    if (change !== null || params === null) return change
    return beyondEither(
      tool,
      params,
      budget,
      all.map((of) => [of, byKey.get(key(tool, of))?.check] as const),
    )
  }
  const restrictionsOf = (tool: string, names: readonly string[]): Restrictions[] =>
    [null, ...new Set(names)].flatMap((each) => byKey.get(key(tool, each))?.restrictions ?? [])
  const accessOf = (own: readonly string[]): ToolAccess => ({
    of: (userId) => accessOf(groups.get(userId) ?? []),
    refusal(call, budget = new Budget()) {
      const others = new Set(call.authorRoles)
      others.delete(call.role)
      return [...others].reduce<Refusal | null>(
        (found, role) =>
          found?.isCertain === true ? found : surer(found, ofAuthor(refusalOf(call, [role], budget))),
        refusalOf(call, [call.role, ...own], budget),
      )
    },
    largestOutput(tool, roles) {
      const all = restrictionsOf(tool, [...roles, ...own]).flatMap((each) => each.max_response_size_kb ?? [])
      return all.length === 0 ? null : Math.min(...all)
    },
    audience(tool, roles) {
      if (!Object.values(limitedBy(tool).allowed_domains ?? {}).includes('audience')) return []
      return restrictionsOf(tool, [...roles, ...own]).flatMap(({ allowed_domains: domains }) =>
        domains === undefined ? [] : [domains],
      )
    },
  })
  return accessOf([])
}

/** The first, unless only the second is certain. */
const surer = (first: Refusal | null, second: Refusal | null): Refusal | null =>
  first === null || second?.isCertain === true ? second : first

const ofAuthor = (refusal: Refusal | null): Refusal | null =>
  refusal === null
    ? null
    : {
        ...refusal,
        explanation: refusal.explanation.replace(
          /\.$/,
          ', and somebody with this role wrote the step or edited the call.',
        ),
      }

/** The first refusal that is certain, else the first possible one. */
function beyondEither(
  tool: string,
  params: Partial,
  budget: Budget,
  checks: readonly (readonly [string | null, LimitCheck | undefined])[],
): Refusal | null {
  let possible: Refusal | null = null
  for (const [role, check] of checks) {
    const excess = check?.(params, budget) ?? null
    if (excess === null) continue
    const refusal = { ...beyond(tool, role, excess.issue), isCertain: excess.isCertain }
    if (excess.isCertain) return refusal
    possible ??= refusal
  }
  return possible
}

const isRole = (name: string): boolean => ['viewer', 'member', 'admin', 'owner'].includes(name)
const kindOf = (of: string): string => (isRole(of) ? 'role' : 'group')
const whose = (of: string | null): string => (of === null ? 'the organization' : `${kindOf(of)} \`${of}\``)

function firstOf<T>(names: readonly T[], find: (name: T) => Refusal | null): Refusal | null {
  for (const name of names) {
    const found = find(name)
    if (found !== null) return found
  }
  return null
}

/** Why a policy on the tool `name` also restricts `tool`. */
const covering = (tool: string, name: string): string =>
  tool === name ? '' : ` \`${tool}\` runs commands of a shell too, so the policy covers it.`

const blocked = (tool: string, name: string, role: string | null): Refusal => ({
  isCertain: true,
  reason: role === null ? 'tool blocked by the organization' : `tool blocked for ${kindOf(role)} ${role}`,
  explanation: `A tool policy of ${whose(role)} blocks \`${name}\`.${covering(tool, name)}`,
})

const unlisted = (tool: string): Refusal => ({
  isCertain: true,
  reason: 'tool not allowed by any policy',
  explanation: `The organization allows only tools that a tool policy allows, and none allows \`${tool}\`.`,
})

const beyond = (tool: string, role: string | null, issue: string): Blocked => ({
  reason:
    role === null
      ? 'outside the limits of the organization'
      : `outside the limits of ${kindOf(role)} ${role}`,
  explanation: `A tool policy of ${whose(role)} lets \`${tool}\` take ${issue}.`,
})

const readOnly = (tool: string, name: string, role: string | null, sideEffect: SideEffect): Refusal => ({
  isCertain: true,
  reason:
    role === null ? 'tool is read-only in the organization' : `tool is read-only for ${kindOf(role)} ${role}`,
  explanation: `A tool policy of ${whose(role)} lets \`${name}\` only read, and this call is of side effect \`${sideEffect}\`.${covering(tool, name)}`,
})
