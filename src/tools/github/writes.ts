import { beforeSending, markerOf, withMarker } from '../kit/marker.ts'
import type { FinderOf, ToolBody } from '../kit/params.ts'
import { githubOf } from './client.ts'
import { madeComment, madeIssue, markedComments, markedIssues } from './forms.ts'
import { issueAt, repositoryAt } from './place.ts'

/*
 * GitHub takes no idempotency key. So each text carries the marker of its call. If the answer of a call was lost, the
 * marker is looked for in the list of recent issues or comments. GitHub's search is not used, because new texts appear
 * late in the search.
 */

export const createIssue: ToolBody<'github_create_issue'> = async (call, context) => {
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

export const comment: ToolBody<'github_comment'> = async (call, context) => {
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

export const findIssue: FinderOf<'github_create_issue'> = async (call, context, look) => {
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

export const findComment: FinderOf<'github_comment'> = async (call, context, look) => {
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
