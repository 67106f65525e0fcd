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
  const all = new Set<Label>()
  for (const set of sets) for (const label of set) all.add(label)
  return [...all].sort()
}

/**
 * How many labels a call, a session, a run's inputs and a key of the memory may carry, and how many an organization's label rules may
 * add together. Nothing is decided on more: what carries more is refused.
 */
export const mostLabels = 1_000
const mostWords = mostLabels.toLocaleString('en-US')

export const tooManyLabels = (what: string): string => `${what} more than ${mostWords} labels`

/**
 * One label above the limit is enough to know that a call is refused: of a longer list the rest is not kept. Whatever is made from the
 * answer is over the limit, too.
 */
export function cutLabels(labels: Label[]): Label[] {
  return labels.length > mostLabels ? labels.slice(0, mostLabels + 1) : labels
}
