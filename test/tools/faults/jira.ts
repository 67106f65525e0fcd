import type { Json } from '../../../src/policy/types.ts'
import { jiraCredential, jiraWith, startJira } from '../../support/jira-emulator.ts'
import type { FaultService } from './service.ts'

type Found = { key: string; fields: { description: unknown } }

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
}
