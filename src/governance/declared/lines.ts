import { isObject } from '../../contract/json.ts'
import { canonicalJson } from '../../shared/canonical-json.ts'
import type { Json, JsonObject } from '../../policy/types.ts'

/* What a change does, in lines such as "verdict: allow → deny". */

/** For one change. The last line says how many more there are. */
export const mostLines = 20
/** Characters of a value. */
const longestValue = 120

/** A side is null if there is nothing. */
export function linesOf(before: JsonObject | null, after: JsonObject | null): string[] {
  const lines = fieldsOf(before ?? {}, after ?? {}, '')
  return lines.length <= mostLines
    ? lines
    : [...lines.slice(0, mostLines - 1), `${lines.length - mostLines + 1} more`]
}

function fieldsOf(before: JsonObject, after: JsonObject, path: string): string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names.flatMap((name) => lineOf(before[name], after[name], `${path}${name}`))
}

function lineOf(before: Json | undefined, after: Json | undefined, path: string): string[] {
  if (isSame(before, after)) return []
  if (isObject(before) && isObject(after)) return fieldsOf(before, after, `${path}.`)
  if (Array.isArray(before) && Array.isArray(after)) return listLines(before, after, path)
  return [`${path}: ${shown(before)} → ${shown(after)}`]
}

/** Elements with the same id are compared; of all others, it says which come and go. */
function listLines(before: readonly Json[], after: readonly Json[], path: string): string[] {
  const [from, to] = [byId(before), byId(after)]
  if (from !== null && to !== null) {
    const ids = [...new Set([...from.keys(), ...to.keys()])]
    return ids.flatMap((id) => lineOf(from.get(id), to.get(id), `${path}.${id}`))
  }
  const texts = (list: readonly Json[]) => new Set(list.map((each) => canonicalJson(each)))
  const [had, has] = [texts(before), texts(after)]
  const parts = [
    ...after.filter((each) => !had.has(canonicalJson(each))).map((each) => `+ ${shown(each)}`),
    ...before.filter((each) => !has.has(canonicalJson(each))).map((each) => `− ${shown(each)}`),
  ]
  return [`${path}: ${parts.length === 0 ? 'another order' : cut(parts.join(', '))}`]
}

function byId(list: readonly Json[]): ReadonlyMap<string, Json> | null {
  const entries = list.flatMap((each) =>
    isObject(each) && typeof each['id'] === 'string' ? [[each['id'], each] as const] : [],
  )
  const found = new Map(entries)
  return found.size === list.length && list.length > 0 ? found : null
}

const isSame = (one: Json | undefined, other: Json | undefined): boolean =>
  one === undefined || other === undefined ? one === other : canonicalJson(one) === canonicalJson(other)

const shown = (value: Json | undefined): string =>
  value === undefined ? 'nothing' : cut(typeof value === 'string' ? value : canonicalJson(value))

const cut = (text: string): string => {
  const line = text.replaceAll(/\s+/gu, ' ')
  return line.length <= longestValue ? line : `${line.slice(0, longestValue).toWellFormed()}…`
}
