/** Basic types of the policy core. This file must not import anything. */

/** The effect of a tool on the world. A rule can name an effect, so that it need not name every tool. */
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

/** The severity of each verdict. A higher number is more restrictive. */
export const rank = { allow: 0, require_approval: 1, deny: 2 } as const satisfies Record<Verdict, number>

/** The more restrictive of two verdicts. */
export function stricter(a: Verdict, b: Verdict): Verdict {
  return rank[a] >= rank[b] ? a : b
}

/** Returns the sorted union without repeats. So two equal sets of labels have the same text and the same hash. */
export function unionLabels(...sets: readonly (readonly Label[])[]): Label[] {
  const all = new Set<Label>()
  for (const set of sets) for (const label of set) all.add(label)
  return [...all].sort()
}

/**
 * Maximum number of labels of one call, of one agent's session, of the inputs of one run, and of one memory key. The
 * label rules of one organization may also add at most this many labels together. More labels are refused.
 */
export const mostLabels = 1_000
const mostWords = mostLabels.toLocaleString('en-US')

export const tooManyLabels = (what: string): string => `${what} more than ${mostWords} labels`

/**
 * Cuts a list to one label more than the limit. So the cut list, and every list that is made from it, is still refused
 * as too long.
 */
export function cutLabels(labels: Label[]): Label[] {
  return labels.length > mostLabels ? labels.slice(0, mostLabels + 1) : labels
}
