/** What every part of the policy core speaks of. Pure: no imports of ours (specification, "What the service does"). */

/** What a tool does to the world; rules key off this, never off a tool's name (specification 1). */
export type SideEffect = 'read' | 'write' | 'egress'

/** Ordered by severity: `deny` is the most restrictive (specification, "Decision verdicts"). */
export type Verdict = 'allow' | 'require_approval' | 'deny'

/** A lower-case slug carried by data, e.g. `internal`, `untrusted`. */
export type Label = string

/** Who asks: a step of a governed run, or an external agent. */
export type CallSource = 'workflows' | 'agents'

export type Role = 'viewer' | 'member' | 'admin' | 'owner'

export type RiskLevel = 'low' | 'medium' | 'high' | 'critical'

/** The three governance flags gate these (contract section 8). */
export type Category = 'external_comm' | 'public_writes' | 'permission_changes'

export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json }
export type JsonObject = { readonly [key: string]: Json }

/** Order in which verdicts restrict (specification, "Decision verdicts"). */
export const rank = { allow: 0, require_approval: 1, deny: 2 } as const satisfies Record<Verdict, number>

/** The more restrictive of two verdicts. */
export function stricter(a: Verdict, b: Verdict): Verdict {
  return rank[a] >= rank[b] ? a : b
}

/** Sorted union without repeats, so that label sets compare and hash the same everywhere. */
export function unionLabels(...sets: readonly (readonly Label[])[]): Label[] {
  return [...new Set(sets.flat())].sort()
}
