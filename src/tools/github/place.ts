import { climbs, type LinkedInside, linkedInside, repositoryOf } from '../../policy/readers/repositories.ts'
import { invalidParams, ToolError } from '../kit/executor.ts'

/* Policies read only links to github.com, but a connection may lead to another host (GitHub Enterprise). */

const linkStart = /^(?:(https?:)\/\/)?((?:[a-z\d-]+\.)*[a-z\d-]+(?::\d+)?|\[[\da-f:]+\](?::\d+)?)(?=[/?#]|$)/i

/**
 * A link to `pages` becomes one to github.com, as policies read it; null for another host. `owner/name` stays
 * as it is: its first part has neither a dot nor a colon, so it is no host.
 */
function localLink(text: string, pages: string): string | null {
  const { protocol, host } = new URL(pages)
  const [start = '', scheme = protocol, of = ''] = linkStart.exec(text) ?? []
  if (!/[.:]/.test(start)) return text
  const linked = of.toLowerCase()
  if ((host === 'github.com' ? linked.replace(/^www\./, '') : linked) !== host) return null
  return scheme.toLowerCase() === protocol ? `https://github.com${text.slice(start.length)}` : text
}

/** As policies read it: in lower case, because GitHub ignores the case. */
export interface Repository {
  readonly owner: string
  readonly repo: string
}

interface Named extends Repository {
  readonly inside: LinkedInside
}

/** Throws ToolError `github_other_host`, or `invalid_params` if it is unclear which repository is meant. */
function named(text: string, pages: string): Named {
  const local = localLink(text, pages)
  if (local === null)
    throw new ToolError(
      'github_other_host',
      `the link in \`repo\` leads to another host than the connection: give \`owner/name\`, or a link of \`${pages}\``,
    )
  const [owner, repo] = repositoryOf(local)?.split('/') ?? []
  if (owner === undefined || repo === undefined)
    throw invalidParams(`\`repo\` must be \`owner/name\`, or a link of \`${pages}\` into the repository`)
  return { owner, repo, inside: linkedInside(local) }
}

/** Throws the same errors as `named`. */
export function repositoryAt(text: string, pages: string): Repository {
  const { owner, repo } = named(text, pages)
  return { owner, repo }
}

/** `repo` may be a link that has the number. */
export function issueAt(
  params: { readonly repo: string; readonly number?: number | undefined },
  pages: string,
): Repository & { readonly issue_number: number } {
  const { inside, ...repository } = named(params.repo, pages)
  const linked = inside.number
  const issue_number = params.number ?? linked
  if (issue_number === undefined) throw invalidParams('give `number`, or a link with a number as `repo`')
  if (linked !== undefined && linked !== issue_number)
    throw invalidParams('`number` differs from the number in the link: give only one of them')
  return { ...repository, issue_number }
}

/** `ref` is undefined for the default branch. */
export function fileAt(
  params: {
    readonly repo: string
    readonly path?: string | undefined
    readonly ref?: string | undefined
  },
  pages: string,
): Repository & { readonly path: string; readonly ref: string | undefined } {
  const { inside, ...repository } = named(params.repo, pages)
  const path = params.path ?? inside.path
  const ref = params.ref ?? inside.ref
  if (path === null || ref === null)
    throw invalidParams('the link in `repo` has a `%` that encodes nothing: copy it again')
  if (path === undefined) throw invalidParams('give `path`, or a link to a file as `repo`')
  if (climbs(path)) throw invalidParams('`path` must stay in its repository: no `..`')
  // Rules compare the path as text, so a path must have only one spelling.
  if (path.split('/').some((part) => part === '' || part === '.'))
    throw invalidParams('`path` must be plain: no `.` as a part, no `//`, no `/` at its ends')
  if (ref !== undefined && climbs(ref))
    throw invalidParams('`ref` must be the name of a branch or tag, or a commit')
  return { ...repository, path, ref }
}
