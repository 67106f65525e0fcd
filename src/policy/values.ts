import type { Budget } from './budget.ts'
import { Hole } from './hole.ts'
import { comparable } from './readers/google-links.ts'
import { type PlaceKind, placeWithin, spellingsOf } from './readers/places.ts'

export { Hole } from './hole.ts'

/** JSON that may have unknown parts (`Hole`). The parameters of a concrete call have no unknown parts. */
export type Partial =
  string | number | boolean | null | Hole | readonly Partial[] | { readonly [key: string]: Partial }

export interface Leaf {
  /** The value in the form used for comparison: a Google link becomes its file id. */
  readonly value: string | number | boolean
  /** The value as written. */
  readonly raw: string | number | boolean
  /** Whether the value is an element of a list. For such a value, `contains` means equality. */
  readonly inList: boolean
  /**
   * Whether another field of the same object has a recipient's address. Example: true for a person's name beside
   * `email`. Such a value counts as a recipient only if it contains `@` or `://`. Is `maybe` if an unknown value may be
   * the address.
   */
  readonly isIncidental: boolean | 'maybe'
  /** The kind of place that the text names. null: the value is no text, or its parameter names no place. */
  readonly kind: PlaceKind | null
  /** Cached results of `placeOfLeaf` and `spellingsOfLeaf`. Both are undefined until a rule needs them. */
  place: string | null | undefined
  spellings: readonly string[] | undefined
}

/**
 * Returns the place that the text names, read as the tool reads it. Returns null if the text cannot be read as a place.
 */
export function placeOfLeaf(leaf: Leaf, kind: PlaceKind, budget: Budget): string | null {
  if (leaf.place === undefined) leaf.place = placeWithin(kind, String(leaf.raw), budget)
  return leaf.place
}

/** Returns all spellings of the place of the leaf, for `contains` and `startswith`. */
export function spellingsOfLeaf(leaf: Leaf, kind: PlaceKind, place: string): readonly string[] {
  leaf.spellings ??= spellingsOf(kind, place)
  return leaf.spellings
}

/** The kind of place that each parameter of a tool names. Is null if no kinds are declared. Example: agents' tools. */
export type Places = ReadonlyMap<string, PlaceKind> | null

/**
 * The values that a tool uses for parameters that a call leaves out. Is null if the tool has no such values, or if they
 * are not known. For tools of agents, they are not known.
 */
export type Defaults = ReadonlyMap<string, string | number | boolean> | null

/** The values found at a path. */
export interface Found {
  readonly leaves: Leaf[]
  readonly holes: Hole[]
  /** The values that the tool uses because the call gives none. They count only for rules that restrict. */
  defaults: readonly Leaf[]
  /** Whether the path is missing. In a list, it is enough that the path is missing in one element. */
  isMissing: boolean
  /**
   * Whether the path leads into an unknown part, where the rest of the path may be missing. This part is also in
   * `holes`.
   */
  mayBeMissing: boolean
  /** Whether a value exists in the sense of the `exists` operator. null, empty text and empty lists do not count. */
  isThere: boolean
  mayBeThere: boolean
}

/**
 * Maximum number of nested levels in parameters. All entry points refuse deeper parameters. A search that meets a
 * deeper level throws RangeError, so the condition cannot be evaluated.
 */
export const deepest = 64

const addressKeys = ['email', 'address', 'mail', 'emailAddress', 'email_address']

/** Like `Array.isArray`, which does not narrow the type of `readonly` arrays. */
export function isList(value: Partial): value is readonly Partial[] {
  return Array.isArray(value)
}

/**
 * Finds all values at a dotted path. Only own properties are read. In a list, a segment of the path may be an index or
 * `*`. Any other segment is looked up in all elements. Keys that contain dots are found too: the path `a.b` also finds
 * the key `a.b`.
 * @param budget pays for the search. With null, the search costs nothing.
 */
export function find(
  params: Partial,
  path: readonly string[],
  places: Places = null,
  defaults: Defaults = null,
  budget: Budget | null = null,
): Found {
  const found: Found = {
    leaves: [],
    holes: [],
    defaults: defaults === null ? noLeaves : defaultsAt(params, path, places, defaults),
    isMissing: false,
    mayBeMissing: false,
    isThere: false,
    mayBeThere: false,
  }
  walk(params, 0, 0, places, { path, keys: [], found, budget, steps: 0 })
  return found
}

interface Search {
  readonly path: readonly string[]
  /** The results of `keysAt` for each position in the path. They are computed when the search first needs them. */
  readonly keys: (readonly string[] | undefined)[]
  readonly found: Found
  readonly budget: Budget | null
  /** The number of steps of the search that are counted, but not yet taken from the budget. */
  steps: number
}

/** Counts steps of the search, such as a look at one value. Two steps cost as much as one comparison. */
function step(search: Search, steps = 1): void {
  search.steps += steps
  if (search.steps < 64) return
  search.budget?.spend(search.steps >> 1)
  search.steps = 0
}

/**
 * Returns the keys with which the rest of the path can begin. Example: for the rest `a.b.c`, the keys are `a`, `a.b`
 * and `a.b.c`.
 */
function keysAt(at: number, { path, keys }: Search): readonly string[] {
  let known = keys[at]
  if (known === undefined) {
    const rest = path.slice(at)
    const text = rest.join('.')
    let end = -1
    keys[at] = known = rest.map((segment) => text.slice(0, (end += segment.length + 1)))
  }
  return known
}

const noLeaves: readonly Leaf[] = []

