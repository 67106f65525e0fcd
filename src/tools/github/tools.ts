import { z } from 'zod'
import { quoted } from '../kit/preview.ts'
import { repositoryOf } from '../../policy/readers/repositories.ts'
import { issuesPage } from './pages.ts'
import { byName, defineTool, findable, textMark } from '../kit/tool.ts'

const repo = z
  .string()
  .min(1)
  .max(1000)
  .describe(
    '`owner/name`, or a link into the repository such as `https://github.com/acme/app/issues/7`, of the host of the connection.',
  )
const number = z
  .int()
  .min(1)
  .optional()
  .describe('The number. It may be absent if `repo` is a link that names it.')
const limit = z.int().min(1).max(100).optional().describe('Maximum number of results; default 30.')
const state = z.enum(['open', 'closed', 'all']).optional().describe('Default `open`.')
const labels = z.array(z.string().min(1).max(100)).max(100)
const title = z.string().min(1).max(256)
/** GitHub accepts 65,536 characters. 100 characters are left for a marker. */
const body = z.string().max(65_436)
const url = z.string()

const issue = z.strictObject({
  number: z.int(),
  title: z.string(),
  body: z.string().nullable(),
  labels: z.array(z.string()),
  state: z.string(),
  url,
})
const pullRequest = issue.extend({ merged_at: z.string().nullable().describe('ISO 8601; null: not merged.') })

const common = { connection: 'github', timeoutSeconds: 60 } as const
/** Anybody who may open an issue writes its title and text, so these texts are `untrusted`. */
const writtenByOthers = ['internal', 'untrusted']
const reads = {
  ...common,
  sideEffect: 'read',
  categories: [],
  risk: 'medium',
  repeat: 'free',
  reversible: 'yes',
} as const
const readsOneRepo = { allowed_repos: { repo: 'repository' }, max_response_size_kb: {} } as const

/** `github_create_issue` and `github_comment` add it. */
const hiddenComment = textMark('a comment at the end of its text, which only those who edit it see')

export const tools = byName(
  defineTool({
    ...reads,
    name: 'github_search_code',
    description: 'Searches code in GitHub repositories.',
    outputLabels: ['internal'],
    params: z.strictObject({
      query: z
        .string()
        .min(1)
        .max(256)
        .describe('Words and qualifiers of GitHub’s code search, e.g. `parseDate language:ts`.'),
      repo: repo.optional().describe('Searches in this repository; written like `repo` of the other tools.'),
      limit,
    }),
    places: { repo: 'repository' },
    defaults: { limit: 30 },
    freeTexts: ['query'],
    output: z.strictObject({
      results: z.array(z.strictObject({ repo: z.string(), path: z.string(), url, text: z.string() })),
    }),
    constraints: {
      allowed_repos: { repo: 'repository', query: 'search' },
      max_response_size_kb: {},
    },
  }),

  defineTool({
    ...reads,
    name: 'github_get_file',
    description: 'Reads one text file of a GitHub repository.',
    outputLabels: ['internal'],
    params: z.strictObject({
      repo,
      path: z
        .string()
        .min(1)
        .max(4096)
        .optional()
        .describe(
          'Path in the repository, e.g. `src/main.ts`. It may be absent if `repo` is a link to the file.',
        ),
      ref: z.string().min(1).max(255).optional().describe('Branch, tag or commit; default: the main branch.'),
    }),
    places: { repo: 'repository' },
    linked: ['path', 'ref'],
    freeTexts: ['path', 'ref'],
    output: z.strictObject({ repo: z.string(), path: z.string(), ref: z.string(), text: z.string(), url }),
    constraints: {
      allowed_repos: { repo: 'repository', path: 'path', ref: 'path' },
      max_response_size_kb: {},
    },
  }),

  defineTool({
    ...reads,
    name: 'github_list_issues',
    description: 'Lists issues of a GitHub repository.',
    outputLabels: writtenByOthers,
    params: z.strictObject({
      repo,
      state,
      labels: labels.optional().describe('Only issues that have all of these labels.'),
      limit,
    }),
    places: { repo: 'repository' },
    defaults: { state: 'open', limit: 30 },
    freeTexts: ['labels'],
    output: z.strictObject({ issues: z.array(issue) }),
    constraints: readsOneRepo,
  }),

  defineTool({
    ...reads,
    name: 'github_get_issue',
    description: 'Reads one issue of a GitHub repository.',
    outputLabels: writtenByOthers,
    params: z.strictObject({ repo, number }),
    places: { repo: 'repository' },
    linked: ['number'],
    output: issue,
    constraints: readsOneRepo,
  }),

  defineTool({
    ...reads,
    name: 'github_list_pull_requests',
    description: 'Lists pull requests of a GitHub repository.',
    outputLabels: writtenByOthers,
    params: z.strictObject({ repo, state, limit }),
    places: { repo: 'repository' },
    defaults: { state: 'open', limit: 30 },
    output: z.strictObject({ pull_requests: z.array(pullRequest) }),
    constraints: readsOneRepo,
  }),

  defineTool({
    ...common,
    name: 'github_create_issue',
    description: 'Creates an issue in a GitHub repository.',
    sideEffect: 'write',
    reversible: 'by hand',
    preview: (params) => ({ title: `Create the issue ${quoted(params.title)} in ${params.repo}` }),
    outputLabels: [],
    params: z.strictObject({
      repo,
      title,
      body: body.optional().describe('The text, as Markdown.'),
      labels: labels.optional(),
    }),
    places: { repo: 'repository' },
    freeTexts: ['title', 'body', 'labels'],
    output: z.strictObject({ number: z.int(), url }),
    // The call counts as a public write, because the repository may be public.
    categories: ['public_writes'],
    risk: 'medium',
    constraints: {
      allowed_repos: { repo: 'repository' },
      max_message_length: { title: 'message', body: 'message' },
      read_only: {},
    },
    ...findable,
    mark: hiddenComment,
    pageOf: ({ repo }, base) => issuesPage({ repo: repositoryOf(repo) ?? '' }, base),
  }),

  defineTool({
    ...common,
    name: 'github_comment',
    description: 'Comments on an issue or a pull request of a GitHub repository.',
    sideEffect: 'egress',
    reversible: 'no',
    precondition: { of: 'the title or state of the issue', check: 'before' },
    preview: (params) => ({
      title: `Comment on ${params.repo}${params.number === undefined ? '' : `#${params.number}`}`,
    }),
    outputLabels: [],
    params: z.strictObject({ repo, number, body: body.min(1).describe('The comment, as Markdown.') }),
    places: { repo: 'repository' },
    linked: ['number'],
    freeTexts: ['body'],
    output: z.strictObject({ id: z.int(), url }),
    categories: ['public_writes'],
    risk: 'medium',
    constraints: {
      allowed_repos: { repo: 'repository' },
      max_message_length: { body: 'message' },
      read_only: {},
    },
    ...findable,
    mark: hiddenComment,
    pageOf: issuesPage,
  }),
)
