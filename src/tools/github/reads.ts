import { repositoryOf, searchScope } from '../../policy/readers/repositories.ts'
import { defaultsOf } from '../../policy/tool-defaults.ts'
import { invalidParams, ToolError } from '../kit/executor.ts'
import type { ToolBody } from '../kit/params.ts'
import { githubOf } from './client.ts'
import { aFile, anIssue, aRepository, directory, foundCode, issues, pullRequests } from './forms.ts'
import { fileAt, issueAt, repositoryAt } from './place.ts'

/**
 * A list of issues is read from at most this many pages. GitHub lists pull requests among the issues. Pull requests are
 * left out, so one page may have too few issues.
 */
const mostPages = 10

const refused = (code: string, message: string): ToolError =>
  new ToolError(code, message, { retryable: false })

export const searchCode: ToolBody<'github_search_code'> = async (call, context) => {
  const { query, repo, limit = defaultsOf.github_search_code.limit } = call.params
  const scope = searchScope(query)
  // With alternatives or brackets in `query`, the `repo:` that is added below would limit only a part of the query.
  if (repo !== undefined && scope === null)
    throw invalidParams('`query` with `repo` takes words and qualifiers, without OR, NOT and brackets')
  const github = await githubOf(call, context, 'github_search_code')
  const within = repo === undefined ? undefined : repositoryAt(repo, github.pages)
  const only = within === undefined ? null : `${within.owner}/${within.repo}`
  // GitHub would also search every other repository that `query` names. Rules on `repo` have decided only about the
  // repository in `repo`.
  if (only !== null && scope?.names.some((name) => name !== only) === true)
    throw invalidParams(
      '`query` names another repository or an owner: leave it out of `query`, or leave out `repo`',
    )
  const q = only === null ? query : `${query} repo:${only}`
  const found = await github.read(foundCode, (octokit) =>
    octokit.rest.search.code({ q, per_page: limit, mediaType: { format: 'text-match' } }),
  )
  if (found.items.some(({ repository }) => !isWithin(q, repository.full_name)))
    throw refused(
      'github_other_repository',
      'GitHub found code outside of the repositories in the search, such as one with another name now: use its present name',
    )
  const results = found.items.slice(0, limit).map(({ repository, path, html_url: url, text_matches }) => {
    const text = (text_matches ?? []).map(({ fragment }) => fragment ?? '').join('\n')
    return { repo: repository.full_name, path, url, text }
  })
  return { output: { results } }
}

/**
 * Returns whether the search may find this repository. A bounded search (`SearchScope`) may find only the repositories
 * that it names. Rules and policies have decided only about these repositories. Every other search may find any
 * repository.
 */
function isWithin(query: string, found: string): boolean {
  const scope = searchScope(query)
  if (scope === null || !scope.isBounded) return true
  const name = repositoryOf(found)
  return name !== null && (scope.names.includes(name) || scope.names.includes(`${name.split('/', 1)[0]}/*`))
}

export const getFile: ToolBody<'github_get_file'> = async (call, context) => {
  const github = await githubOf(call, context, 'github_get_file')
  const { owner, repo, path, ref } = fileAt(call.params, github.pages)
  const branch =
    ref ??
    (await github.read(aRepository, (octokit) => octokit.rest.repos.get({ owner, repo }))).default_branch
  const found = await github.read(aFile.or(directory), (octokit) =>
    octokit.rest.repos.getContent({ owner, repo, path, ref: branch }),
  )
  if (!('content' in found)) throw refused('github_no_file', '`path` names a folder or a link: name a file')
  if (found.encoding !== 'base64')
    throw refused('github_file_too_large', 'the file is larger than 1 MB, which GitHub does not send as text')
  const text = textOf(Buffer.from(found.content, 'base64'))
  return {
    output: { repo: `${owner}/${repo}`, path: found.path, ref: branch, text, url: found.html_url ?? '' },
    ...(isOfStrangers(branch) ? { labels: ['untrusted'] } : {}),
  }
}

/**
 * Returns whether strangers may have written the content of `ref`. Anybody can open a pull request. If `ref` is the
 * hash of a commit, GitHub also gives commits of forks, and anybody can make a fork.
 */
const isOfStrangers = (ref: string): boolean => /(?:^|\/)pull\/|^[\da-f]{7,64}$/i.test(ref)

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw refused('github_no_text', 'the file is no text in UTF-8: name a text file')
  }
}

export const listIssues: ToolBody<'github_list_issues'> = async (call, context) => {
  const { github_list_issues: defaults } = defaultsOf
  const { state = defaults.state, labels, limit = defaults.limit } = call.params
  // GitHub reads a comma as the end of a label.
  if (labels?.some((label) => label.includes(',')))
    throw invalidParams('a label in `labels` must not have a comma')
  const github = await githubOf(call, context, 'github_list_issues')
  const repository = repositoryAt(call.params.repo, github.pages)
  const asked = labels === undefined || labels.length === 0 ? {} : { labels: labels.join(',') }
  const listed: NonNullable<(typeof issues)['_output'][number]>[] = []
  for (let page = 1; page <= mostPages && listed.length < limit; page += 1) {
    const part = await github.read(issues, (octokit) =>
      octokit.rest.issues.listForRepo({ ...repository, state, ...asked, per_page: 100, page }),
    )
    listed.push(...part.filter((each) => each !== null))
    if (part.length < 100) break
  }
  return { output: { issues: listed.slice(0, limit) } }
}

export const getIssue: ToolBody<'github_get_issue'> = async (call, context) => {
  const github = await githubOf(call, context, 'github_get_issue')
  const place = issueAt(call.params, github.pages)
  return { output: await github.read(anIssue, (octokit) => octokit.rest.issues.get({ ...place })) }
}

export const listPullRequests: ToolBody<'github_list_pull_requests'> = async (call, context) => {
  const { github_list_pull_requests: defaults } = defaultsOf
  const { state = defaults.state, limit = defaults.limit } = call.params
  const github = await githubOf(call, context, 'github_list_pull_requests')
  const repository = repositoryAt(call.params.repo, github.pages)
  const listed = await github.read(pullRequests, (octokit) =>
    octokit.rest.pulls.list({ ...repository, state, per_page: limit }),
  )
  return { output: { pull_requests: listed.slice(0, limit) } }
}
