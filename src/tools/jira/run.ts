import { z } from 'zod'
import { hashOf } from '../../shared/canonical-json.ts'
import { attachedOf, withFile, withoutComment, type Attached } from '../kit/attachment.ts'
import { listOf } from '../kit/exchange.ts'
import { ToolError, type Bodies, type FinderOf, type StateReaderOf, type ToolBody } from '../kit/executor.ts'
import { beforeSending, markOf } from '../kit/marker.ts'
import { jiraOf, type Jira } from './client.ts'
import { tools } from './tools.ts'

/** Keys go into links and back into requests. */
const key = z.string().regex(/^[A-Z][A-Z\d_]{0,254}-\d{1,10}$/)
const id = z.string().regex(/^\d{1,19}$/)
const madeIssue = z.object({ key })
const madeComment = z.object({ id })
const listedFields = { summary: z.string(), status: z.object({ name: z.string() }) }

/** Holds the mark of a call, on the issue or comment that it has made. */
const markProperty = 'countersign.call'
const mark = z.object({ id: z.string() })
const anIssue = z.object({ key, fields: z.object({ ...listedFields, description: z.string().nullish() }) })
const aProject = z.object({ id, key: z.string().regex(/^[A-Z][A-Z\d_]{0,254}$/), name: z.string() })
const foundIssues = z.object({
  issues: listOf(z.object({ key, fields: z.object(listedFields) })),
  nextPageToken: z.string().max(10_000).nullish(),
})
const markedIssues = z.object({
  issues: listOf(
    z.object({
      key,
      // With other contents it is not from Countersign.
      properties: z.object({ [markProperty]: mark.optional().catch(undefined) }).nullish(),
    }),
  ),
  nextPageToken: z.string().max(10_000).nullish(),
})

const madeFiles = z.array(z.unknown()).length(1)

/** The newest comments come first. */
const listedComments = z.object({ comments: listOf(z.object({ id, created: z.string() })), total: z.int() })
const markedComments = z.object({
  values: listOf(
    z.object({
      id,
      properties: z
        .array(z.unknown())
        .max(100)
        .transform((all) => all.map((each) => commentMark.safeParse(each).data))
        .nullish(),
    }),
  ),
})
const commentMark = z.object({ key: z.literal(markProperty), value: mark })

/** Jira allows fewer than 10,000 files for one issue. */
const withFiles = z.object({
  fields: z.object({ attachment: listOf(z.object({ filename: z.string(), created: z.string() }), 10_000) }),
})

/** In the Atlassian Document Format, nothing is read as markup, so it mentions and notifies nobody. */
interface JiraDocument {
  readonly type: 'doc'
  readonly version: 1
  readonly content: readonly { readonly type: 'paragraph'; readonly content: readonly Inline[] }[]
}
type Inline = { readonly type: 'text'; readonly text: string } | { readonly type: 'hardBreak' }

/** Empty lines separate paragraphs. */
function documentOf(text: string): JiraDocument {
  const paragraphs = text.replaceAll(/\r\n?/g, '\n').split(/\n{2,}/)
  return {
    type: 'doc',
    version: 1,
    content: paragraphs.map((each) => ({ type: 'paragraph', content: each.split('\n').flatMap(lineOf) })),
  }
}

/** Jira refuses empty texts. */
const lineOf = (text: string, index: number): Inline[] => [
  ...(index === 0 ? [] : [{ type: 'hardBreak' } as const]),
  ...(text === '' ? [] : [{ type: 'text', text } as const]),
]

/** Jira may give fewer entries on a page than were asked for. */
const mostPages = 10

const search: ToolBody<'jira_search'> = async (call, context) => {
  const { query: jql, limit = tools.jira_search.defaults.limit } = call.params
  const jira = await jiraOf(call, context, 'jira_search')
  const issues: { key: string; summary: string; status: string; url: string }[] = []
  let nextPageToken: string | undefined
  for (let page = 1; page <= mostPages && issues.length < limit; page += 1) {
    const asked = jira.read(foundIssues, {
      method: 'POST',
      path: '/rest/api/3/search/jql',
      body: {
        jql,
        maxResults: limit - issues.length,
        fields: ['summary', 'status'],
        ...(nextPageToken === undefined ? {} : { nextPageToken }),
      },
    })
    const found = await asked.catch((error: unknown) => {
      throw ofQuery(error)
    })
    for (const { key, fields } of found.issues)
      issues.push({ key, summary: fields.summary, status: fields.status.name, url: jira.pageOf(key) })
    if (found.nextPageToken === undefined || found.nextPageToken === null) break
    nextPageToken = found.nextPageToken
  }
  return { output: { issues: issues.slice(0, limit) } }
}

