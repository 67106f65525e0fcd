import { afterAll, beforeAll, expect, test } from '@jest/globals'
import * as jiraJs from 'jira.js/cloud'
import { describe } from './atlassian/describe.ts'
import { describedIn } from './atlassian/described.ts'
import { jiraCredential, jiraWith, startJira, type JiraEmulator } from './jira-emulator.ts'

/*
 * Tests the stand-in for Jira with jira.js. The client and the schemas of jira.js are generated from Atlassian's
 * OpenAPI description. The tests check the structure of requests and answers. They do not check how Jira itself handles
 * requests.
 */

test('the descriptions are those of the library', async () => {
  expect(describedIn('jira')).toEqual(await describe('jira'))
})

test.each([
  ['GET', '/rest/api/3/issue/OPS-1?colour=red', undefined, 'getIssue: no query parameter colour'],
  ['GET', '/rest/api/3/issue/OPS-1/watchers', undefined, 'no operation GET /rest/api/3/issue/OPS-1/watchers'],
  [
    'POST',
    '/rest/api/3/search/jql',
    { jql: 'project = OPS', startAt: 1 },
    'searchAndReconsileIssuesUsingJqlPost: no field startAt',
  ],
])('%s %s is refused: Atlassian describes no such request', async (method, path, body, issue) => {
  const { email, token } = jiraCredential
  const headers = { authorization: `Basic ${Buffer.from(`${email}:${token}`).toString('base64')}` }
  const given = body === undefined ? null : JSON.stringify(body)
  const answer = await fetch(`${emulator.url}${path}`, { method, headers, body: given })
  expect([answer.status, await answer.json()]).toMatchObject([418, { errorMessages: [issue] }])
})

let emulator: JiraEmulator
let client: ReturnType<typeof jiraJs.createCloudClient>
beforeAll(async () => {
  emulator = await startJira(jiraWith(['OPS'], [{ key: 'OPS-1', summary: 'one' }]))
  const { email, token } = jiraCredential
  client = jiraJs.createCloudClient({
    host: emulator.url,
    auth: { type: 'basic', email, apiToken: token },
    onSchemaMismatch: 'throw',
  })
})
afterAll(() => emulator?.close())

const paragraph = (text: string) => ({
  type: 'doc',
  version: 1,
  content: [{ type: 'paragraph', content: [{ type: 'text', text }] }],
})
const properties = [{ key: 'countersign.call', value: { id: 'a mark' } }]

test('an issue that the client creates is found with its property', async () => {
  const fields = {
    project: { key: 'OPS' },
    summary: 's',
    issuetype: { name: 'Task' },
    description: paragraph('t'),
  }
  const { key } = await client.issues.createIssue({ fields, properties })
  const found = await client.issueSearch.searchAndReconsileIssuesUsingJqlPost({
    jql: 'project = OPS',
    fields: ['summary'],
    properties: ['countersign.call'],
    maxResults: 100,
  })
  expect(found.issues?.find((each) => each.key === key)).toMatchObject({
    properties: { 'countersign.call': { id: 'a mark' } },
  })
  expect((await client.issues.getIssue({ issueIdOrKey: key })).fields).toMatchObject({ summary: 's' })
})

test('a project that the client reads is shown', async () => {
  expect(await client.projects.getProject({ projectIdOrKey: 'OPS' })).toMatchObject({ key: 'OPS' })
})

test('a comment that the client makes is listed, and its properties by its id', async () => {
  const made = await client.issueComments.addComment({
    issueIdOrKey: 'OPS-1',
    body: paragraph('t'),
    properties,
  })
  const { comments } = await client.issueComments.getComments({ issueIdOrKey: 'OPS-1', orderBy: '-created' })
  expect(comments?.map(({ id }) => id)).toEqual([made.id])
  const { values } = await client.issueComments.getCommentsByIds({
    ids: [Number(made.id)],
    expand: 'properties',
  })
  expect(values?.[0]?.properties).toEqual(properties)
})

test('a file that the client attaches is shown', async () => {
  const [made] = await client.issueAttachments.addAttachment({
    issueIdOrKey: 'OPS-1',
    attachments: { filename: 'a.txt', content: new Blob(['text']) },
  })
  const { fields } = await client.issues.getIssue({ issueIdOrKey: 'OPS-1', fields: ['attachment'] })
  expect(fields?.['attachment']).toMatchObject([{ id: made?.id, filename: 'a.txt' }])
})

test('the account of the credential is shown', async () => {
  expect(await client.myself.getCurrentUser()).toMatchObject({ emailAddress: jiraCredential.email })
})
