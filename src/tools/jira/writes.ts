import { defaultsOf } from '../../policy/tool-defaults.ts'
import { beforeSending, markOf } from '../kit/marker.ts'
import type { FinderOf, ToolBody } from '../kit/params.ts'
import { jiraOf } from './client.ts'
import { madeIssue, markedIssues, markProperty } from './forms.ts'
import { projectCalled } from './reads.ts'
import { documentOf } from './text.ts'

/*
 * Jira takes no idempotency key. So an issue or comment carries the mark of its call in a property, which people do not
 * see.
 */

export const createIssue: ToolBody<'jira_create_issue'> = async (call, context) => {
  const { summary, description, type = defaultsOf.jira_create_issue.type, labels } = call.params
  const jira = await jiraOf(call, context, 'jira_create_issue')
  // The rules have judged the project key in the call. This key may be a former key of a project that has another key
  // now. `projectCalled` refuses a former key. Otherwise Jira would create an issue in a project that the rules did not
  // judge.
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

/** A finder reads at most this many pages of 100 entries. */
const mostPages = 10

/**
 * Looks for the mark among the project's new issues. A new issue appears in Jira's search only after seconds or
 * minutes. So the call may have made an issue that is not found yet. Then the result is `unclear`, and the call is
 * looked for again. Finally, a person decides.
 */
export const findIssue: FinderOf<'jira_create_issue'> = async (call, context, look) => {
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