function ofQuery(error: unknown): unknown {
  if (!(error instanceof ToolError) || error.code !== 'jira_refused') return error
  const message =
    'Jira does not take this `query`: write JQL with at least one condition, such as `project = OPS AND status = Open`, ' +
    'and only names that the site has'
  return new ToolError('jira_refused', message, { cause: error })
}

/** Throws `jira_moved` for a former key, which Jira finds too. Version 2 of the API gives wiki markup. */
async function issueCalled(
  jira: Jira,
  text: string,
  fields = 'summary,status',
): Promise<z.output<typeof anIssue>> {
  const asked = jira.issueAt(text)
  const issue = await jira.read(anIssue, {
    method: 'GET',
    path: `/rest/api/2/issue/${asked}`,
    query: { fields },
  })
  jira.requireSame('issue', asked, issue.key)
  return issue
}

/** Jira also finds a project by a former key: then throws `jira_moved`. */
async function projectCalled(jira: Jira, text: string): Promise<z.output<typeof aProject>> {
  const asked = jira.projectAt(text)
  const project = await jira.read(aProject, { method: 'GET', path: `/rest/api/3/project/${asked}` })
  jira.requireSame('project', asked, project.key)
  return project
}

const getIssue: ToolBody<'jira_get_issue'> = async (call, context) => {
  const jira = await jiraOf(call, context, 'jira_get_issue')
  const { key, fields } = await issueCalled(jira, call.params.issue, 'summary,status,description')
  const { summary, status, description } = fields
  return {
    output: { key, summary, status: status.name, url: jira.pageOf(key), description: description ?? null },
  }
}

/* Jira takes no idempotency key, so a call leaves its mark in a property, which people do not see. */

const createIssue: ToolBody<'jira_create_issue'> = async (call, context) => {
  const { summary, description, type = tools.jira_create_issue.defaults.type, labels } = call.params
  const jira = await jiraOf(call, context, 'jira_create_issue')
  // Rules have judged this key. Under a former one, which is refused, the issue would be in another project.
  const { id } = await projectCalled(jira, call.params.project)
  const fields = {
    project: { id },
    summary,
    issuetype: { name: type },
    ...(description === undefined || description === '' ? {} : { description: documentOf(description) }),
    ...(labels === undefined ? {} : { labels }),
  }
  await context.pointOfNoReturn()
  const { key } = await jira.write(madeIssue, {
    method: 'POST',
    path: '/rest/api/3/issue',
    body: { fields, properties: [{ key: markProperty, value: { id: markOf(call) } }] },
  })
  return { output: { key, url: jira.pageOf(key) } }
}

/** The search finds a new issue only after minutes, so the result is `unclear`, and in the end a person decides. */
const findIssue: FinderOf<'jira_create_issue'> = async (call, context, look) => {
  const jira = await jiraOf(call, context, 'jira_create_issue')
  const minutes = Math.ceil((Date.now() - beforeSending(look).getTime()) / 60_000)
  const jql =
    `project = "${jira.projectAt(call.params.project)}" AND creator = currentUser() ` +
    `AND created >= "-${minutes}m" ORDER BY created DESC`
  let nextPageToken: string | null | undefined
  for (let page = 1; page <= mostPages; page += 1) {
    const listed = await jira.read(markedIssues, {
      method: 'POST',
      path: '/rest/api/3/search/jql',
      body: {
        jql,
        maxResults: 100,
        fields: ['summary'],
        properties: [markProperty],
        ...(nextPageToken === undefined ? {} : { nextPageToken }),
      },
    })
    const found = listed.issues.find(({ properties }) => properties?.[markProperty]?.id === markOf(call))
    if (found !== undefined) return { kind: 'done', output: { key: found.key, url: jira.pageOf(found.key) } }
    nextPageToken = listed.nextPageToken ?? null
    if (nextPageToken === null) break
  }
  return { kind: 'unclear' }
}

