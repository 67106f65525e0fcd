import { headline } from '../../policy/issues.ts'
import { mostLabels, type JsonObject } from '../../policy/types.ts'
import { DomainError, type ErrorDetail } from '../errors.ts'
import { isRoleName } from '../access/scopes.ts'
import { sourceOf } from '../access/managed.ts'
import { namersOfGroup } from '../../db/queries/people.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'
import { mostGroupMembers, mostGroups, refuseNamers } from '../people/groups.ts'
import { mostRoleOverrides } from '../rules/role-overrides.ts'
import { groupsNamed } from '../rules/rules.ts'
import { refuseUnready } from '../rules/settings.ts'
import { mostToolPolicies } from '../rules/tool-policies.ts'
import { refuseLimitedBlock, refuseLimits } from '../rules/tool-policy-limits.ts'
import {
  keyOf,
  placeOf,
  toolAndRole,
  type ApplyRequest,
  type Declared,
  type DeclaredKind,
} from './declared.ts'
import type { Item, Plan } from './plan.ts'
import type { PresentState, Reader } from './present.ts'

/* What is wrong with the objects of a request, all at once. */

/** Objects of a request that could not be read. */
export interface Unread {
  readonly mistakes: readonly ErrorDetail[]
  /** Names of groups among them, so that nobody is told that they do not exist. */
  readonly groups: readonly string[]
}

/** So many are named. */
const mostMistakes = 100

/** Throws `conflict` if only other repositories are in the way, else `validation_error`. */
export function refuseMistakes(
  state: PresentState,
  request: ApplyRequest,
  plan: Plan,
  unread: Unread = { mistakes: [], groups: [] },
): void {
  const groups = namesAfter(state, plan, unread.groups)
  const taken = plan.items.flatMap((item) => takenBy(item, request.repository))
  const wrong = [
    ...unread.mistakes,
    ...repeated(request.objects),
    ...request.objects.flatMap((declared) => mistakesIn(state, declared, groups)),
    ...tooMany(state, plan),
  ]
  refuse(wrong.length === 0 ? 'conflict' : 'validation_error', [...wrong, ...taken])
}

/**
 * Throws `conflict` for what a change of one object would refuse because of others, so that a plan says it too. It is
 * refused again under the lock.
 */
export async function refuseBlocked(
  db: Reader,
  organizationId: string,
  { settings }: PresentState,
  { request, plan: { items } }: { readonly request: ApplyRequest; readonly plan: Plan },
): Promise<void> {
  const going = items.filter(({ action }) => action === 'delete')
  // The groups that these name are checked already.
  const known = new Set([...request.objects, ...going].map(keyOf))
  const mistakes: ErrorDetail[] = []
  for (const item of items) {
    const { kind, name, declared, present } = item
    const place = declared ?? { at: 0, path: present?.managed?.path ?? `${kind} ${name}` }
    try {
      if (kind === 'organization' && declared !== null) {
        const after = { ...settings, ...declared.body } as GovernanceSettings
        await refuseUnready(db, organizationId, { before: settings, after })
      } else if (kind === 'group' && declared === null) {
        const { rows } = await namersOfGroup(organizationId, name).execute(db)
        refuseNamers(
          name,
          rows.filter(({ object }) => object === null || !known.has(object)),
        )
      }
    } catch (error) {
      mistakes.push(...detailsOf(error, place))
    }
  }
  refuse('conflict', mistakes)
}

/** Throws if there are any. */
export function refuse(code: DomainError['code'], mistakes: readonly ErrorDetail[]): void {
  if (mistakes.length === 0) return
  const named = mistakes.map(({ path, message }) => ({
    path,
    message: path === '' ? message : `${path}: ${message}`,
  }))
  throw new DomainError(code, headline('nothing was applied', named), mistakes.slice(0, mostMistakes))
}

const at = (declared: Declared, field: string, message: string): ErrorDetail => ({
  path: placeOf(declared, field),
  message,
})

function repeated(objects: readonly Declared[]): ErrorDetail[] {
  const firsts = new Map(objects.toReversed().map((each) => [keyOf(each), each]))
  return objects.flatMap((declared) => {
    const first = firsts.get(keyOf(declared)) ?? declared
    const message = `the ${declared.kind} \`${declared.name}\` is in \`${placeOf(first)}\` too: declare it once`
    return first === declared ? [] : [at(declared, '', message)]
  })
}

function takenBy({ declared, present }: Item, repository: string | null): ErrorDetail[] {
  if (declared === null || present === null) return []
  const { managed } = present
  if (present.isOfDirectory === true)
    return [at(declared, 'name', 'the group comes from the directory of your company: change it there')]
  return managed === null || managed.repository === null || managed.repository === repository
    ? []
    : [
        at(
          declared,
          '',
          `it comes from ${sourceOf(managed)}: ${repository === null ? 'if these are its files, name this `repository`; else ' : ''}take it out there first, or release it`,
        ),
      ]
}

