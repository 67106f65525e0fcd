import { h, type ComponentChild } from 'preact'
import type { Json, JsonObject } from '../../policy/types.ts'
import { LongText, mostShown, Words, type LongKind } from './words.ts'

/*
 * Shows values so that people can read them easily. A person who approves must not miss a part of a value. So a value
 * is shown whole if its JSON has at most `mostShown` characters. A longer value is cut, and the page of the approval
 * says so (pages/parameters.ts).
 */

/**
 * A list or object is shown as JSON in two cases: it is nested deeper than `deepest`, or `mostValues` values are
 * already shown. If there is room for only some of its entries, the other entries are shown as JSON.
 */
const deepest = 5
const mostValues = 300

/**
 * These limits apply to a value that must be cut. A text is short if it has at most `shortText` characters. The page
 * shows at most `mostOfShort` characters of short texts. Long texts have a limit of their own (`mostShown`), so they do
 * not use up the room for short texts.
 */
const shortText = 2_000
const mostOfShort = 500_000

/** A name with more characters is shown like a text: folded if it is long, and cut if there is no room. */
const mostOfName = 300

/** Parameters of agents' tools that a shell or another program runs. */
const commands: ReadonlySet<string> = new Set(['command', 'cmd', 'script', 'code'])

/** Returns the length that decides whether a value fits on a page. */
export const lengthOf = (value: Json): number => JSON.stringify(value, null, 2).length

/** Shows parameters: each name with its value. */
export function Values({
  values,
  beside,
}: {
  readonly values: JsonObject
  /** Returns the element beside the name of a value. */
  readonly beside?: Beside
}): ComponentChild {
  return h('div', { class: 'values' }, fields(values, 0, remainingFor(values), beside))
}

type Beside = (name: string) => ComponentChild

/** Shows any value so that people can read it easily. */
export function Value({ value }: { readonly value: Json }): ComponentChild {
  return isObject(value)
    ? h(Values, { values: value })
    : h('div', { class: 'values' }, valueAt(value, 0, remainingFor(value)))
}

interface Remaining {
  values: number
  readonly characters: { short: number; long: number }
}

const remainingFor = (value: Json): Remaining => ({
  values: mostValues,
  characters:
    lengthOf(value) <= mostShown
      ? { short: Infinity, long: Infinity }
      : { short: mostOfShort, long: mostShown },
})

function textIn({ characters }: Remaining, text: string, textKind: LongKind = 'text'): ComponentChild {
  const kind = text.length <= shortText ? 'short' : 'long'
  const most = Math.min(text.length, characters[kind])
  characters[kind] -= most
  return h(LongText, { text, most, kind: textKind })
}

const jsonIn = (remaining: Remaining, value: Json): ComponentChild =>
  textIn(remaining, JSON.stringify(value, null, 2), 'json')

function fields(values: JsonObject, depth: number, remaining: Remaining, beside?: Beside): ComponentChild {
  const entries = Object.entries(values)
  if (entries.length === 0) return h('p', { class: 'quiet' }, 'no values')
  const [shown, others] = split(entries, remaining)
  return [
    h(
      'dl',
      { class: 'fields' },
      shown.map(([name, value]) =>
        h('div', { class: 'field' }, [
          h('dt', null, [nameIn(remaining, name), beside === undefined ? null : [' ', beside(name)]]),
          h('dd', null, valueAt(value, depth + 1, remaining, name)),
        ]),
      ),
    ),
    others.length === 0 ? null : restOf(remaining, others.length, Object.fromEntries(others)),
  ]
}

const nameIn = (remaining: Remaining, name: string): ComponentChild =>
  name.length <= mostOfName ? h(Words, { text: name }) : textIn(remaining, name)

function items(list: readonly Json[], depth: number, remaining: Remaining): ComponentChild {
  const [shown, others] = split(list, remaining)
  return [
    h(
      'ol',
      { class: 'items' },
      shown.map((each) => h('li', null, valueAt(each, depth + 1, remaining))),
    ),
    others.length === 0 ? null : restOf(remaining, others.length, others),
  ]
}

/** Returns the entries that are shown one by one, and all other entries. */
function split<T>(entries: readonly T[], { values }: Remaining): readonly [readonly T[], readonly T[]] {
  const most = Math.max(0, values)
  return [entries.slice(0, most), entries.slice(most)]
}

/** Shows, as JSON, the values that are left over by `split`. */
const restOf = (remaining: Remaining, count: number, value: Json): ComponentChild =>
  h('div', { class: 'field' }, [
    h('p', { class: 'quiet small' }, `${count.toLocaleString('en')} more, as JSON:`),
    jsonIn(remaining, value),
  ])

function valueAt(value: Json, depth: number, remaining: Remaining, name = ''): ComponentChild {
  remaining.values -= 1
  if (typeof value === 'string')
    return value === ''
      ? h('span', { class: 'quiet' }, 'empty text')
      : textIn(remaining, value, commands.has(name) ? 'command' : 'text')
  if (value === null) return h('span', { class: 'quiet' }, 'null')
  if (typeof value !== 'object') return h('code', null, String(value))
  if (depth > deepest || remaining.values <= 0) return jsonIn(remaining, value)
  if (isObject(value)) return fields(value, depth, remaining)
  return value.length === 0 ? h('span', { class: 'quiet' }, 'empty list') : items(value, depth, remaining)
}

const isObject = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
