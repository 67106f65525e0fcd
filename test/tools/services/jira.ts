import type { Json } from '../../../src/policy/types.ts'
import { jiraCredential, jiraWith, startJira } from '../../support/jira-emulator.ts'
import { describedIn } from '../../support/atlassian/described.ts'
import { idsOf, named } from '../stand-in.ts'
import type { FaultService } from '../faults/service.ts'

type Found = { key: string; fields: { description: unknown } }

const pages = 'https://developer.atlassian.com/cloud/jira/platform'

export const jira: FaultService = {
  name: 'jira',
  start: () => startJira(jiraWith(['OPS'], [{ key: 'OPS-1', summary: 'for comments' }])),
  credential: () => jiraCredential,
  place: 'OPS',
  tools: {
    jira_create_issue: {
      readsBefore: 1,
      params: (text, place) => ({ project: place, summary: 'a title', description: text }),
      async made(ask, text, place, url): Promise<Json[]> {
        const { issues } = (await ask('POST', '/rest/api/3/search/jql', {
          jql: `project = "${place}"`,
          maxResults: 100,
        })) as unknown as { issues: Found[] }
        const keys = issues.filter(({ fields }) => JSON.stringify(fields.description).includes(text))
        return keys.map(({ key }) => ({ key, url: `${url}/browse/${key}` }))
      },
      mayStillAppear: true,
    },
    jira_comment: {
      readsBefore: 1,
      params: (text, place) => ({ issue: `${place}-1`, text }),
      async made(ask, text, place, url): Promise<Json[]> {
        const path = `/rest/api/3/issue/${place}-1/comment?maxResults=1000`
        const { comments } = (await ask('GET', path)) as unknown as {
          comments: { id: string; body: unknown }[]
        }
        return comments
          .filter(({ body }) => JSON.stringify(body).includes(text))
          .map(({ id }) => ({ id, url: `${url}/browse/${place}-1?focusedCommentId=${id}` }))
      },
    },
  },
  reads: {
    codes: { tooLarge: 'response_too_large', badAnswer: 'jira_bad_answer', unavailable: 'jira_unavailable' },
    tools: {
      jira_search: (project) => ({ query: `project = ${project}` }),
      jira_get_issue: (project) => ({ issue: `${project}-1` }),
    },
  },
  isWrite: (method, path) =>
    method === 'POST' && /\/(?:issue|comment|attachments)$/.test(path.split('?', 1)[0] ?? ''),
  emptyList: { status: 200, body: '{"issues":[],"comments":[],"values":[],"total":0}' },
  cannotLook: { status: 404 },
  refusals: {
    'the token was revoked': [{ status: 401 }, 'connection_expired'],
    '403 comes back': [{ status: 403 }, 'jira_forbidden'],
    '400 comes back': [{ status: 400 }, 'jira_refused'],
    '413 comes back': [{ status: 413 }, 'jira_too_large'],
  },
  codes: { rateLimited: 'jira_rate_limited', redirected: 'jira_redirected' },
  standIns: [
    {
      standIn: 'our own',
      checked: `Atlassian’s OpenAPI description, as ${named('jira.js')} is generated from it: methods, paths, parameters and names of fields of each request, and the whole answer, of ${idsOf(describedIn('jira'))}`,
      not: 'the forms of values in requests, texts in version 2 of the API, and what a query means',
    },
  ],
  assumptions: [
    {
      what: 'The search may not show a new issue at once, and no limit is named. So an issue that is not found counts as perhaps made.',
      page: `${pages}/search-and-reconcile/`,
    },
    {
      what: 'An issue and a comment are stored together with the property in their request.',
      page: `${pages}/rest/v3/api-group-issue-comments/`,
    },
    {
      what: 'The list of the comments of an issue shows a new one within 60 s of its request.',
      page: null,
      withoutPage: 'Atlassian describes a delay of the search alone.',
    },
    {
      what: 'An issue that was moved is found by its former keys, and the answer has its present one.',
      page: 'https://support.atlassian.com/migration/kb/migration-of-jiras-historical-keys-for-issues-and-projects',
    },
    {
      what: 'A request beyond the limits is answered with 429 and was not carried out. `Retry-After` has the pause.',
      page: `${pages}/rate-limiting/`,
    },
  ],
}
