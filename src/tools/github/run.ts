import { z } from 'zod'
import { repositoryOf, searchScope } from '../../policy/readers/repositories.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import { listOf } from '../kit/exchange.ts'
import {
  invalidParams,
  ToolError,
  type Bodies,
  type FinderOf,
  type StateReaderOf,
  type ToolBody,
} from '../kit/executor.ts'
import { beforeSending, markerOf, withMarker, withoutMarkers } from '../kit/marker.ts'
import { githubOf } from './client.ts'
import { fileAt, issueAt, repositoryAt } from './place.ts'
import { tools } from './tools.ts'

/* The fields that are read in GitHub's answers. Other fields are ignored. */

const labelName = z.union([
  z.string(),
  z.object({ name: z.string().nullish() }).transform(({ name }) => name ?? ''),
])

const common = {
  number: z.int(),
  title: z.string(),
  body: z
    .string()
    .nullish()
    .transform((text) => (typeof text === 'string' ? withoutMarkers(text) : null)),
  labels: listOf(labelName).default([]),
  state: z.string(),
  html_url: z.string(),
}

const issue = z.object(common)
const listed = z.object({ ...common, pull_request: z.unknown().optional() })
const pullRequest = z.object({ ...common, merged_at: z.string().nullish() })

const anIssue = issue.transform(({ html_url: url, ...rest }) => ({ ...rest, url }))
/** GitHub lists pull requests among the issues. This schema turns each pull request into null. */
const issues = listOf(
  listed.transform(({ html_url: url, pull_request, ...rest }) =>
    pull_request === undefined || pull_request === null ? { ...rest, url } : null,
  ),
)
const pullRequests = listOf(
  pullRequest.transform(({ html_url: url, merged_at, ...rest }) => ({
    ...rest,
    merged_at: merged_at ?? null,
    url,
  })),
)

const aFile = z.object({
  type: z.literal('file'),
  path: z.string(),
  encoding: z.string(),
  content: z.string(),
  html_url: z.string().nullish(),
})
const directory = z.union([z.array(z.unknown()), z.object({ type: z.string() })])
const aRepository = z.object({ default_branch: z.string() })

const foundCode = z.object({
  items: listOf(
    z.object({
      path: z.string(),
      html_url: z.string(),
      repository: z.object({ full_name: z.string() }),
      text_matches: listOf(z.object({ fragment: z.string().nullish() })).nullish(),
    }),
  ),
})

const madeIssue = z.object({ number: z.int(), html_url: z.string() })
const madeComment = z.object({ id: z.int(), html_url: z.string() })

const markedIssues = listOf(madeIssue.extend({ body: z.string().nullish(), created_at: z.string() }))
const markedComments = listOf(madeComment.extend({ body: z.string().nullish() }))

/** Pull requests among the issues are left out, so one page may have too few issues. */
const mostListed = 10

const searchCode: ToolBody<'github_search_code'> = async (call, context) => {
  const { query, repo, limit = tools.github_search_code.defaults.limit } = call.params
  const scope = searchScope(query)
  // With alternatives or brackets in `query`, the `repo:` that is added below would limit only a part of the query.
  if (repo !== undefined && scope === null)
    throw invalidParams('`query` with `repo` takes words and qualifiers, without OR, NOT and brackets')
  const github = await githubOf(call, context, 'github_search_code')
  const within = repo === undefined ? undefined : repositoryAt(repo, github.pages)
  const only = within === undefined ? null : `${within.owner}/${within.repo}`
  // GitHub would also search other repositories of `query`, about which no rule on `repo` has decided.
  if (only !== null && scope?.names.some((name) => name !== only) === true)
    throw invalidParams(
      '`query` names another repository or an owner: leave it out of `query`, or leave out `repo`',
    )
  const q = only === null ? query : `${query} repo:${only}`
  const found = await github.read(foundCode, (octokit) =>
    octokit.rest.search.code({ q, per_page: limit, mediaType: { format: 'text-match' } }),
  )
  if (found.items.some(({ repository }) => !isWithin(q, repository.full_name)))
    throw new ToolError(
      'github_other_repository',
      'GitHub found code outside of the repositories in the search, such as one with another name now: use its present name',
    )
  const results = found.items.slice(0, limit).map(({ repository, path, html_url: url, text_matches }) => {
    const text = (text_matches ?? []).map(({ fragment }) => fragment ?? '').join('\n')
    return { repo: repository.full_name, path, url, text }
  })
  return { output: { results } }
}

