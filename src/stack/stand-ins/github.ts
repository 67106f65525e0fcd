import { newestComment, textOf, type Keeper, type KeptIssue } from './kept.ts'

/* The requests of GitHub's API that our tools send. Every repository exists, with one file and what was posted to it. */

export interface Answer {
  readonly status: number
  readonly body: unknown
}

export interface Request {
  readonly method: string
  /** Below the address of the stand-in. */
  readonly path: string
  readonly query: URLSearchParams
  readonly body: Readonly<Record<string, unknown>>
}

const ok = (body: unknown, status = 200): Answer => ({ status, body })
const notFound: Answer = { status: 404, body: { message: 'Not Found' } }
const readme = 'This repository is a stand-in on this machine, for development. It has this file alone.\n'

/** `pages`: where the page of the stand-ins is. */
export function answerGitHub(keeper: Keeper, pages: string, request: Request): Answer {
  const { method, path } = request
  if (path === '/user') return ok({ login: 'stand-in' })
  if (path === '/search/code') return ok({ total_count: 0, incomplete_results: false, items: [] })
  const [, owner, name, rest = ''] = /^\/repos\/([\w.-]+)\/([\w.-]+)(\/.*)?$/.exec(path) ?? []
  if (owner === undefined || name === undefined) return notFound
  const repo = `${owner}/${name}`
  if (rest === '') return ok({ full_name: repo, default_branch: 'main' })
  if (rest === '/pulls') return ok([])
  if (rest === '/contents/README.md') return ok(fileOf(`${pages}/${repo}`))
  if (rest === '/issues')
    return method === 'POST' ? create(keeper, pages, repo, request) : ok(list(keeper, pages, repo, request))
  const [, number, comments] = /^\/issues\/(\d{1,9})(\/comments)?$/.exec(rest) ?? []
  const issue = keeper.kept.issues.find((each) => each.repo === repo && each.number === Number(number))
  if (issue === undefined) return notFound
  if (comments === undefined) return ok(shown(pages, issue))
  return method === 'POST'
    ? addComment(keeper, pages, issue, request)
    : ok(pageOf(request, commentsOf(pages, issue)))
}

const fileOf = (page: string) => ({
  type: 'file',
  path: 'README.md',
  encoding: 'base64',
  content: Buffer.from(readme).toString('base64'),
  html_url: page,
})

const linkOf = (pages: string, { repo, number }: KeptIssue): string => `${pages}/${repo}/issues/${number}`

const shown = (pages: string, issue: KeptIssue) => ({
  number: issue.number,
  title: issue.title,
  body: issue.body,
  labels: issue.labels.map((name) => ({ name })),
  state: 'open',
  created_at: issue.created_at,
  html_url: linkOf(pages, issue),
})

function create(keeper: Keeper, pages: string, repo: string, { body }: Request): Answer {
  const { issues } = keeper.kept
  const last = issues.findLast((each) => each.repo === repo)
  const issue: KeptIssue = {
    repo,
    number: (last?.number ?? 0) + 1,
    title: textOf(body['title']),
    body: textOf(body['body']),
    labels: Array.isArray(body['labels'])
      ? body['labels'].slice(0, 100).map((each) => String(each).slice(0, 100))
      : [],
    created_at: new Date().toISOString(),
    comments: [],
  }
  issues.push(issue)
  keeper.save()
  return ok(shown(pages, issue), 201)
}

/** Newest first. None is closed. */
function list({ kept }: Keeper, pages: string, repo: string, request: Request) {
  const labels = (request.query.get('labels') ?? '').split(',').filter((each) => each !== '')
  if (request.query.get('state') === 'closed') return []
  const found = kept.issues.filter(
    (each) => each.repo === repo && labels.every((label) => each.labels.includes(label)),
  )
  return pageOf(request, found.toReversed()).map((issue) => shown(pages, issue))
}

const commentsOf = (pages: string, issue: KeptIssue) =>
  issue.comments.map((each) => ({ ...each, html_url: `${linkOf(pages, issue)}#comment-${each.id}` }))

function addComment(keeper: Keeper, pages: string, issue: KeptIssue, { body }: Request): Answer {
  const made = {
    id: newestComment(keeper.kept) + 1,
    body: textOf(body['body']),
    created_at: new Date().toISOString(),
  }
  issue.comments.push(made)
  keeper.save()
  return ok(commentsOf(pages, issue).at(-1), 201)
}

function pageOf<T>({ query }: Request, all: readonly T[]): readonly T[] {
  const [size, page] = [Number(query.get('per_page')) || 30, Number(query.get('page')) || 1]
  return all.slice((page - 1) * size, page * size)
}
