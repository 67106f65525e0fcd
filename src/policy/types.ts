/** This file must not import anything. */

export type SideEffect = 'read' | 'write' | 'egress'
export type Verdict = 'allow' | 'require_approval' | 'deny'

/** A lower-case slug carried by data, e.g. `internal`, `untrusted`. */
export type Label = string

/** A step of a governed run, or an external agent. */
export type CallSource = 'workflows' | 'agents'

export type Role = 'viewer' | 'member' | 'admin' | 'owner'
export type RiskLevel = 'low' | 'medium' | 'high' | 'critical'

/** Each has its own setting (`require_approval_for_...`). */
export type Category = 'external_comm' | 'public_writes' | 'permission_changes'

export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json }
export type JsonObject = { readonly [key: string]: Json }

/** A higher number is more restrictive. */
export const rank = { allow: 0, require_approval: 1, deny: 2 } as const satisfies Record<Verdict, number>

export function stricter(a: Verdict, b: Verdict): Verdict {
  return rank[a] >= rank[b] ? a : b
}

/** Sorted and without repeats, so equal sets have the same text and hash. */
export function unionLabels(...sets: readonly (readonly Label[])[]): Label[] {
  const all = new Set<Label>()
  for (const set of sets) for (const label of set) all.add(label)
  return [...all].sort()
}

/** For a call, a session, a run's inputs, a memory key, and all that an organization's label rules add. */
export const mostLabels = 1_000
const mostWords = mostLabels.toLocaleString('en-US')

export const tooManyLabels = (what: string): string => `${what} more than ${mostWords} labels`

/** To one label more than the limit, so the list, and every list made from it, is still refused as too long. */
export function cutLabels(labels: Label[]): Label[] {
  return labels.length > mostLabels ? labels.slice(0, mostLabels + 1) : labels
}

/** The work pauses after about this many steps, so that the thread can work for other requests. */
const stepsBetweenPauses = 10_000

export class Steps {
  #left: number
  #sincePause = 0
  constructor(most: number) {
    this.#left = most
  }
  /** Returns false if no step is left. */
  take(steps = 1): boolean {
    this.#left -= steps
    this.#sincePause += steps
    return this.#left >= 0
  }
  get areUsedUp(): boolean {
    return this.#left < 0
  }
  /** If true, the caller must pause. The count for the next pause then begins again. */
  isPauseDue(): boolean {
    if (this.#sincePause < stepsBetweenPauses) return false
    this.#sincePause = 0
    return true
  }
}

/** Whether a call of an agent passes that no rule allows (`default_agent_access`). */
export const agentAccess = ['allow', 'deny'] as const
export type AgentAccess = (typeof agentAccess)[number]