/** A bounded search (`SearchScope`) finds only its repositories: rules have decided only about these. */
function isWithin(query: string, found: string): boolean {
  const scope = searchScope(query)
  if (scope === null || !scope.isBounded) return true
  const name = repositoryOf(found)
  return name !== null && (scope.names.includes(name) || scope.names.includes(`${name.split('/', 1)[0]}/*`))
}

const getFile: ToolBody<'github_get_file'> = async (call, context) => {
  const github = await githubOf(call, context, 'github_get_file')
  const { owner, repo, path, ref } = fileAt(call.params, github.pages)
  const branch =
    ref ??
    (await github.read(aRepository, (octokit) => octokit.rest.repos.get({ owner, repo }))).default_branch
  const found = await github.read(aFile.or(directory), (octokit) =>
    octokit.rest.repos.getContent({ owner, repo, path, ref: branch }),
  )
  if (!('content' in found))
    throw new ToolError('github_no_file', '`path` names a folder or a link: name a file')
  if (found.encoding !== 'base64')
    throw new ToolError(
      'github_file_too_large',
      'the file is larger than 1 MB, which GitHub does not send as text',
    )
  const text = textOf(Buffer.from(found.content, 'base64'))
  return {
    output: { repo: `${owner}/${repo}`, path: found.path, ref: branch, text, url: found.html_url ?? '' },
    ...(isOfStrangers(branch) ? { labels: ['untrusted'] } : {}),
  }
}

/** Anybody can open a pull request, and GitHub also gives commits of forks by their hash. */
const isOfStrangers = (ref: string): boolean => /(?:^|\/)pull\/|^[\da-f]{7,64}$/i.test(ref)

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new ToolError('github_no_text', 'the file is no text in UTF-8: name a text file')
  }
}

const listIssues: ToolBody<'github_list_issues'> = async (call, context) => {
  const { defaults } = tools.github_list_issues
  const { state = defaults.state, labels, limit = defaults.limit } = call.params
  // GitHub reads a comma as the end of a label.
  if (labels?.some((label) => label.includes(',')))
    throw invalidParams('a label in `labels` must not have a comma')
  const github = await githubOf(call, context, 'github_list_issues')
  const repository = repositoryAt(call.params.repo, github.pages)
  const asked = labels === undefined || labels.length === 0 ? {} : { labels: labels.join(',') }
  const listed: NonNullable<(typeof issues)['_output'][number]>[] = []
  for (let page = 1; page <= mostListed && listed.length < limit; page += 1) {
    const part = await github.read(issues, (octokit) =>
      octokit.rest.issues.listForRepo({ ...repository, state, ...asked, per_page: 100, page }),
    )
    listed.push(...part.filter((each) => each !== null))
    if (part.length < 100) break
  }
  return { output: { issues: listed.slice(0, limit) } }
}

const getIssue: ToolBody<'github_get_issue'> = async (call, context) => {
  const github = await githubOf(call, context, 'github_get_issue')
  const place = issueAt(call.params, github.pages)
  return { output: await github.read(anIssue, (octokit) => octokit.rest.issues.get({ ...place })) }
}

const listPullRequests: ToolBody<'github_list_pull_requests'> = async (call, context) => {
  const { defaults } = tools.github_list_pull_requests
  const { state = defaults.state, limit = defaults.limit } = call.params
  const github = await githubOf(call, context, 'github_list_pull_requests')
  const repository = repositoryAt(call.params.repo, github.pages)
  const listed = await github.read(pullRequests, (octokit) =>
    octokit.rest.pulls.list({ ...repository, state, per_page: limit }),
  )
  return { output: { pull_requests: listed.slice(0, limit) } }
}

