import { list, quote } from './text.ts'
import { limitNames, type LimitName, type Restrictions } from './tool-limits.ts'

/* Whether a change of a tool policy, an override or a group leaves every call as restricted as before. */

export interface PolicyBody {
  readonly allowed: boolean | null
  readonly restrictions: Restrictions
}

const open: PolicyBody = { allowed: null, restrictions: {} }

/** null for none. Empty: it blocks and limits as much, and allows no more. */
export function whyLooserPolicy(before: PolicyBody | null, after: PolicyBody | null): string[] {
  const [was, is] = [before ?? open, after ?? open]
  // A block stands above all limits.
  if (is.allowed === false) return []
  const loose = limitNames.filter((name) => !isAsNarrow(name, was.restrictions, is.restrictions))
  return [
    ...(was.allowed === false ? ['the tool would no longer be blocked'] : []),
    ...(is.allowed === true && was.allowed !== true ? ['the tool may be used where nothing allowed it'] : []),
    ...(loose.length === 0
      ? []
      : [`${list(loose.map(quote), 'and', loose.length)} may let more calls pass than now`]),
  ]
}

function isAsNarrow(name: LimitName, { [name]: was }: Restrictions, { [name]: is }: Restrictions): boolean {
  if (was === undefined || was === false) return true
  if (is === undefined) return false
  if (typeof was === 'number') return typeof is === 'number' && is <= was
  if (Array.isArray(was)) return Array.isArray(is) && is.every((each) => was.includes(each))
  return is === was
}

/** null for none. */
export const whyLooserOverride = (before: boolean | null, after: boolean | null): string[] => [
  ...(before === false && after !== false ? ['the tool would no longer be blocked'] : []),
  ...(after === true && before !== true ? ['the tool may be used where nothing allowed it'] : []),
]

/** What names a group: a rule or workflow lets its members decide or act, a policy or override allows or restricts. */
export interface GroupUse {
  readonly kind: 'rule' | 'workflow' | 'approval' | 'tool policy' | 'override'
  /** The name of the tool; for the approval of a run, of its workflow. */
  readonly name: string
  /** Only of a policy or an override. */
  readonly policy: PolicyBody | null
}

/** For members who come, and for members who go. */
export function whyLooserMembers(
  uses: readonly GroupUse[],
  { comes, goes }: { readonly comes: boolean; readonly goes: boolean },
): string[] {
  const found = uses.flatMap(({ kind, name, policy }) => {
    const lets = comes && (policy === null || whyLooserPolicy(null, policy).length > 0)
    const loses = goes && policy !== null && whyLooserPolicy(policy, null).length > 0
    const what = `the ${useWords[kind]} ${quote(name)}`
    return [
      ...(lets ? [`${what} would let another person act or decide`] : []),
      ...(loses ? [`${what} would no longer restrict a person`] : []),
    ]
  })
  return [...new Set(found)]
}

const useWords: Readonly<Record<GroupUse['kind'], string>> = {
  rule: 'rule',
  workflow: 'workflow',
  approval: 'waiting approval of',
  'tool policy': 'tool policy of',
  override: 'override of',
}
