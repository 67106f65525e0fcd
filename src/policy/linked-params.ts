import { asGithubLink, linkedInside } from './readers/repositories.ts'
import type { CallSource } from './types.ts'
import { Hole, isList, type Partial } from './values.ts'

/**
 * For each catalogue tool that accepts a link in the parameter `repo`: the parameters that this link can give. Example:
 * the link `https://github.com/acme/app/issues/7` gives the `number` 7.
 */
const linkedBy: ReadonlyMap<string, readonly ('number' | 'path' | 'ref')[]> = new Map([
  ['github_get_file', ['path', 'ref']],
  ['github_get_issue', ['number']],
  ['github_comment', ['number']],
])

/**
 * Whether a text with this beginning may be a link. Returns false for a text that begins like `owner/name`. An owner
 * has no dot and no colon, but a host or a scheme has one.
 */
const mayBeLink = (prefix: string): boolean => !/^[^.:/]*\//.test(prefix)

/**
 * Returns the parameters as the tool reads them. If a call leaves out the issue or the file, the tool takes it from the
 * link in `repo`. Rules must see these parameters too. An unknown `repo` may be such a link. Then each of these
 * parameters that the call leaves out counts as unknown.
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
    return {
      ...params,
      ...Object.fromEntries(missing.map((name) => [name, new Hole(null, { from: repo.from })])),
    }
  }
  const linked = typeof repo === 'string' ? linkedInside(asGithubLink(repo)) : {}
  const found = missing.flatMap((name) => {
    const value = linked[name] ?? null
    return value === null ? [] : [[name, value] as const]
  })
  return found.length === 0 ? params : { ...params, ...Object.fromEntries(found) }
}
