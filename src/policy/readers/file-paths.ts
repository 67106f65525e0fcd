import { agentTool, runsInFolder } from '../agent-tools.ts'
import { normalized } from './unicode.ts'
import type { Json, JsonObject } from '../types.ts'

/*
 * Many paths open the same file: `/srv//www/x`, `/srv/./www/x`, `/a/../srv/www/x`. Rules compare text. So they see each
 * path as given, and also in its plain form, here `/srv/www/x` (docs/decisions/0058).
 */

const pathArguments = [
  'file_path',
  'notebook_path',
  'path',
  'filePath',
  'absolute_path',
  'target_file',
  'dir_path',
  'dirPath',
  'target_directory',
  'target_notebook',
  'paths',
]

/**
 * Returns the arguments as rules see them. A path that is not plain becomes an object with both forms, so that a
 * restrictive rule can match either form. Example: `/srv//x` becomes `{ 1: '/srv//x', 2: '/srv/x' }`. If all paths are
 * plain, returns `params` itself. Returns null if a path climbs above the root or contains NUL. Such a path must not be
 * opened.
 */
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

/**
 * Resolves relative paths in the arguments against the client's working folder. Each of them becomes an object with the
 * given path and the resolved path. If the resolved path climbs above the root, it keeps its `..`, so that
 * `withPlainPaths` refuses it.
 */
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

/**
 * Returns whether a path is relative to the working folder. Returns false for home folders (`~`), because their
 * location is unknown here. Also returns false for Windows drives.
 */
const isRelative = (path: string): boolean => !/^\s*(?:[/~\\]|[A-Za-z]:|$)/.test(path)

/**
 * Finds paths that may differ from their plain form. Such a path has a part that starts with a dot, an empty part,
 * white space at its start or end, or a character outside printable ASCII.
 */
const mayDiffer = /\/[./]|^[.\s]|[/\s]$|[^ -~]/

class UnsafePath extends Error {}

function plainOrThrow(given: string): string {
  const plain = mayDiffer.test(given) ? plainPath(given) : given
  if (plain === null) throw new UnsafePath()
  return plain
}

/**
 * Adds the plain form to each path that is not plain. A text becomes an object with both forms. In a list, each entry
 * is treated in this way. An object keeps its fields and gets the plain forms of its texts as additional fields. Throws
 * UnsafePath for a path without a plain form.
 */
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
 * Returns the plain form of a path, as clients compute it before they open the file. The plain form is trimmed, and its
 * Unicode is composed (NFC). It has no empty parts and no `.`, and has `..` only at the start of a relative path.
 * Returns null if the path climbs above the root or contains NUL.
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
