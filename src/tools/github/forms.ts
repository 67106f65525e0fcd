import { z } from 'zod'
import { listOf } from '../kit/bounded-list.ts'
import { withoutMarkers } from '../kit/marker.ts'

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

export const anIssue = issue.transform(({ html_url: url, ...rest }) => ({ ...rest, url }))
/** GitHub lists pull requests among the issues. This schema turns each pull request into null. */
export const issues = listOf(
  listed.transform(({ html_url: url, pull_request, ...rest }) =>
    pull_request === undefined || pull_request === null ? { ...rest, url } : null,
  ),
)
export const pullRequests = listOf(
  pullRequest.transform(({ html_url: url, merged_at, ...rest }) => ({
    ...rest,
    merged_at: merged_at ?? null,
    url,
  })),
)

export const aFile = z.object({
  type: z.literal('file'),
  path: z.string(),
  encoding: z.string(),
  content: z.string(),
  html_url: z.string().nullish(),
})
export const directory = z.union([z.array(z.unknown()), z.object({ type: z.string() })])
export const aRepository = z.object({ default_branch: z.string() })

export const foundCode = z.object({
  items: listOf(
    z.object({
      path: z.string(),
      html_url: z.string(),
      repository: z.object({ full_name: z.string() }),
      text_matches: listOf(z.object({ fragment: z.string().nullish() })).nullish(),
    }),
  ),
})

export const madeIssue = z.object({ number: z.int(), html_url: z.string() })
export const madeComment = z.object({ id: z.int(), html_url: z.string() })

/** Schemas of the lists in which a finder looks for the marker of a call. */
export const markedIssues = listOf(madeIssue.extend({ body: z.string().nullish(), created_at: z.string() }))
export const markedComments = listOf(madeComment.extend({ body: z.string().nullish() }))
