import { climbs, repositoryOf } from '../../../policy/readers/repositories.ts'
import { invalidParams, ToolError } from '../executor.ts'
import { localLink } from './links.ts'

/** A repository as policies read it. The names are in lower case, because GitHub ignores the case. */
export interface Repository {
  readonly owner: string
  readonly repo: string
}

interface Named extends Repository {
  /** The parts of a link that come after the repository; none for `owner/name`. */
  readonly behind: readonly string[]
}

/**
 * Reads a repository of the connection whose pages are at `pages`. Throws ToolError `github_other_host` for a link of
 * another host, and `invalid_params` for a text that names no repository with certainty.
 */
function named(text: string, pages: string): Named {
  const local = localLink(text, pages)
  if (local === null)
    throw new ToolError(
      'github_other_host',
      `the link in \`repo\` leads to another host than the connection: give \`owner/name\`, or a link of \`${pages}\``,
      { retryable: false },
    )
  const [owner, repo] = repositoryOf(local)?.split('/') ?? []
  if (owner === undefined || repo === undefined)
    throw invalidParams(`\`repo\` must be \`owner/name\`, or a link of \`${pages}\` into the repository`)
  const path = local.replace('https://github.com/', '').split(/[?#]/, 1)[0] ?? ''
  return { owner, repo, behind: path.split('/').slice(2) }
}

/** Throws the same errors as `named`. */
export function repositoryAt(text: string, pages: string): Repository {
  const { owner, repo } = named(text, pages)
  return { owner, repo }
}

/** The issue or pull request that `repo` and `number` name together. */
export function issueAt(
  params: { readonly repo: string; readonly number?: number | undefined },
  pages: string,
): Repository & { readonly issue_number: number } {
  const { behind, ...repository } = named(params.repo, pages)
  const [kind = '', digits = ''] = behind
  const linked = /^(?:issues|pull)$/.test(kind) && /^[1-9]\d{0,9}$/.test(digits) ? Number(digits) : undefined
  const issue_number = params.number ?? linked
  if (issue_number === undefined) throw invalidParams('give `number`, or a link with a number as `repo`')
  if (linked !== undefined && linked !== issue_number)
    throw invalidParams('`number` differs from the number in the link: give only one of them')
  return { ...repository, issue_number }
}

/** The file that `repo`, `path` and `ref` name together; `ref` undefined: the main branch. */
export function fileAt(
  params: {
    readonly repo: string
    readonly path?: string | undefined
    readonly ref?: string | undefined
  },
  pages: string,
): Repository & { readonly path: string; readonly ref: string | undefined } {
  const { behind, ...repository } = named(params.repo, pages)
  const [kind = '', linkedRef, ...linkedPath] = behind
  const isLink = (kind === 'blob' || kind === 'raw') && linkedPath.length > 0
  const path = params.path ?? (isLink ? decoded(linkedPath.join('/')) : undefined)
  const ref = params.ref ?? (isLink && linkedRef !== undefined ? decoded(linkedRef) : undefined)
  if (path === undefined) throw invalidParams('give `path`, or a link to a file as `repo`')
  if (climbs(path) || path.startsWith('/'))
    throw invalidParams('`path` must stay in its repository: no `..`, no `/` first')
  if (ref !== undefined && climbs(ref))
    throw invalidParams('`ref` must be the name of a branch or tag, or a commit')
  return { ...repository, path, ref }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalidParams('the link in `repo` has a `%` that encodes nothing: copy it again')
  }
}
