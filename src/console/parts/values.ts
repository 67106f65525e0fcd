import { h, type ComponentChild } from 'preact'
import type { Json, JsonObject } from '../../policy/types.ts'
import { LongText, mostShown, Words } from './words.ts'

/** Deeper values, and values beyond this many, are shown as JSON. */
const deepest = 5
const mostValues = 300

/** A readable view of parameters: each name with its value. */
export function Values({
  values,
  beside,
}: {
  readonly values: JsonObject
  /** What stands beside the name of each value. */
  readonly beside?: Beside
}): ComponentChild {
  return h('div', { class: 'values' }, fields(values, 0, remainingOf(), beside))
}

type Beside = (name: string) => ComponentChild

/** A readable view of any value. */
export function Value({ value }: { readonly value: Json }): ComponentChild {
  const isFields = typeof value === 'object' && value !== null && !isList(value)
  if (isFields) return h(Values, { values: value })
  return h('div', { class: 'values' }, valueAt(value, 0, remainingOf()))
}

/** Texts up to this length have their own limit `mostOfShort`, so a long text cannot use up their characters. */
const shortText = 2_000
const mostOfShort = 500_000

interface Remaining {
  left: number
  readonly characters: { short: number; long: number }
}

const remainingOf = (): Remaining => ({
  left: mostValues,
  characters: { short: mostOfShort, long: mostShown },
})

function textIn({ characters }: Remaining, text: string, isCommand = false): ComponentChild {
  const kind = text.length <= shortText ? 'short' : 'long'
  const most = Math.min(text.length, characters[kind])
  characters[kind] -= most
  return h(LongText, { text, most, isCommand })
}

function fields(values: JsonObject, depth: number, remaining: Remaining, beside?: Beside): ComponentChild {
  const entries = Object.entries(values)
  if (entries.length === 0) return h('p', { class: 'quiet' }, 'no values')
  return h(
    'dl',
    { class: 'fields' },
    entries.map(([name, value]) =>
      h('div', { class: 'field' }, [
        h('dt', null, [h(Words, { text: name }), beside === undefined ? null : [' ', beside(name)]]),
        h('dd', null, valueAt(value, depth + 1, remaining, name === 'command')),
      ]),
    ),
  )
}

function valueAt(value: Json, depth: number, remaining: Remaining, isCommand = false): ComponentChild {
  remaining.left -= 1
  if (typeof value === 'string')
    return value === '' ? h('span', { class: 'quiet' }, 'empty text') : textIn(remaining, value, isCommand)
  if (value === null) return h('span', { class: 'quiet' }, 'null')
  if (typeof value !== 'object') return h('code', null, String(value))
  if (depth > deepest || remaining.left <= 0) return textIn(remaining, JSON.stringify(value, null, 2))
  if (!isList(value)) return fields(value, depth, remaining)
  if (value.length === 0) return h('span', { class: 'quiet' }, 'empty list')
  return h(
    'ol',
    { class: 'items' },
    value.map((each) => h('li', null, valueAt(each, depth + 1, remaining))),
  )
}

const isList = (value: Json): value is readonly Json[] => Array.isArray(value)
