import type { Budget } from './budget.ts'
import { comparable, couldBecomeGoogleLink } from './readers/google-links.ts'
import { type PlaceKind, placeWithin, spellingsOf } from './readers/places.ts'

/** An unknown part in `Hole.outline`. No reader of hosts takes it for a part or the end of a host. */
const gap = '\0'

/** The text ends with the first unknown part. */
const noPieces: readonly string[] = ['']

type SomeDetails = { readonly [Name in 'after' | 'from' | 'isWhole' | 'inList' | 'kind']?: Hole[Name] }

/** Starts with `prefix`, or may be any value if that is null. `a{{x}}b{{y}}` gives `a` and `['b', '']`. */
export class Hole {
  readonly prefix: string | null
  /** The known pieces after the first unknown part. The last one is the end of the text, perhaps empty. */
  readonly after: readonly string[]
  readonly pieces: readonly string[]
  /** The unknown references without their braces, for explanations. */
  readonly from: readonly string[]
  /** Whether this is the value of one reference, and not a text that contains one. */
  readonly isWhole: boolean
  readonly inList: boolean
  /** The kind of place that the parameter names; null for none, or if it is not known yet. */
  readonly kind: PlaceKind | null
  #mayBecomeLink: boolean | null = null
  #outline: string | null = null
  constructor(prefix: string | null, more: SomeDetails = {}) {
    this.prefix = prefix
    this.after = more.after ?? noPieces
    this.pieces = prefix === null ? noPieces : [prefix, ...this.after]
    this.from = more.from ?? []
    this.isWhole = more.isWhole ?? false
    this.inList = more.inList ?? false
    this.kind = more.kind ?? null
  }
  in(kind: PlaceKind | null, inList: boolean): Hole {
    return kind === null && !inList ? this : this.with(this.prefix, { kind, inList })
  }
  with(prefix: string | null, more: SomeDetails): Hole {
    const { after, from, isWhole, inList, kind } = this
    return new Hole(prefix, { after, from, isWhole, inList, kind, ...more })
  }
  /** The known pieces, with `gap` between. */
  get outline(): string {
    return (this.#outline ??= this.pieces.join(gap))
  }
  /** The text has at least so many characters. */
  get leastLength(): number {
    return this.pieces.reduce((length, piece) => length + piece.length, 0)
  }
  /** A wrong answer is always true, never false. */
  mayBecome(text: string, budget: Budget): boolean {
    const { prefix, after } = this
    if (prefix === null) return true
    if (!text.startsWith(prefix) || !text.endsWith(after.at(-1) ?? '')) return false
    budget.spend(1 + (after.length >> 4) + (text.length >> 6))
    let at = prefix.length
    for (const piece of after) {
      const found = text.indexOf(piece, at)
      if (found < 0) return false
      at = found + piece.length
    }
    return true
  }
  get mayBecomeLink(): boolean {
    this.#mayBecomeLink ??= couldBecomeGoogleLink(this.prefix ?? '')
    return this.#mayBecomeLink
  }
}

/** JSON that may have unknown parts. Those of a concrete call have none. */
export type Partial =
  string | number | boolean | null | Hole | readonly Partial[] | { readonly [key: string]: Partial }

export interface Leaf {
  readonly value: string | number | boolean
  readonly raw: string | number | boolean
  /** For an element of a list, `contains` means equality. */
  readonly inList: boolean
  /**
   * Whether another field of the same object has a recipient's address, as beside `email`. It then counts as a
   * recipient only with `@` or `://`. `maybe`: an unknown value may be the address.
   */
  readonly isIncidental: boolean | 'maybe'
  /** Null: no text, or its parameter names no place. */
  readonly kind: PlaceKind | null
  /** Results of `placeOfLeaf` and `spellingsOfLeaf`, undefined until a rule needs them. */
  place: string | null | undefined
  spellings: readonly string[] | undefined
}

function leafOf(
  raw: Leaf['raw'],
  kind: PlaceKind | null,
  inList: boolean,
  isIncidental: Leaf['isIncidental'],
): Leaf {
  const value = typeof raw === 'string' ? comparable(raw) : raw
  const named = typeof raw === 'string' ? kind : null
  return { value, raw, inList, isIncidental, kind: named, place: undefined, spellings: undefined }
}

/** As the tool reads it; null if it is no place. */
export function placeOfLeaf(leaf: Leaf, kind: PlaceKind, budget: Budget): string | null {
  if (leaf.place === undefined) leaf.place = placeWithin(kind, String(leaf.raw), budget)
  return leaf.place
}

export function spellingsOfLeaf(leaf: Leaf, kind: PlaceKind, place: string): readonly string[] {
  leaf.spellings ??= spellingsOf(kind, place)
  return leaf.spellings
}

/** By parameter; null if none are declared, as for agents' tools. */
export type Places = ReadonlyMap<string, PlaceKind> | null

/** For parameters that a call leaves out. Null if there are none, or if they are not known, as for agents' tools. */
export type Defaults = ReadonlyMap<string, string | number | boolean> | null

export interface Found {
  readonly leaves: Leaf[]
  readonly holes: Hole[]
  /** What the tool uses because the call gives none. Only for rules that restrict. */
  defaults: readonly Leaf[]
  /** In a list, one element without the path is enough. */
  isMissing: boolean
  /** The path leads into an unknown part, which is also in `holes`. */
  mayBeMissing: boolean
  /** In the sense of `exists`: null, empty text and empty lists do not count. */
  isThere: boolean
  mayBeThere: boolean
}

/** Nested levels in parameters. Entry points refuse deeper ones; here they throw RangeError. */
const deepest = 64

const addressKeys = ['email', 'address', 'mail', 'emailAddress', 'email_address']

/** `Array.isArray` does not narrow `readonly` arrays. */
export function isList(value: Partial): value is readonly Partial[] {
  return Array.isArray(value)
}

/**
 * Only own properties. In a list, a segment may be an index or `*`; any other is looked up in all elements. Keys with
 * dots are found too: `a.b` also finds the key `a.b`. With `budget` null, the search costs nothing.
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
  /** `keysAt` for each position in the path, when first needed. */
  readonly keys: (readonly string[] | undefined)[]
  readonly found: Found
  readonly budget: Budget | null
  /** Counted, but not yet taken from the budget. */
  steps: number
}