/* GitHub takes no idempotency key. Markers are looked for in lists: the search shows new texts late. */

const createIssue: ToolBody<'github_create_issue'> = async (call, context) => {
  const { title, body = '', labels } = call.params
  const github = await githubOf(call, context, 'github_create_issue')
  const repository = repositoryAt(call.params.repo, github.pages)
  const given = {
    ...repository,
    title,
    body: withMarker(body, call),
    ...(labels === undefined ? {} : { labels }),
  }
  await context.pointOfNoReturn()
  const made = await github.write(madeIssue, (octokit) => octokit.rest.issues.create(given))
  return { output: { number: made.number, url: made.html_url } }
}

const comment: ToolBody<'github_comment'> = async (call, context) => {
  const github = await githubOf(call, context, 'github_comment')
  const place = issueAt(call.params, github.pages)
  const body = withMarker(call.params.body, call)
  await context.pointOfNoReturn()
  const made = await github.write(madeComment, (octokit) =>
    octokit.rest.issues.createComment({ ...place, body }),
  )
  return { output: { id: made.id, url: made.html_url } }
}

/** A finder reads at most this many pages of 100 entries. */
const mostPages = 10

const findIssue: FinderOf<'github_create_issue'> = async (call, context, look) => {
  const github = await githubOf(call, context, 'github_create_issue')
  const repository = repositoryAt(call.params.repo, github.pages)
  const since = beforeSending(look)
  const marker = markerOf(call)
  for (let page = 1; page <= mostPages; page += 1) {
    const listed = await github.read(markedIssues, (octokit) =>
      octokit.rest.issues.listForRepo({
        ...repository,
        state: 'all',
        sort: 'created',
        direction: 'desc',
        since: since.toISOString(),
        per_page: 100,
        page,
      }),
    )
    const found = listed.find(({ body }) => body?.includes(marker))
    if (found !== undefined) return { kind: 'done', output: { number: found.number, url: found.html_url } }
    const isAll = listed.length < 100 || listed.some((each) => Date.parse(each.created_at) < since.getTime())
    if (isAll) return { kind: 'absent' }
  }
  return { kind: 'unclear' }
}

const findComment: FinderOf<'github_comment'> = async (call, context, look) => {
  const github = await githubOf(call, context, 'github_comment')
  const place = issueAt(call.params, github.pages)
  const since = beforeSending(look).toISOString()
  const marker = markerOf(call)
  for (let page = 1; page <= mostPages; page += 1) {
    const listed = await github.read(markedComments, (octokit) =>
      octokit.rest.issues.listComments({ ...place, since, per_page: 100, page }),
    )
    const found = listed.find(({ body }) => body?.includes(marker))
    if (found !== undefined) return { kind: 'done', output: { id: found.id, url: found.html_url } }
    if (listed.length < 100) return { kind: 'absent' }
  }
  return { kind: 'unclear' }
}

const issueState = z.object({ title: z.string(), state: z.string(), html_url: z.string() })

/** Only title and state change the revision: `updated_at` changes with every comment and label. */
const readIssueState: StateReaderOf<'github_comment'> = async (call, context) => {
  const github = await githubOf(call, context, 'github_comment')
  const place = issueAt(call.params, github.pages)
  const {
    title,
    state,
    html_url: link,
  } = await github.read(issueState, (octokit) => octokit.rest.issues.get({ ...place }))
  return {
    revision: hashOf({ title, state }),
    fields: { 'title of the issue': title, 'state of the issue': state, link },
  }
}

export const run = {
  github_search_code: { body: searchCode },
  github_get_file: { body: getFile },
  github_list_issues: { body: listIssues },
  github_get_issue: { body: getIssue },
  github_list_pull_requests: { body: listPullRequests },
  github_create_issue: { body: createIssue, find: findIssue },
  github_comment: { body: comment, find: findComment, state: readIssueState },
} satisfies Bodies<typeof tools>
