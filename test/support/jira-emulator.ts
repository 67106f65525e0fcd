import { createEmulator, defineEmulator } from 'emulate'
import { describedIn, issuesOf } from './atlassian/described.ts'
import type { Emulator } from './emulators.ts'
import type { JiraComment, JiraIssue, JiraState, Property } from './jira-state.ts'

/*
 * A stand-in for the part of Jira Cloud that the tools use. Each request is checked against Atlassian's OpenAPI
 * description (`atlassian/described.ts`). `emulators.test.ts` checks the answers against the schemas of jira.js.
 * Searches understand `project = …` and `status = …`, and ignore the rest of the query.
 */

export const jiraCredential = { email: 'bot@larkspur.example', token: 'jira_token' } as const
const authorization = `Basic ${Buffer.from(`${jiraCredential.email}:${jiraCredential.token}`).toString('base64')}`

export const jiraWith = (
  projects: string[],
  issues: readonly {
    key: string
    formerKey?: string
    summary: string
    description?: string
    status?: string
  }[] = [],
): JiraState => ({
  projects,
  formerProjects: {},
  unseen: 0,
  last: 10_000 + issues.length,
  issues: issues.map(({ key, formerKey = null, summary, description, status = 'To Do' }, index) => ({
    id: String(10_000 + index),
    key,
    formerKey,
    summary,
    description: description ?? null,
    labels: [],
    type: 'Task',
    created: new Date().toISOString(),
    status,
    properties: [],
    comments: [],
    files: [],
  })),
})

const noPermission = {
  errorMessages: ['Issue does not exist or you do not have permission to see it.'],
  errors: {},
}
const noProject = { errorMessages: ["No project could be found with key 'OPS'."], errors: {} }
const user = {
  accountId: '5b10a2844c20165700ede21g',
  displayName: 'Bot',
  emailAddress: jiraCredential.email,
  active: true,
}

/**
 * Parses the body here and not in the emulator, because objects in a test's state must belong to the JavaScript realm
 * of the test.
 */
const bodyOf = async <T>(request: { text(): Promise<string> }): Promise<T> =>
  JSON.parse(await request.text()) as T

interface Created {
  readonly fields: {
    readonly project: { readonly id?: string; readonly key?: string }
    readonly summary: string
    readonly issuetype: { readonly name: string }
    readonly description?: unknown
    readonly labels?: readonly string[]
  }
  readonly properties?: readonly Property[]
}

/** Returns the text of a document in the Atlassian Document Format. Version 2 of Jira's API answers with this text. */
function textOf(node: unknown): string {
  if (typeof node === 'string') return node
  const { type, text = '', content = [] } = node as { type?: string; text?: string; content?: unknown[] }
  const inner = content.map(textOf).join(type === 'doc' ? '\n\n' : '')
  return type === 'hardBreak' ? '\n' : `${text}${inner}`
}

const operations = describedIn('jira')

