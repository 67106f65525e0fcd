import type { Budget } from '../budget.ts'
import type { Json } from '../types.ts'
import { order } from './compare.ts'
import { isList, listOf, mostLevels, objectOf, textOf, wholeOf, type Shape, type Work } from './shape.ts'

const keysOf = (list: readonly Json[], { keys }: Work): readonly Json[] => keys ?? list

const isTrue = (value: Json | undefined, what: string): boolean => {
  if (typeof value === 'boolean') return value
  if (value === null || value === undefined) return false
  throw new TypeError(`the condition of \`${what}\` must be true or false`)
}

const quantifier =
  (name: string, decides: (found: readonly boolean[]) => boolean): Shape['run'] =>
  ([list], work) =>
    decides(keysOf(listOf(list, name), work).map((each) => isTrue(each, name)))

export const lists = {
  size: {
    written: 'size(list, object or text)',
    gives: 'number',
    args: [1, 1],
    opaque: true,
    run([value = null], { budget }) {
      if (typeof value === 'string' || isList(value)) return value.length
      return counted(Object.keys(objectOf(value, 'size')), budget).length
    },
  },
  filter: {
    written: 'filter(list, row, condition)',
    gives: 'array',
    args: [1, 1],
    each: 'needed',
    run: ([list], { keys }) => listOf(list, 'filter').filter((_, at) => isTrue(keys?.[at], 'filter')),
  },
  map: {
    written: 'map(list, row, value)',
    gives: 'array',
    args: [1, 1],
    each: 'needed',
    run: (_, { keys }) => keys ?? [],
  },
  any: {
    written: 'any(list, row, condition)',
    gives: 'boolean',
    args: [1, 1],
    each: 'needed',
    run: quantifier('any', (found) => found.includes(true)),
  },
  all: {
    written: 'all(list, row, condition)',
    gives: 'boolean',
    args: [1, 1],
    each: 'needed',
    run: quantifier('all', (found) => !found.includes(false)),
  },
  sort: {
    written: "sort(list) or sort(list, row, key, 'desc')",
    gives: 'array',
    args: [1, 2],
    each: 'optional',
    run([list, direction = 'asc'], work) {
      if (direction !== 'asc' && direction !== 'desc') throw new TypeError("`sort` takes 'asc' or 'desc'")
      const given = listOf(list, 'sort')
      const keys = keysOf(given, work)
      work.budget.spend(given.length * (1 + Math.ceil(Math.log2(given.length + 1))))
      const sign = direction === 'asc' ? 1 : -1
      return given
        .map((value, at) => ({ value, key: keys[at] as Json }))
        .sort((a, b) => sign * order(a.key, b.key, 'sort', work.budget))
        .map(({ value }) => value)
    },
  },
  /** The first of equal elements stays. */
  unique: {
    written: 'unique(list) or unique(list, row, key)',
    gives: 'array',
    args: [1, 1],
    each: 'optional',
    run([list], work) {
      const given = listOf(list, 'unique')
      const seen = new Set<string>()
      return given.filter((_, at) => {
        const key = identityOf(keysOf(given, work)[at] as Json, work.budget)
        const isNew = !seen.has(key)
        seen.add(key)
        return isNew
      })
    },
  },
  group: {
    written: 'group(list, row, key)',
    gives: 'array',
    args: [1, 1],
    each: 'needed',
    run([list], work) {
      const groups = new Map<string, { key: Json; items: Json[] }>()
      listOf(list, 'group').forEach((value, at) => {
        const key = work.keys?.[at] ?? null
        const identity = identityOf(key, work.budget)
        const found = groups.get(identity)
        if (found === undefined) groups.set(identity, { key, items: [value] })
        else found.items.push(value)
      })
      return [...groups.values()]
    },
  },
  flat: {
    written: 'flat(list of lists)',
    gives: 'array',
    args: [1, 1],
    run([list], { budget }) {
      const given = listOf(list, 'flat')
      for (const each of given) budget.spend(isList(each) ? 1 + each.length : 1)
      return given.flatMap((each) => (isList(each) ? each : [each]))
    },
  },
  first: {
    written: 'first(list)',
    args: [1, 1],
    opaque: true,
    run: ([list]) => listOf(list, 'first')[0] ?? null,
  },
  last: {
    written: 'last(list)',
    args: [1, 1],
    opaque: true,
    run: ([list]) => listOf(list, 'last').at(-1) ?? null,
  },
  slice: {
    written: 'slice(list or text, from, to)',
    args: [2, 3],
    opaque: true,
    run([value = null, from, to], { budget }) {
      const whole = typeof value === 'string' ? value : listOf(value, 'slice')
      budget.spend(1 + (whole.length >> 4))
      const [begin, end] = [wholeOf(from, 'slice'), to === undefined ? undefined : wholeOf(to, 'slice')]
      const part = whole.slice(begin, end)
      return typeof part === 'string' ? part.toWellFormed() : part
    },
  },
  keys: {
    written: 'keys(object)',
    gives: 'array',
    args: [1, 1],
    opaque: true,
    run: ([object], { budget }) => counted(Object.keys(objectOf(object, 'keys')), budget),
  },
  values: {
    written: 'values(object)',
    gives: 'array',
    args: [1, 1],
    opaque: true,
    run: ([object], { budget }) => counted(Object.values(objectOf(object, 'values')), budget),
  },
  merge: {
    written: 'merge(object, object)',
    gives: 'object',
    args: [2, 10],
    opaque: true,
    run(objects, { budget }) {
      const entries = objects.flatMap((each) => counted(Object.entries(objectOf(each, 'merge')), budget))
      return Object.fromEntries<Json>(entries)
    },
  },
  pick: {
    written: "pick(object, ['name'])",
    gives: 'object',
    args: [2, 2],
    run([object, names], { budget }) {
      const given = objectOf(object, 'pick')
      const wanted = counted(listOf(names, 'pick'), budget).map((each) => textOf(each, 'pick'))
      return Object.fromEntries(
        wanted.filter((name) => Object.hasOwn(given, name)).map((name) => [name, given[name] as Json]),
      )
    },
  },
} as const satisfies Readonly<Record<string, Shape>>

const counted = <T>(list: readonly T[], budget: Budget): readonly T[] => {
  budget.spend(1 + 4 * list.length)
  return list
}

/** Equal values have the same. */
function identityOf(value: Json, budget: Budget, level = 0): string {
  if (level > mostLevels) throw new TypeError(`a value has more than ${mostLevels} nested levels`)
  budget.spend(1 + (typeof value === 'string' ? value.length >> 6 : 0))
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (isList(value)) return `[${value.map((each) => identityOf(each, budget, level + 1)).join()}]`
  const fields = Object.entries(value).map(
    ([key, each]) => `${JSON.stringify(key)}:${identityOf(each, budget, level + 1)}`,
  )
  return `{${fields.sort().join()}}`
}
