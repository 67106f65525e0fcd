import type { Json, JsonObject } from '../../src/policy/types.ts'
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
}

export function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value)
}

type Branch = { readonly at: Json } | { readonly dead: true }

/** Finds the values at a path. This function was written for the oracles, and does only what they need. */
export function foundAt(params: JsonObject, path: string): Found {
  let branches: Branch[] = [{ at: params }]
  for (const part of path.split('.'))
    branches = branches.flatMap((branch) => ('at' in branch ? descend(branch.at, part) : [branch]))
  const reached = branches.flatMap((branch) => ('at' in branch ? [branch.at] : []))
  return {
    leaves: reached.flatMap((value) => leavesOf(value, false, false)),
    isMissing: reached.length < branches.length || branches.length === 0,
    isThere: reached.some((value) => (isList(value) ? value.some(isSomething) : isSomething(value))),
  }
}

const dead: Branch[] = [{ dead: true }]

function descend(value: Json, part: string): Branch[] {
  if (isList(value)) {
    const list = value
    if (list.length === 0) return dead
    if (part === '*') return list.map((at) => ({ at }))
    if (/^\d$/.test(part)) return part in list ? [{ at: list[Number(part)] as Json }] : dead
    return list.flatMap((each) => descend(each, part))
  }
  if (typeof value !== 'object' || value === null) return dead
  const hits = Object.entries(value).filter(([key]) => part === '*' || key === part)
  return hits.length === 0 ? dead : hits.map(([, at]) => ({ at: at }))
}

function isSomething(value: Json): boolean {
  return value !== null && value !== ''
}

function leavesOf(value: Json, inList: boolean, isBeside: boolean): FoundLeaf[] {
  if (value === null) return []
  if (isList(value)) return value.flatMap((each) => leavesOf(each, true, isBeside))
  if (typeof value === 'object') {
    const hasAddress = typeof value['email'] === 'string'
    return Object.entries(value).flatMap(([key, each]) =>
      leavesOf(each, false, isBeside || (hasAddress && key !== 'email')),
    )
  }
  const leaf = value
  if (typeof leaf !== 'string')
    return [{ value: leaf, inList, hosts: isBeside ? undefined : [null], addresses: [] }]
  const isPassedOver = isBeside && !leaf.includes('@') && !leaf.includes('://')
  const { hosts, addresses } = readingOf(leaf)
  return [{ value: leaf, inList, hosts: isPassedOver ? undefined : hosts, addresses }]
}
