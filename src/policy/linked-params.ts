import { asGithubLink, linkedInside } from './readers/repositories.ts'
import type { CallSource } from './types.ts'
import { Hole, isList, type Partial } from './values.ts'

/** Parameters that a link in `repo` can name as well, by tool of the catalogue. */
const linkedBy: ReadonlyMap<string, readonly ('number' | 'path' | 'ref')[]> = new Map([
  ['github_get_file', ['path', 'ref']],
  ['github_get_issue', ['number']],
  ['github_comment', ['number']],
])

/** False for the start of `owner/name`: an owner has neither a dot nor a colon, and a host or a scheme has one. */
const mayBeLink = (prefix: string): boolean => !/^[^.:/]*\//.test(prefix)

/**
 * The parameters as the tool reads them. If a call leaves out the issue or the file, a link in `repo` names it, and
 * rules must see it. While `repo` is unknown, it may be such a link.
 */
export function withLinked(tool: string, source: CallSource, params: Partial): Partial {
  const names = source === 'workflows' ? linkedBy.get(tool) : undefined
  if (names === undefined || typeof params !== 'object' || params === null) return params
  if (params instanceof Hole || isList(params)) return params
  const own = (name: string): Partial => (Object.hasOwn(params, name) ? (params[name] ?? null) : null)
  const repo = own('repo')
  // A parameter that is null counts as left out.
  const missing = names.filter((name) => own(name) === null)
  if (repo instanceof Hole) {
    if (!mayBeLink(repo.prefix ?? '')) return params
    return { ...params, ...Object.fromEntries(missing.map((name) => [name, new Hole(null, repo.from)])) }
  }
  const linked = typeof repo === 'string' ? linkedInside(asGithubLink(repo)) : {}
  const found = missing.flatMap((name) => {
    const value = linked[name] ?? null
    return value === null ? [] : [[name, value] as const]
  })
  return found.length === 0 ? params : { ...params, ...Object.fromEntries(found) }
}