const urlOf = (jira: Jira, key: string, id: string): string => `${jira.pageOf(key)}?focusedCommentId=${id}`

const comment: ToolBody<'jira_comment'> = async (call, context) => {
  const attached = attachedOf(call.params)
  const jira = await jiraOf(call, context, 'jira_comment')
  // Rules decided about the key. Under a former key, Jira would add the comment to another issue.
  const { key } = await issueCalled(jira, call.params.issue)
  const body = documentOf(call.params.text)
  await context.pointOfNoReturn()
  const { id } = await withFile('Jira', attached, attach, () =>
    jira.write(madeComment, {
      method: 'POST',
      path: `/rest/api/3/issue/${key}/comment`,
      body: { body, properties: [{ key: markProperty, value: { id: markOf(call) } }] },
    }),
  )
  return { output: { id, url: urlOf(jira, key, id) } }

  function attach({ name, file }: Attached): Promise<unknown> {
    const form = new FormData()
    form.append('file', file, name)
    return jira.write(madeFiles, {
      method: 'POST',
      path: `/rest/api/3/issue/${key}/attachments`,
      body: form,
      // Jira refuses an upload without this header.
      headers: { 'x-atlassian-token': 'no-check' },
    })
  }
}

const findComment: FinderOf<'jira_comment'> = async (call, context, look) => {
  const attached = attachedOf(call.params)
  const jira = await jiraOf(call, context, 'jira_comment')
  const key = jira.issueAt(call.params.issue)
  const since = beforeSending(look).getTime()
  let seen = 0
  for (let page = 0; page < mostPages; page += 1) {
    const { comments, total } = await jira.read(listedComments, {
      method: 'GET',
      path: `/rest/api/3/issue/${key}/comment`,
      query: { orderBy: '-created', startAt: seen, maxResults: 100 },
    })
    const recent = comments.filter(({ created }) => !(Date.parse(created) < since))
    const found = await markedAmong(recent.map(({ id }) => id))
    if (found !== undefined) return { kind: 'done', output: { id: found, url: urlOf(jira, key, found) } }
    seen += comments.length
    // A short page need not be the last. After a comment older than the call, none of the call can follow.
    if (seen >= total || recent.length < comments.length) return withoutComment(attached, since, filesOf)
    if (comments.length === 0) break
  }
  return { kind: 'unclear' }

  /** The list of comments does not show properties. */
  async function markedAmong(ids: readonly string[]): Promise<string | undefined> {
    if (ids.length === 0) return undefined
    const { values } = await jira.read(markedComments, {
      method: 'POST',
      path: '/rest/api/3/comment/list',
      query: { expand: 'properties' },
      body: { ids: ids.map(Number) },
    })
    const mark = markOf(call)
    return values.find(({ properties }) => properties?.some((each) => each?.value.id === mark))?.id
  }

  async function filesOf() {
    const { fields } = await jira.read(withFiles, {
      method: 'GET',
      path: `/rest/api/3/issue/${key}`,
      query: { fields: 'attachment' },
    })
    return fields.attachment.map(({ filename: name, created: date }) => ({ name, date }))
  }
}

/** For the approvers of a comment. Jira's `updated` changes with every comment, so it is not part of the revision. */
const readIssueState: StateReaderOf<'jira_comment'> = async (call, context) => {
  const jira = await jiraOf(call, context, 'jira_comment')
  const { key, fields } = await issueCalled(jira, call.params.issue)
  const { summary, status } = fields
  return {
    revision: hashOf({ key, summary, status: status.name }),
    fields: { 'summary of the issue': summary, 'status of the issue': status.name, link: jira.pageOf(key) },
  }
}

const readProjectState: StateReaderOf<'jira_create_issue'> = async (call, context) => {
  const jira = await jiraOf(call, context, 'jira_create_issue')
  const { id, key, name } = await projectCalled(jira, call.params.project)
  return {
    revision: hashOf({ id, key, name }),
    fields: { 'name of the project': name, link: jira.pageOf(key) },
  }
}

export const run = {
  jira_search: { body: search },
  jira_get_issue: { body: getIssue },
  jira_create_issue: { body: createIssue, find: findIssue, state: readProjectState },
  jira_comment: { body: comment, find: findComment, state: readIssueState },
} satisfies Bodies<typeof tools>
