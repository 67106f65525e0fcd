import { normalized } from './normalized.ts'
import type { Json, JsonObject } from './types.ts'

/*
 * Rules compare a path as text, and clients open many spellings of one path: `/srv//www/x`, `/srv/./www/x`, `/a/../srv/www/x`.
 * Rules see such a path as given and in its plain form (docs/decisions/0058).
 */

/** Tools of agent clients that open the path they are given, under each client's name for them. */
const fileTools: ReadonlySet<string> = new Set(
  `Read Write Edit MultiEdit NotebookEdit NotebookRead Glob Grep LS LSP
  read_file read_many_files list_directory glob grep grep_search search_file_content view view_image file_search list_dir
  write_file replace create edit create_file create_directory apply_patch insert_edit_into_file replace_string_in_file`.split(
    /\s+/,
  ),
)

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
 * The arguments as rules see them: beside a path that is not plain stands its plain form, so that a rule that restricts
 * matches either. The arguments themselves for most calls; null where a path is one that nobody should open: it climbs
 * above the root, or holds a NUL.
 */
export function withPlainPaths(tool: string, params: JsonObject): JsonObject | null {
  if (!fileTools.has(tool)) return params
  let seen = params
  try {
    for (const name of pathArguments) {
      const given = Object.hasOwn(params, name) ? params[name] : undefined
      if (given === undefined) continue
      const both = withPlain(given)
      if (both !== given) seen = { ...seen, [name]: both }
    }
  } catch (error) {
    if (error instanceof NobodysPath) return null
    throw error
  }
  return seen
}

/**
 * The arguments with relative paths resolved against the folder that the client works in, beside what was given. One that
 * climbs above the root is left as it is joined, for `withPlainPaths` to refuse.
 */
export function resolvedIn(folder: unknown, tool: string, params: JsonObject): JsonObject {
  if (typeof folder !== 'string' || !folder.startsWith('/') || !fileTools.has(tool)) return params
  let resolved = params
  for (const name of pathArguments) {
    const given = Object.hasOwn(params, name) ? params[name] : undefined
    if (typeof given !== 'string' || !isRelative(given)) continue
    const joined = `${folder}/${given.trim()}`
    resolved = { ...resolved, [name]: { 1: given, 2: plainPath(joined) ?? joined } }
  }
  return resolved
}

/** Not of a home folder either, which nobody here knows, nor with a drive of Windows. */
const isRelative = (path: string): boolean => !/^\s*(?:[/~\\]|[A-Za-z]:|$)/.test(path)

/** Dots and slashes where a plain path has none, space around it, and what has more than one form in Unicode. */
const mayDiffer = /\/[./]|^[.\s]|[/\s]$|[^ -~]/

class NobodysPath extends Error {}

function plainOrThrow(given: string): string {
  const plain = mayDiffer.test(given) ? plainPath(given) : given
  if (plain === null) throw new NobodysPath()
  return plain
}

/** A text that is not plain becomes an object of both; to an object's texts their plain forms are added. */
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
 * The one spelling of a path, as clients make it before they open it: without space around it, empty parts, `.` and `..`,
 * in composed Unicode. Null for a path that climbs above the root or holds a NUL.
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