const jira = defineEmulator<JiraState>({
  name: 'jira',
  state: () => jiraWith([]),
  setup({ app, state, baseUrl }) {
    const issueOf = (key: string) =>
      state.issues.find((each) => each.key === key || each.id === key || each.formerKey === key)
    const idOf = (project: string): string => String(1 + state.projects.indexOf(project))
    const projectOf = (named: string): string | undefined =>
      state.projects.find((key) => key === (state.formerProjects[named] ?? named) || idOf(key) === named)
    const self = (path: string): string => `${baseUrl}/rest/api/3/${path}`
    const propertiesOf = (list: readonly Property[]) =>
      Object.fromEntries(list.map((each) => [each.key, each.value]))
    const shown = (issue: JiraIssue, isText: boolean) => ({
      id: issue.id,
      key: issue.key,
      self: self(`issue/${issue.id}`),
      fields: {
        summary: issue.summary,
        status: { id: '1', name: issue.status, self: self('status/1') },
        description: issue.description !== null && isText ? textOf(issue.description) : issue.description,
        labels: issue.labels,
        created: issue.created,
        attachment: issue.files.map(({ id, filename, created, content }) => {
          return { id, filename, created, size: content.length, author: user, self: self(`attachment/${id}`) }
        }),
      },
    })
    const commentOf = ({ id, body, created, properties }: JiraComment, hasProperties: boolean) => {
      const common = { id, body, created, updated: created, author: user, self: self(`comment/${id}`) }
      return hasProperties ? { ...common, properties } : common
    }

    app.use('*', async (c, next) => {
      if (c.req.header('authorization') !== authorization)
        return c.json({ message: 'Client must be authenticated to access this resource.' }, 401)
      // A request of version 2 of the API is checked as a request of version 3, because there is no description of
      // version 2 here. The two versions differ only in texts.
      const { method, headers } = c.req.raw
      const url = c.req.raw.url.replace('/rest/api/2/issue/', '/rest/api/3/issue/')
      const asked = { method, headers, url, clone: () => c.req.raw.clone() }
      const issues = await issuesOf(operations, asked)
      // Jira would answer 400, but a test could mistake 400 for the refusal that it expects.
      return issues.length === 0 ? next() : c.json({ errorMessages: issues, errors: {} }, 418)
    })
    app.get('/rest/api/3/myself', (c) => c.json({ ...user, self: self(`user?accountId=${user.accountId}`) }))

    app.get('/rest/api/3/project/:key', (c) => {
      const key = projectOf(c.req.param('key'))
      if (key === undefined) return c.json(noProject, 404)
      return c.json({ id: idOf(key), key, name: `Project ${key}`, self: self(`project/${idOf(key)}`) })
    })

    app.post('/rest/api/3/issue', async (c) => {
      const { fields, properties = [] } = await bodyOf<Created>(c.req)
      const project = projectOf(fields.project.id ?? fields.project.key ?? '')
      if (project === undefined)
        return c.json({ errorMessages: [], errors: { project: 'valid project is required' } }, 400)
      if (/[\r\n]/.test(fields.summary))
        return c.json({ errorMessages: [], errors: { summary: 'It contains newline characters.' } }, 400)
      if (fields.labels?.some((label) => label.includes(' ')))
        return c.json(
          { errorMessages: [], errors: { labels: 'The label contains spaces which is invalid.' } },
          400,
        )
      state.last += 1
      const id = String(state.last)
      const number = state.issues.filter(({ key }) => key.startsWith(`${project}-`)).length + 1
      const key = `${project}-${number}`
      state.issues.push({
        id,
        key,
        formerKey: null,
        summary: fields.summary,
        description: fields.description ?? null,
        labels: fields.labels ?? [],
        type: fields.issuetype.name,
        created: new Date().toISOString(),
        status: 'To Do',
        properties,
        comments: [],
        files: [],
      })
      return c.json({ id, key, self: self(`issue/${id}`) }, 201)
    })

    for (const version of ['2', '3'])
      app.get(`/rest/api/${version}/issue/:key`, (c) => {
        const issue = issueOf(c.req.param('key'))
        return issue === undefined ? c.json(noPermission, 404) : c.json(shown(issue, version === '2'))
      })

    app.post('/rest/api/3/search/jql', async (c) => {
      const asked = await bodyOf<{
        jql: string
        maxResults?: number
        properties?: string[]
        nextPageToken?: string
      }>(c.req)
      const wanted = (name: string) =>
        new RegExp(`${name}\\s*=\\s*"?([\\w ]+?)"?(?:$| AND| ORDER)`, 'i').exec(asked.jql)?.[1]
      const [project, status] = [wanted('project'), wanted('status')]
      if (project === undefined && status === undefined)
        return c.json({ errorMessages: ['Unbounded JQL queries are not allowed here.'], errors: {} }, 400)
      const seen = state.issues.slice(0, state.issues.length - state.unseen)
      const found = seen
        .filter(
          ({ key, status: has }) =>
            (project === undefined || key.startsWith(`${project}-`)) && (status ?? has) === has,
        )
        .reverse()
      const from = Number(asked.nextPageToken ?? 0)
      const to = from + Math.min(asked.maxResults ?? 50, 100)
      const isLast = to >= found.length
      const issues = found.slice(from, to).map((issue) => ({
        ...shown(issue, false),
        ...(asked.properties === undefined ? {} : { properties: propertiesOf(issue.properties) }),
      }))
      return c.json({ issues, isLast, ...(isLast ? {} : { nextPageToken: String(to) }) })
    })

    app.get('/rest/api/3/issue/:key/comment', (c) => {
      const issue = issueOf(c.req.param('key'))
      if (issue === undefined) return c.json(noPermission, 404)
      const startAt = Number(c.req.query('startAt') ?? 0)
      const maxResults = Number(c.req.query('maxResults') ?? 50)
      const listed = issue.comments.toReversed().slice(startAt, startAt + maxResults)
      const comments = listed.map((each) => commentOf(each, false))
      return c.json({ comments, startAt, maxResults, total: issue.comments.length })
    })
    app.post('/rest/api/3/issue/:key/comment', async (c) => {
      const issue = issueOf(c.req.param('key'))
      if (issue === undefined) return c.json(noPermission, 404)
      const { body, properties = [] } = await bodyOf<{ body: unknown; properties?: Property[] }>(c.req)
      state.last += 1
      const comment = { id: String(state.last), body, created: new Date().toISOString(), properties }
      issue.comments.push(comment)
      return c.json(commentOf(comment, false), 201)
    })
    app.post('/rest/api/3/comment/list', async (c) => {
      const { ids } = await bodyOf<{ ids: number[] }>(c.req)
      const all = state.issues
        .flatMap(({ comments }) => comments)
        .filter(({ id }) => ids.includes(Number(id)))
      const hasProperties = c.req.query('expand') === 'properties'
      const values = all.map((each) => commentOf(each, hasProperties))
      return c.json({ values, total: values.length, startAt: 0, maxResults: 1_048_576, isLast: true })
    })
    app.post('/rest/api/3/issue/:key/attachments', async (c) => {
      const issue = issueOf(c.req.param('key'))
      if (issue === undefined) return c.json(noPermission, 404)
      if (c.req.header('x-atlassian-token') !== 'no-check')
        return c.json({ message: 'XSRF check failed' }, 403)
      const { file } = await c.req.parseBody()
      if (!(file instanceof File)) return c.json({ errorMessages: ['no file'], errors: {} }, 400)
      state.last += 1
      const kept = {
        id: String(state.last),
        filename: file.name,
        created: new Date().toISOString(),
        content: await file.text(),
      }
      issue.files.push(kept)
      const { id, filename, created, content } = kept
      return c.json([
        { id, filename, created, size: content.length, author: user, self: self(`attachment/${id}`) },
      ])
    })
  },
})

export interface JiraEmulator extends Emulator {
  /** The issues and comments that the emulator holds now. */
  state(): JiraState
}

export async function startJira(seed: JiraState): Promise<JiraEmulator> {
  const emulator = await createEmulator({ service: jira, port: 0, seed })
  return {
    url: emulator.url.replace(/\/$/, ''),
    state: () => emulator.snapshot().state,
    close: () => emulator.close(),
  }
}
