import { agentTool, runsInFolder } from '../agent-tools.ts'
import { normalized } from './text-variants.ts'
import type { Json, JsonObject } from '../types.ts'

/* Rules see a path as given and in its plain form: `/srv//www/x` and `/srv/www/x` (docs/decisions/0058). */

const pathArguments = (
  'file_path notebook_path path filePath absolute_path target_file dir_path dirPath ' +
  'target_directory target_notebook paths'
).split(' ')

/** `{ 1: '/srv//x', 2: '/srv/x' }`; `params` itself if all are plain. Null for a path that must not be opened. */
export function withPlainPaths(tool: string, params: JsonObject): JsonObject | null {
  const inFolder = runsInFolder(tool)
  if (agentTool(tool)?.opensPaths !== true && !inFolder) return params
  let seen = params
  try {
    for (const name of inFolder ? ['cwd'] : pathArguments) {
      const given = Object.hasOwn(params, name) ? params[name] : undefined
      if (given === undefined) continue
      const both = withPlain(given)
      if (both !== given) seen = { ...seen, [name]: both }
    }
  } catch (error) {
    if (error instanceof UnsafePath) return null
    throw error
  }
  return seen
}

/** Relative paths become both forms. One that climbs above the root keeps its `..`, and is refused later. */
export function resolvedIn(folder: unknown, tool: string, params: JsonObject): JsonObject {
  if (typeof folder !== 'string' || !folder.startsWith('/') || agentTool(tool)?.opensPaths !== true)
    return params
  let resolved = params
  for (const name of pathArguments) {
    const given = Object.hasOwn(params, name) ? params[name] : undefined
    if (typeof given !== 'string' || !isRelative(given)) continue
    const joined = `${folder}/${given.trim()}`
    resolved = { ...resolved, [name]: { 1: given, 2: plainPath(joined) ?? joined } }
  }
  return resolved
}

/** No home folders (`~`), whose location is unknown here, and no Windows drives. */
const isRelative = (path: string): boolean => !/^\s*(?:[/~\\]|[A-Za-z]:|$)/.test(path)

/** A part that starts with a dot or is empty, white space at the ends, or a character outside printable ASCII. */
const mayDiffer = /\/[./]|^[.\s]|[/\s]$|[^ -~]/

class UnsafePath extends Error {}

function plainOrThrow(given: string): string {
  const plain = mayDiffer.test(given) ? plainPath(given) : given
  if (plain === null) throw new UnsafePath()
  return plain
}

/** A text becomes both forms, also in a list; an object gets more fields. Throws UnsafePath if there is none. */
function withPlain(given: Json): Json {
  if (typeof given === 'string') {
    const plain = plainOrThrow(given)
    return plain === given ? given : { 1: given, 2: plain }
  }
  if (typeof given !== 'object' || given === null) return given
  if (!isObject(given)) {
    const list = given.map(withPlain)
    return list.some((each, index) => each !== given[index]) ? list : given
  }
  const plain = Object.values(given).flatMap((each) => {
    const form = typeof each === 'string' ? plainOrThrow(each) : each
    return typeof form === 'string' && form !== each ? [form] : []
  })
  if (plain.length === 0) return given
  const both: Record<string, Json> = { ...given }
  let next = 1
  for (const form of plain) {
    while (Object.hasOwn(both, next)) next += 1
    both[next] = form
  }
  return both
}

const isObject = (value: object): value is JsonObject => !Array.isArray(value)

/**
 * As clients compute it before they open the file: trimmed, composed (NFC), without empty parts and `.`, and with `..`
 * only at the start of a relative path. Null if the path climbs above the root or contains NUL.
 */
export function plainPath(path: string): string | null {
  if (path.includes('\u0000')) return null
  const text = normalized(path.trim(), 'NFC')
  const isAbsolute = text.startsWith('/')
  const kept: string[] = []
  for (const part of text.split('/')) {
    if (part === '' || part === '.') continue
    if (part !== '..') kept.push(part)
    else if (kept.length > 0 && kept.at(-1) !== '..') kept.pop()
    else if (isAbsolute) return null
    else kept.push(part)
  }
  if (isAbsolute) return `/${kept.join('/')}`
  return text === '' ? text : kept.join('/') || '.'
}
