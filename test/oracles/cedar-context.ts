import type { ParamCondition, RuleOperator } from '../../src/policy/operators/index.ts'
import type { Call } from '../../src/policy/decide.ts'
import { foundAt } from './found.ts'
import { type Kind, kindOf, type PlaceReading } from './places.ts'
import { idOf, suffixes } from './texts.ts'

/* A call, as Cedar's context. */

export type CallContext = ReturnType<typeof contextOf>

/** The conditions on each path. */
export type Asked = ReadonlyMap<string, readonly ParamCondition[]>

export const askedBy = (
  rules: readonly { readonly params?: readonly ParamCondition[] | undefined }[],
): Asked =>
  Map.groupBy(
    rules.flatMap(({ params = [] }) => params),
    ({ param }) => param,
  )

export function contextOf(call: Call, asked: Asked) {
  return {
    source: call.source,
    tool: call.tool,
    sideEffect: call.sideEffect,
    labels: [...call.labels],
    isTracked: call.paramLabels !== undefined,
    at: Object.fromEntries(
      [...asked].map(([path, conditions]) => [
        path,
        pathContext(call, path, new Set(conditions.map(({ operator }) => operator))),
      ]),
    ),
    from: Object.fromEntries([...asked.keys()].map((path) => [path, sourcesOf(call, path)])),
  }
}

/**
 * Cedar cannot iterate over the elements of a set, so leaves, hosts and sources get numbered fields, and only where
 * an operator needs them.
 */
function pathContext(
  call: Call,
  path: string,
  operators: ReadonlySet<RuleOperator>,
): Record<string, unknown> {
  const asks = (...names: RuleOperator[]) => names.some((name) => operators.has(name))
  const found = foundAt(call, path)
  const leaves = found.leaves.map(({ value, inList, place }) => ({
    key: keyOf(typeof value === 'string' ? idOf(value) : value),
    isElement: inList,
    ...(typeof value === 'string' ? { text: value, id: idOf(value) } : {}),
    ...(place === null ? {} : placeFields(place)),
  }))
  const addresses = found.leaves.flatMap((leaf) =>
    leaf.addresses.map((address) => ({ text: address, isElement: leaf.inList })),
  )
  const hosts = new Set(found.leaves.flatMap((leaf) => leaf.hosts ?? []))
  return {
    isMissing: found.isMissing,
    isThere: found.isThere,
    keys: leaves.map(({ key }) => key),
    ...(asks('equals', 'in', 'not_in') ? byPlace(leaves) : {}),
    addresses: addresses.map(({ text }) => text),
    ...(asks('contains', 'startswith')
      ? { ...numbered('leaf', leaves), ...numbered('address', addresses) }
      : {}),
    ...(asks('domain_in', 'domain_not_in') ? numbered('host', [...hosts].map(domainsAbove)) : {}),
  }
}

/** `place` is absent for a text that the tool refuses. */
function placeFields({ kind, whole, spellings }: PlaceReading) {
  if (whole === null) return { kind }
  return { kind, place: whole, other: spellings[1] ?? whole }
}

/** Leaves that name no place can be compared as a set of keys. Each leaf that names a place needs a field. */
function byPlace(leaves: readonly { readonly key: string; readonly kind?: string }[]) {
  const plain = leaves.filter((leaf) => leaf.kind === undefined)
  const placed = leaves.filter((leaf) => leaf.kind !== undefined)
  return { plainKeys: plain.map(({ key }) => key), ...numbered('placed', placed) }
}

/** The labels of each source of a parameter, apart from the values, because a plan knows labels earlier. */
function sourcesOf({ paramLabels = new Map() }: Call, path: string): Record<string, unknown> {
  const concerned = [...paramLabels].filter(([built]) => concern(path, built))
  return numbered(
    'source',
    concerned.map(([, labels]) => [...labels]),
  )
}

export type Place = 'leaf' | 'host' | 'source' | 'address' | 'placed'
/** What the contexts of a case have, so that its policies ask for nothing else. */
export interface Filled {
  /** The largest number of fields of this kind that a call fills at a path. */
  most(path: string, name: Place): number
  /** The kind of place that parameters name. A case has one kind at most. */
  readonly kind: Kind | null
}

export function filledIn(calls: readonly Call[], contexts: readonly CallContext[]): Filled {
  const filled = (context: CallContext, path: string, name: Place) =>
    Object.keys({ ...context.at[path], ...context.from[path] }).filter((key) =>
      new RegExp(`^${name}\\d+$`).test(key),
    ).length
  const kinds = calls.flatMap((call) => Object.keys(call.params).map((param) => kindOf(call, param)))
  return {
    most: (path, name) => Math.max(1, ...contexts.map((context) => filled(context, path, name))),
    kind: kinds.find((kind) => kind !== null) ?? null,
  }
}

function numbered(name: Place, values: readonly unknown[]): Record<string, unknown> {
  return Object.fromEntries(values.map((value, index) => [`${name}${index}`, value]))
}

/** Every domain that contains the host (`wide`), and those of the same registrant (`narrow`). */
function domainsAbove(host: string | null): { wide: string[]; narrow: string[] } {
  const labels = host?.split('.') ?? []
  const wide = labels.map((_, index) => labels.slice(index).join('.'))
  const suffix = suffixes[host ?? '']
  return { wide, narrow: wide.filter((domain) => suffix === undefined || domain.length > suffix.length) }
}

export function concern(rule: string, built: string): boolean {
  const wanted = rule.split('.')
  let parts = built.split('.')
  if (!wanted.some((part) => /^\d$/.test(part))) parts = parts.filter((part) => !/^\d$/.test(part))
  const common = Math.min(wanted.length, parts.length)
  return wanted.slice(0, common).every((part, index) => part === '*' || part === parts[index])
}

export const keyOf = (value: string | number | boolean) => `${typeof value}:${value}`
