import { linkedInside, repositoryOf } from '../../policy/readers/repositories.ts'

/* The web pages of a connection, for the declarations of tools too: it imports nothing that runs calls. */

/** Example: `https://api.github.com` becomes `https://github.com`. */
export function pagesOf(base: string): string {
  const { protocol, host } = new URL(base)
  // On github.com and ghe.com, the host of the API is the host of the pages with `api.` before it.
  const isApart = /^api\.(?:github\.com|[a-z\d-]+\.ghe\.com)$/.test(host)
  return `${protocol}//${isApart ? host.slice('api.'.length) : host}`
}

/** The issues of the repository, or the one that `number` or a link names. null: `repo` names no repository of github.com. */
export function issuesPage(
  { repo, number }: { readonly repo: string; readonly number?: number | undefined },
  base: string,
): string | null {
  const repository = repositoryOf(repo)
  if (repository === null) return null
  const issue = number ?? linkedInside(repo).number
  return `${pagesOf(base)}/${repository}/issues${issue === undefined ? '' : `/${issue}`}`
}
