/** Basic types of the policy core. This file must not import anything. */

/** The effect of a tool on the world. Rules use it instead of the tool's name. */
export type SideEffect = 'read' | 'write' | 'egress'

/** Ordered by severity: `deny` is the most restrictive. */
export type Verdict = 'allow' | 'require_approval' | 'deny'

/** A lower-case slug carried by data, e.g. `internal`, `untrusted`. */
export type Label = string

/** The caller is a step of a governed run, or an external agent. */
export type CallSource = 'workflows' | 'agents'

export type Role = 'viewer' | 'member' | 'admin' | 'owner'

export type RiskLevel = 'low' | 'medium' | 'high' | 'critical'

/** Each category has its own governance setting (`require_approval_for_...`). */
export type Category = 'external_comm' | 'public_writes' | 'permission_changes'

export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json }
export type JsonObject = { readonly [key: string]: Json }

/** Verdicts by severity. */
export const rank = { allow: 0, require_approval: 1, deny: 2 } as const satisfies Record<Verdict, number>

/** The more restrictive of two verdicts. */
export function stricter(a: Verdict, b: Verdict): Verdict {
  return rank[a] >= rank[b] ? a : b
}

/** Sorted union without repeats, so that label sets compare and hash the same everywhere. */
export function unionLabels(...sets: readonly (readonly Label[])[]): Label[] {
  const all = new Set<Label>()
  for (const set of sets) for (const label of set) all.add(label)
  return [...all].sort()
}

/**
 * Maximum number of labels of a call, a session, a run's inputs or a memory key. Also the maximum of labels that an
 * organization's label rules may add together. More labels are refused.
 */
export const mostLabels = 1_000
const mostWords = mostLabels.toLocaleString('en-US')

export const tooManyLabels = (what: string): string => `${what} more than ${mostWords} labels`

/**
 * Cuts a list to one label more than the limit, which is enough to refuse the call. Lists derived from the cut list
 * are above the limit too.
 */
export function cutLabels(labels: Label[]): Label[] {
  return labels.length > mostLabels ? labels.slice(0, mostLabels + 1) : labels
}
