import type { PollSettings } from '../../db/schema/triggers.ts'
import {
  elementOf,
  follow,
  outputFormFor,
  typeOf,
  wholeTemplate,
  words,
  type Form,
} from '../../contract/forms.ts'
import { isObject, type Issue } from '../../contract/json.ts'
import { formedBy } from '../../contract/reference-forms.ts'
import { Budget, BudgetExceeded } from '../../policy/budget.ts'
import { order } from '../../policy/expressions/compare.ts'
import type { Reference } from '../../policy/reference.ts'
import { expressionBudget, mostResolvedText, resolve, TemplateError } from '../../policy/templates.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { getTool } from '../../tools/index.ts'
import { sha256 } from '../../shared/canonical-json.ts'
import { DomainError } from '../errors.ts'
import { arrivalScope, expressionIssues } from './inputs.ts'

/* What the output of a poll means: its items, by what they are known, and in which order they start runs. Pure functions. */

/** Items of one output. */
export const mostItems = 1_000

/** New items of one poll that start runs. The others are new to the next poll. */
export const mostStarted = 100

export interface PolledItem {
  /** A hash of its id. */
  readonly key: string
  readonly value: Json
}

const inList: ReadonlySet<string> = new Set(['output'])
const inItem: ReadonlySet<string> = new Set(['item', 'output'])

/** What is certainly wrong with the expressions. */
export function pollIssues({ tool: name, params, list, id, order: by }: PollSettings): Issue[] {
  const tool = getTool(name)
  const form = tool === undefined ? true : outputFormFor(tool, params)
  const output = { form, what: `the output of \`${name}\`` }
  const found = readsOf('poll.list', list, { output })
  const type = typeOf(found.form)
  if (type !== null && type !== 'array')
    return [...found.issues, { path: 'poll.list', message: `is ${words[type]}, and must be a list` }]
  const known = { item: { form: elementOf(found.form) ?? true, what: '`item`' }, output }
  const ofItem = (path: string, text: string): readonly Issue[] => {
    const { issues, names } = readsOf(path, text, known)
    // The same value for each item would make all of them one.
    const isFixed = issues.length === 0 && !names.has('item')
    return isFixed ? [{ path, message: 'must read `item`, such as `{{ item.id }}`' }] : issues
  }
  return [...found.issues, ...ofItem('poll.id', id), ...(by === null ? [] : ofItem('poll.order', by))]
}

/** By its name: a value that an expression can read. */
type KnownValues = Readonly<Record<string, { readonly form: Form; readonly what: string }>>

interface Reads {
  /** What form the value has. */
  readonly form: Form
  readonly issues: readonly Issue[]
  /** What it reads. */
  readonly names: ReadonlySet<string>
}

function readsOf(path: string, text: string, known: KnownValues): Reads {
  const roots = new Set(Object.keys(known))
  const template = wholeTemplate(text, roots)
  const names = new Set<string>()
  const unknown = expressionIssues(path, text, roots)
  if (unknown.length > 0 || template === null)
    return { form: true, names, issues: unknown.length > 0 ? unknown : [{ path, message: notWhole }] }
  const steps = new WeakMap()
  const formOf = (reference: Reference): Form | string => {
    const value = reference.kind === 'input' ? known[reference.name] : undefined
    if (reference.kind !== 'input' || value === undefined) return true
    names.add(reference.name)
    return follow(value.form, reference, { what: value.what, steps })
  }
  const { form, issues } = formedBy(template, formOf, steps)
  return { form, names, issues: issues.map((message) => ({ path, message })) }
}

const notWhole =
  'must be one expression in braces and nothing else, such as `{{ output.records }}` or `{{ item.id }}`'

/**
 * In their order. Throws `validation_error` if the output has no such list, if an id is missing or stands twice, or if
 * there is no order. The messages contain no value.
 */
export function itemsIn(settings: PollSettings, output: Json): PolledItem[] {
  const budget = new Budget(expressionBudget)
  const read = (path: string, expression: string, scope: JsonObject, roots: ReadonlySet<string>): Json => {
    try {
      return resolve(expression, arrivalScope(scope, roots), mostResolvedText, budget).value
    } catch (error) {
      if (error instanceof TemplateError) throw wrong(path, error.message)
      throw error
    }
  }
  const list = read('list', settings.list, { output }, inList)
  if (!Array.isArray(list)) throw wrong('list', 'gives no list')
  if (list.length > mostItems)
    throw wrong(
      'list',
      `has ${list.length} items, and at most ${mostItems} are possible: let the tool read fewer`,
    )
  const places = new Map<string, number>()
  const found = (list as readonly Json[]).map((value, place) => {
    const at = (expression: string, path: string) => read(path, expression, { item: value, output }, inItem)
    const key = keyOf(at(settings.id, 'id'), place)
    const other = places.get(key)
    if (other !== undefined)
      throw wrong('id', `is the same for the items ${other + 1} and ${place + 1} of the list`)
    places.set(key, place)
    return { key, value, by: settings.order === null ? null : at(settings.order, 'order') }
  })
  if (settings.order === null) return found
  try {
    return found.toSorted((a, b) => order(a.by, b.by, 'order', budget))
  } catch (error) {
    if (!(error instanceof TypeError) && !(error instanceof BudgetExceeded)) throw error
    throw wrong('order', error.message)
  }
}

const wrong = (field: string, message: string): DomainError =>
  new DomainError('validation_error', `\`${field}\` ${message}`, [{ path: `poll.${field}`, message }])

function keyOf(id: Json, place: number): string {
  const text = typeof id === 'number' ? String(id) : id
  if (typeof text === 'string' && text !== '') return sha256(text)
  const what =
    text === '' ? 'empty' : text === null ? 'null' : isObject(text) ? 'an object' : 'no text and no number'
  throw wrong('id', `is ${what} for item ${place + 1} of the list: it must be a text or a number`)
}