/** Two steps cost as much as one comparison. */
function step(search: Search, steps = 1): void {
  search.steps += steps
  if (search.steps < 64) return
  search.budget?.spend(search.steps >> 1)
  search.steps = 0
}

/** The keys with which the rest of the path can begin: for `a.b.c`, `a`, `a.b` and `a.b.c`. */
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

/** The parameter still counts as missing: `exists` is true only for what the call itself gives. */
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
    return [leafOf(raw, kindIn(places, name), false, false)]
  })
}

/** `places`: the kinds of all parameters at the top level; inside a parameter, its own kind. */
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
  // `evaluate` pays for the leaves.
  if (value === null || typeof value === 'object') step(search)
  if (value === null) return
  if (value instanceof Hole) found.holes.push(value.in(kind, inList))
  else if (typeof value !== 'object') found.leaves.push(leafOf(value, kind, inList, isIncidental))
  else if (isList(value)) for (const each of value) flatten(each, depth + 1, kind, true, isIncidental, search)
  else {
    const address = addressKey(value)
    for (const [key, each] of Object.entries(value)) {
      const isBeside = address !== null && key !== address.key ? address.isSure || 'maybe' : isIncidental
      flatten(each, depth + 1, kind, false, isIncidental === true ? true : isBeside, search)
    }
  }
}

/** Where a recipient's address is, such as `email`. `isSure` is false if an unknown value decides. */
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
