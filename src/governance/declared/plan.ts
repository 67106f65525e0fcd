import { isDeepStrictEqual } from 'node:util'
import type { JsonObject } from '../../policy/types.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import { plainJson } from '../approvals/change.ts'
import type { AnyBody } from '../rules/rule-kinds.ts'
import { groupsOfRule } from '../rules/rules.ts'
import {
  declaredKinds,
  keyOf,
  toolAndRole,
  type ApplyRequest,
  type Declared,
  type DeclaredKind,
} from './declared.ts'
import type { Present, PresentState } from './present.ts'

/* What an application of files would do. */

export interface Item {
  /** `adopt`: it was made by hand or by files without a repository, and comes from this file from now on. */
  readonly action: 'create' | 'change' | 'delete' | 'adopt'
  readonly kind: DeclaredKind
  readonly name: string
  readonly declared: Declared | null
  readonly present: Present | null
  /** What is compared; of a workflow, the digest stands for its definition. */
  readonly before: JsonObject | null
  readonly after: JsonObject | null
  /** Whether the object itself changes, and not only the file that it comes from. */
  readonly isOther: boolean
}

export interface Plan {
  readonly items: readonly Item[]
  readonly unchanged: number
  /** It covers all that would be done. */
  readonly hash: string
}

export function planOf(state: PresentState, request: ApplyRequest): Plan {
  const { objects, repository } = request
  const named = new Set(objects.map(keyOf))
  const items = objects.map((declared) => itemOf(state, declared, repository))
  // Files of no repository are not all files of anything, so nothing is known to be gone.
  const gone = [...state.objects.values()].filter(
    (present) =>
      repository !== null && present.managed?.repository === repository && !named.has(keyOf(present)),
  )
  const all = [...items.filter((item) => item !== null), ...gone.map(deletionOf)].toSorted(inOrder)
  return {
    items: all,
    unchanged: items.filter((item) => item === null || (item.action === 'adopt' && !item.isOther)).length,
    hash: hashOf({
      repository,
      items: all.map(({ action, kind, name, present, before, after, declared }) => ({
        action,
        kind,
        name,
        id: present?.id ?? null,
        path: declared?.path ?? null,
        before,
        after,
      })),
    }),
  }
}

const inOrder = (one: Item, other: Item): number =>
  declaredKinds.indexOf(one.kind) - declaredKinds.indexOf(other.kind) ||
  (one.name < other.name ? -1 : one.name > other.name ? 1 : 0)

/** null if nothing changes. */
function itemOf(state: PresentState, declared: Declared, repository: string | null): Item | null {
  const { kind, name, path } = declared
  const present = state.objects.get(keyOf(declared)) ?? null
  const { before, after } = sidesOf(state, declared, present)
  const isOther = before === null || !isSame(before, after)
  const item = { kind, name, declared, present, before, after, isOther }
  if (present === null) return { ...item, action: 'create' }
  const { managed } = present
  if (managed === null || (managed.repository === null && repository !== null))
    return { ...item, action: 'adopt' }
  const hasStayed = managed.path === path && managed.repository === repository
  return !isOther && hasStayed ? null : { ...item, action: 'change' }
}

/** Hashes take longer. They also find equal what only JSON writes alike, such as 0 and -0. */
const isSame = (before: JsonObject, after: JsonObject): boolean =>
  isDeepStrictEqual(before, after) || hashOf(before) === hashOf(after)

const deletionOf = (present: Present): Item => ({
  action: 'delete',
  kind: present.kind,
  name: present.name,
  declared: null,
  present,
  before: present.body,
  after: null,
  isOther: true,
})

/** In one form, so that equal objects have equal sides. `before` is null for a new object. */
function sidesOf(
  { settings, people }: PresentState,
  declared: Declared,
  present: Present | null,
): { readonly before: JsonObject | null; readonly after: JsonObject } {
  const before = present?.body ?? null
  switch (declared.kind) {
    case 'organization': {
      const names = Object.keys(plainJson(declared.body) as JsonObject)
      const now = Object.fromEntries(names.map((name) => [name, settings[name as keyof typeof settings]]))
      return { before: plainJson(now), after: plainJson(declared.body) as JsonObject }
    }
    case 'group': {
      const { description, members } = declared.body
      const emails = members.map((named) => people.get(named.toLowerCase())?.email ?? named)
      const sorted = (list: unknown): string[] => [...new Set(list as string[])].sort()
      return {
        before: before === null ? null : { ...before, members: sorted(before['members']) },
        after: { description, members: sorted(emails) },
      }
    }
    case 'workflow': {
      const { name, description, definition, protected: isProtected } = declared.body
      return {
        before,
        after: {
          name,
          description,
          protected: isProtected ?? before?.['protected'] ?? false,
          digest: hashOf(definition),
        },
      }
    }
    default:
      return { before, after: plainJson(declared.body) as JsonObject }
  }
}

export const isRule = ({ kind }: Pick<Item, 'kind'>): boolean => kind === 'rule' || kind === 'label_rule'

/** Groups and roles that the items name or change; of a rule, those that it named before, too. */
export const groupsIn = (items: readonly Item[]): string[] => [
  ...new Set(
    items.flatMap(({ kind, name, isOther, before, after }) => {
      if (kind === 'group') return [name]
      if (kind === 'rule' && isOther)
        return [before, after].flatMap((body) => groupsOfRule(body as AnyBody | null))
      const { role } = toolAndRole(name)
      return (kind === 'tool_policy' || kind === 'role_override') && role !== undefined ? [role] : []
    }),
  ),
]

/** The id of an object; for a new one, a text that no id is. */
export const keyedId = ({ present, kind, name }: Pick<Item, 'present' | 'kind' | 'name'>): string =>
  present?.id ?? keyOf({ kind, name })
