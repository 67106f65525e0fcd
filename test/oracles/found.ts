import type { Call } from '../../src/policy/decide.ts'
import type { Json } from '../../src/policy/types.ts'
import { type Kind, kindOf, placeReading, type PlaceReading, readParams } from './places.ts'
import { readingOf } from './texts.ts'

/**
 * Everything that a rule could ask about the values at one path. The record is flat, because Cedar has no paths, lists
 * or readers.
 */
export interface Found {
  readonly leaves: readonly FoundLeaf[]
  /** Some branch of the parameters ends before the path does. */
  readonly isMissing: boolean
  readonly isThere: boolean
}

export interface FoundLeaf {
  readonly value: string | number | boolean
  readonly inList: boolean
  /** Hosts to which the leaf may lead. Undefined if the leaf stands beside an address and does not look like a host. */
  readonly hosts: readonly (string | null)[] | undefined
  readonly addresses: readonly string[]
  /** The place that a text of this parameter names; null if the parameter names none. */
  readonly place: PlaceReading | null
}

export function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value)
}

type Branch = { readonly at: Json; readonly kind: Kind | null } | { readonly dead: true }

/** Finds the values at a path. This function was written for the oracles, and does only what they need. */
export function foundAt(call: Call, path: string): Found {
  const [first = '', ...rest] = path.split('.')
  let branches = descend(readParams(call), null, first, (param) => kindOf(call, param))
  for (const part of rest)
    branches = branches.flatMap((branch) =>
      'at' in branch ? descend(branch.at, branch.kind, part, () => branch.kind) : [branch],
    )
  const reached = branches.filter((branch) => 'at' in branch)
  return {
    leaves: reached.flatMap(({ at, kind }) => leavesOf(at, kind, false, false)),
    isMissing: reached.length < branches.length || branches.length === 0,
    isThere: reached.some(({ at }) => (isList(at) ? at.some(isSomething) : isSomething(at))),
  }
}

const dead: Branch[] = [{ dead: true }]

function descend(
  value: Json,
  kind: Kind | null,
  part: string,
  kindAt: (key: string) => Kind | null,
): Branch[] {
  if (isList(value)) {
    const list = value
    if (list.length === 0) return dead
    if (part === '*') return list.map((at) => ({ at, kind }))
    if (/^\d$/.test(part)) return part in list ? [{ at: list[Number(part)] as Json, kind }] : dead
    return list.flatMap((each) => descend(each, kind, part, kindAt))
  }
  if (typeof value !== 'object' || value === null) return dead
  const hits = Object.entries(value).filter(([key]) => part === '*' || key === part)
  return hits.length === 0 ? dead : hits.map(([key, at]) => ({ at: at, kind: kindAt(key) }))
}

function isSomething(value: Json): boolean {
  return value !== null && value !== ''
}

function leavesOf(value: Json, kind: Kind | null, inList: boolean, isBeside: boolean): FoundLeaf[] {
  if (value === null) return []
  if (isList(value)) return value.flatMap((each) => leavesOf(each, kind, true, isBeside))
  if (typeof value === 'object') {
    const hasAddress = typeof value['email'] === 'string'
    return Object.entries(value).flatMap(([key, each]) =>
      leavesOf(each, kind, false, isBeside || (hasAddress && key !== 'email')),
    )
  }
  const leaf = value
  if (typeof leaf !== 'string')
    return [{ value: leaf, inList, hosts: isBeside ? undefined : [null], addresses: [], place: null }]
  const isPassedOver = isBeside && !leaf.includes('@') && !leaf.includes('://')
  const { hosts, addresses } = readingOf(leaf)
  const place = kind === null ? null : placeReading(kind, leaf)
  return [{ value: leaf, inList, hosts: isPassedOver ? undefined : hosts, addresses, place }]
}