/** The groups that there will be. */
function namesAfter(state: PresentState, plan: Plan, others: readonly string[]): ReadonlySet<string> {
  const names = new Set([...state.policy.groups.keys(), ...others])
  for (const { kind, name, action } of plan.items) {
    if (kind !== 'group') continue
    if (action === 'delete') names.delete(name)
    else names.add(name)
  }
  return names
}

function mistakesIn(
  { people }: PresentState,
  declared: Declared,
  groups: ReadonlySet<string>,
): ErrorDetail[] {
  const noGroup = (field: string, name: string, mayBeRole: boolean): ErrorDetail[] =>
    groups.has(name) || (mayBeRole && isRoleName(name))
      ? []
      : [
          at(
            declared,
            field,
            `${mayBeRole ? `\`${name}\` is no role, and there` : 'there'} is no group \`${name}\`: declare it, or correct the name`,
          ),
        ]
  switch (declared.kind) {
    case 'rule':
      return groupsNamed(declared.body).flatMap(([field, name]) => noGroup(field, name, false))
    case 'tool_policy': {
      const { tool, role } = toolAndRole(declared.name)
      const { allowed, restrictions } = declared.body
      return [
        ...(role === undefined ? [] : noGroup('role', role, true)),
        ...caught(declared, () => refuseLimits(tool, restrictions)),
        ...caught(declared, () => refuseLimitedBlock(allowed, restrictions)),
      ]
    }
    case 'group': {
      const { members } = declared.body
      const strangers = members.flatMap((named, index) =>
        people.has(named.toLowerCase())
          ? []
          : [
              at(
                declared,
                `members.${index}`,
                `\`${named}\` is no member of the organization: invite the person first`,
              ),
            ],
      )
      if (members.length <= mostGroupMembers) return strangers
      return [at(declared, 'members', `a group has at most ${mostGroupMembers} members`), ...strangers]
    }
    case 'workflow': {
      const { run_by: runBy = [], readers = [] } = declared.body.definition
      return [
        ...runBy.flatMap((name, index) => noGroup(`definition.run_by.${index}`, name, true)),
        ...readers.flatMap((name, index) => noGroup(`definition.readers.${index}`, name, false)),
      ]
    }
    default:
      return []
  }
}

function caught(declared: Declared, check: () => void): ErrorDetail[] {
  try {
    check()
    return []
  } catch (error) {
    return detailsOf(error, declared)
  }
}

/** What an error about one object says. Throws another error. */
export function detailsOf(error: unknown, declared: Pick<Declared, 'path' | 'at'>): ErrorDetail[] {
  if (!(error instanceof DomainError)) throw error
  const { details, message } = error
  return details.length === 0
    ? [{ path: placeOf(declared), message }]
    : details.map((detail) => ({ path: placeOf(declared, detail.path), message: detail.message }))
}

const most = { group: mostGroups, tool_policy: mostToolPolicies, role_override: mostRoleOverrides } as const

function tooMany({ objects }: PresentState, { items }: Plan): ErrorDetail[] {
  const counts = Object.entries(most).flatMap(([kind, limit]) => {
    const added = changeOfCount(items, kind as DeclaredKind)
    const count = [...objects.values()].filter((each) => each.kind === kind).length + added
    return added > 0 && count > limit
      ? [
          {
            path: 'objects',
            message: `there would be ${count} objects of the kind \`${kind}\`: at most ${limit.toLocaleString('en-US')} are possible`,
          },
        ]
      : []
  })
  return [...counts, ...labelsOver(objects, items)]
}

export const changeOfCount = (items: readonly Item[], kind: DeclaredKind): number =>
  items.reduce(
    (sum, item) =>
      sum + (item.kind !== kind ? 0 : item.action === 'create' ? 1 : item.action === 'delete' ? -1 : 0),
    0,
  )

/** All active label rules together add only so many labels. */
function labelsOver(objects: PresentState['objects'], items: readonly Item[]): ErrorDetail[] {
  const changed = items.filter(({ kind, isOther }) => kind === 'label_rule' && isOther)
  if (changed.length === 0) return []
  const before = new Map(
    [...objects.values()].flatMap((each) =>
      each.kind === 'label_rule' ? [[each.name, each.body] as const] : [],
    ),
  )
  const after = new Map<string, JsonObject>(before)
  for (const { name, after: body } of changed) {
    if (body === null) after.delete(name)
    else after.set(name, body)
  }
  const [then, now] = [addedBy(before.values()), addedBy(after.values())]
  return now <= Math.max(mostLabels, then)
    ? []
    : [
        {
          path: 'objects',
          message: `the active label rules would add ${now} labels together, at most ${mostLabels} are possible`,
        },
      ]
}

const addedBy = (bodies: Iterable<JsonObject>): number =>
  new Set(
    [...bodies].flatMap((body) => (body['status'] === 'active' ? (body['add_labels'] as string[]) : [])),
  ).size
