import type { z } from 'zod'
import { defaultsOf } from '../../policy/tool-defaults.ts'
import { ToolError } from '../kit/executor.ts'
import type { ToolBody } from '../kit/params.ts'
import { jiraOf, type Jira } from './client.ts'
import { anIssue, aProject, foundIssues } from './forms.ts'

/** A search reads at most this many pages. Jira may give fewer issues on a page than were asked for. */
const mostPages = 10

export const search: ToolBody<'jira_search'> = async (call, context) => {
  const { query: jql, limit = defaultsOf.jira_search.limit } = call.params
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
  return new ToolError('jira_refused', message, { retryable: false, cause: error })
}

/**
 * Reads an issue by its present key. Jira also finds an issue by a former key. For such a key, this function throws
 * ToolError `jira_moved`. Version 2 of the API gives texts in Jira's wiki markup.
 */
export async function issueCalled(
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

/**
 * Reads a project by its present key. Jira also finds a project by a former key. For such a key, this function throws
 * ToolError `jira_moved`.
 */
export async function projectCalled(jira: Jira, text: string): Promise<z.output<typeof aProject>> {
  const asked = jira.projectAt(text)
  const project = await jira.read(aProject, { method: 'GET', path: `/rest/api/3/project/${asked}` })
  jira.requireSame('project', asked, project.key)
  return project
}

export const getIssue: ToolBody<'jira_get_issue'> = async (call, context) => {
  const jira = await jiraOf(call, context, 'jira_get_issue')
  const { key, fields } = await issueCalled(jira, call.params.issue, 'summary,status,description')
  const { summary, status, description } = fields
  return {
    output: {
      key,
      summary,
      status: status.name,
      url: jira.pageOf(key),
      description: description ?? null,
    },
  }
}