/**
 * Returns the defaults that the tool uses if the call leaves out the parameter at this path. The parameter still counts
 * as missing, because `exists` must be true only for parameters that the call itself gives.
 */
function defaultsAt(
  params: Partial,
  path: readonly string[],
  places: Places,
  defaults: NonNullable<Defaults>,
): readonly Leaf[] {
  const [param] = path
  if (
    path.length !== 1 ||
    typeof params !== 'object' ||
    params === null ||
    params instanceof Hole ||
    isList(params)
  )
    return []
  return [...defaults].flatMap(([name, raw]): Leaf[] => {
    const isGiven = Object.hasOwn(params, name) && params[name] !== null
    if (isGiven || (param !== name && param !== '*')) return []
    const value = typeof raw === 'string' ? comparable(raw) : raw
    const kind = typeof raw === 'string' ? kindIn(places, name) : null
    return [{ value, raw, inList: false, isIncidental: false, kind, place: undefined, spellings: undefined }]
  })
}

/**
 * Follows the path into a value, and adds what it finds to `search.found`.
 * @param places the kinds of all parameters at the top level. Inside a parameter, this is the kind of that parameter.
 */
function walk(value: Partial, at: number, depth: number, places: Places | PlaceKind, search: Search): void {
  const { path, found } = search
  if (depth > deepest) throw new RangeError('parameters are nested too deeply')
  if (at === path.length) return take(value, depth, typeof places === 'string' ? places : null, search)
  step(search)
  const segment = path[at]
  if (value instanceof Hole && value.prefix === null) {
    found.holes.push(value)
    found.mayBeMissing = true
    found.mayBeThere = true
  } else if (isList(value)) {
    const index = segment !== undefined && /^\d+$/.test(segment) ? Number(segment) : null
    const element = index === null ? undefined : value[index]
    if (element !== undefined) walk(element, at + 1, depth + 1, places, search)
    else if (index !== null || value.length === 0) found.isMissing = true
    else for (const each of value) walk(each, segment === '*' ? at + 1 : at, depth + 1, places, search)
  } else if (typeof value === 'object' && value !== null && !(value instanceof Hole)) {
    let isFound = false
    if (segment === '*') {
      for (const [key, each] of Object.entries(value)) {
        isFound = true
        walk(each, at + 1, depth + 1, kindIn(places, key), search)
      }
    } else {
      const keys = keysAt(at, search)
      // A look for a key with dots costs one comparison.
      step(search, 2 * (keys.length - 1))
      for (const [index, key] of keys.entries()) {
        if (!Object.hasOwn(value, key)) continue
        isFound = true
        walk(value[key] ?? null, at + index + 1, depth + 1, kindIn(places, key), search)
      }
    }
    if (!isFound) found.isMissing = true
  } else found.isMissing = true
}

function kindIn(places: Places | PlaceKind, key: string): PlaceKind | null {
  if (places === null || typeof places === 'string') return places
  return places.get(key) ?? null
}

function take(value: Partial, depth: number, kind: PlaceKind | null, search: Search): void {
  const { found } = search
  const there = isThere(value)
  if (there === true) found.isThere = true
  if (there !== false) found.mayBeThere = true
  flatten(value, depth, kind, false, false, search)
}

function isThere(value: Partial): boolean | 'maybe' {
  if (value instanceof Hole) return value.leastLength > 0 ? true : 'maybe'
  if (!isList(value)) return value !== null && value !== ''
  const elements = value.map(isThere)
  if (elements.includes(true)) return true
  return elements.includes('maybe') ? 'maybe' : false
}

function flatten(
  value: Partial,
  depth: number,
  kind: PlaceKind | null,
  inList: boolean,
  isIncidental: boolean | 'maybe',
  search: Search,
): void {
  const { found } = search
  if (depth > deepest) throw new RangeError('parameters are nested too deeply')
  // The leaves cost nothing here, because `evaluate` pays for them.
  if (value === null || typeof value === 'object') step(search)
  if (value === null) return
  if (value instanceof Hole) found.holes.push(value.in(kind, inList))
  else if (typeof value === 'string') {
    found.leaves.push({
      value: comparable(value),
      raw: value,
      inList,
      isIncidental,
      kind,
      place: undefined,
      spellings: undefined,
    })
  } else if (typeof value !== 'object')
    found.leaves.push({
      value,
      raw: value,
      inList,
      isIncidental,
      kind: null,
      place: undefined,
      spellings: undefined,
    })
  else if (isList(value)) for (const each of value) flatten(each, depth + 1, kind, true, isIncidental, search)
  else {
    const address = addressKey(value)
    for (const [key, each] of Object.entries(value)) {
      const isBeside = address !== null && key !== address.key ? address.isSure || 'maybe' : isIncidental
      flatten(each, depth + 1, kind, false, isIncidental === true ? true : isBeside, search)
    }
  }
}

/**
 * Finds the key under which an object has a recipient's address, such as `email`. Returns null if the object has no
 * such key. If an unknown value decides whether there is such a key or which key it is, `isSure` is false and `key` is
 * null.
 */
function addressKey(object: {
  readonly [key: string]: Partial
}): { key: string | null; isSure: boolean } | null {
  let isSure = true
  for (const key of addressKeys) {
    const value = Object.hasOwn(object, key) ? object[key] : undefined
    if (typeof value === 'string' || (value instanceof Hole && value.prefix !== null)) {
      return { key: isSure ? key : null, isSure }
    }
    if (value instanceof Hole) isSure = false
  }
  return isSure ? null : { key: null, isSure }
}
