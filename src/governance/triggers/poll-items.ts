import type { PollSettings } from '../../db/schema/triggers.ts'
import { isObject, type Issue } from '../../contract/json.ts'
import { Budget, BudgetExceeded } from '../../policy/budget.ts'
import { order } from '../../policy/expressions/compare.ts'
import { expressionBudget, mostResolvedText, resolve, TemplateError } from '../../policy/templates.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
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
export const pollIssues = ({ list, id, order: by }: PollSettings): Issue[] =>
  [
    { path: 'poll.list', value: list, roots: inList },
    { path: 'poll.id', value: id, roots: inItem },
    { path: 'poll.order', value: by, roots: inItem },
  ].flatMap(({ path, value, roots }) => expressionIssues(path, value, roots))

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
