import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { ToolResult } from '../../src/tools/kit/executor.ts'
import { run as bodies } from '../../src/tools/jira/run.ts'
import { getTool, type ToolName } from '../../src/tools/index.ts'
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts'
import { jiraCredential, jiraWith, startJira, type JiraEmulator } from '../support/jira-emulator.ts'
import { rejection, toolCall } from './call.ts'
import { connectionTo, contextWith, outputOf, runBody } from './connection.ts'

let jira: JiraEmulator
let proxy: FaultProxy
beforeAll(async () => {
  const issues = Array.from({ length: 120 }, (_, index) => ({
    key: `OPS-${index + 1}`,
    summary: `issue ${index + 1}`,
    description: `text ${index + 1}`,
    status: index % 40 === 0 ? 'Done' : 'To Do',
  }))
  const moved = { key: 'SEC-1', formerKey: 'OPS-900', summary: 'of another project' }
  jira = await startJira({
    ...jiraWith(['OPS', 'SEC'], [moved, ...issues]),
    formerProjects: { OLD: 'SEC' },
  })
  proxy = await startFaultProxy(jira.url)
})
beforeEach(() => {
  proxy.choose = () => 'pass'
})
afterAll(() => Promise.all([proxy?.close(), jira?.close()]))

const context = () => contextWith(connectionTo('jira', jiraCredential, proxy.url))
const run = (name: ToolName, params: object): Promise<unknown> => outputOf(name, params, context())

const issueOf = (key: string) => jira.state().issues.find((each) => each.key === key)
const shown = (number: number, status: string) => ({
  key: `OPS-${number}`,
  summary: `issue ${number}`,
  status,
  url: `${proxy.url}/browse/OPS-${number}`,
})

describe('a call that reads', () => {
  test('a search lists up to its limit', async () => {
    const query = 'project = OPS AND status = Done'
    const all = [shown(81, 'Done'), shown(41, 'Done'), shown(1, 'Done')]
    expect(await run('jira_search', { query })).toEqual({ issues: all })
    expect(await run('jira_search', { query, limit: 2 })).toEqual({ issues: all.slice(0, 2) })
    const { issues } = (await run('jira_search', { query: 'project = OPS', limit: 100 })) as { issues: [] }
    expect(issues).toHaveLength(100)
  })

  test.each([
    'OPS-2',
    'ops-2',
    '{base}/browse/OPS-2',
    '{base}/browse/OPS-2?focusedCommentId=1#x',
    '{base}/jira/software/projects/OPS/boards/1?selectedIssue=OPS-2',
    '{base}/jira/servicedesk/projects/OPS/issues/OPS-2',
  ])('an issue is read by %s', async (given) => {
    const issue = given.replace('{base}', proxy.url)
    expect(await run('jira_get_issue', { issue })).toEqual({ ...shown(2, 'To Do'), description: 'text 2' })
  })

  test.each([
    ['https://jira.evil.example/browse/OPS-2', 'jira_other_site'],
    ['{base}.evil.example/browse/OPS-2', 'invalid_params'],
    ['https://bot@{host}/browse/OPS-2', 'invalid_params'],
    ['{base}/browse/OPS-2/../../rest/api/3/myself', 'invalid_params'],
    ['OPS-2/comment', 'invalid_params'],
    ['../myself', 'invalid_params'],
    ['10001', 'invalid_params'],
  ])('%s names no issue', async (given, code) => {
    const { host } = new URL(proxy.url)
    const issue = given.replace('{base}', proxy.url).replace('{host}', host)
    expect(await rejection(run('jira_get_issue', { issue }))).toMatchObject({ code, retryable: false })
  })
})

test('an issue that was moved to another project has its new key alone, whatever rules say of the old one', async () => {
  expect(await run('jira_get_issue', { issue: 'SEC-1' })).toMatchObject({ key: 'SEC-1' })
  const refused = { code: 'jira_moved', retryable: false }
  expect(await rejection(run('jira_get_issue', { issue: 'OPS-900' }))).toMatchObject(refused)
  expect(await rejection(run('jira_comment', { issue: 'OPS-900', text: 't' }))).toMatchObject(refused)
  const call = toolCall({ issue: 'OPS-900', text: 't' })
  expect(await rejection(bodies.jira_comment.state(call, context()))).toMatchObject(refused)
  expect(issueOf('SEC-1')?.comments).toEqual([])
})

test('a project that was renamed has its new key alone, whatever rules say of the old one', async () => {
  const { length } = jira.state().issues
  const params = { project: 'OLD', summary: 's' }
  const refused = { code: 'jira_moved', retryable: false }
  expect(await rejection(run('jira_create_issue', params))).toMatchObject(refused)
  expect(await rejection(bodies.jira_create_issue.state(toolCall(params), context()))).toMatchObject(refused)
  expect(jira.state().issues).toHaveLength(length)
})

test('approvers of an issue see its project', async () => {
  const stateOf = (project: string) =>
    bodies.jira_create_issue.state(toolCall({ project, summary: 's' }), context())
  const { revision, fields } = await stateOf('SEC')
  expect(fields).toEqual({ 'name of the project': 'Project SEC', link: `${proxy.url}/browse/SEC` })
  expect((await stateOf('OPS')).revision).not.toBe(revision)
})

test('an issue is created with its text as it is: nothing in it mentions or formats', async () => {
  const params = {
    project: `${proxy.url}/jira/software/projects/OPS/boards/1`,
    summary: 'new',
    description: 'one [~accountid:5b10]\n*two*\n\n\nthree',
    type: 'Bug',
    labels: ['a', 'b'],
  }
  const { key } = (await run('jira_create_issue', params)) as { key: string }
  expect(issueOf(key)).toMatchObject({
    summary: 'new',
    type: 'Bug',
    labels: ['a', 'b'],
    description: {
      content: [
        {
          content: [
            { type: 'text', text: 'one [~accountid:5b10]' },
            { type: 'hardBreak' },
            { type: 'text', text: '*two*' },
          ],
        },
        { content: [{ type: 'text', text: 'three' }] },
      ],
    },
    properties: [{ key: 'countersign.call', value: { id: expect.stringMatching(/^countersign:call:/) } }],
  })
  expect(await run('jira_get_issue', { issue: key })).toMatchObject({
    description: 'one [~accountid:5b10]\n*two*\n\nthree',
  })
})

test.each([
  [{ project: 'NONE', summary: 's' }, 'jira_not_found'],
  [{ project: 'OPS', summary: 's', labels: ['a b'] }, 'jira_refused'],
  [{ project: 'OPS" OR project = "SECRET', summary: 's' }, 'invalid_params'],
  [{ project: 'https://jira.evil.example/projects/OPS', summary: 's' }, 'jira_other_site'],
])('%j creates nothing', async (params, code) => {
  const { length } = jira.state().issues
  expect(await rejection(run('jira_create_issue', params))).toMatchObject({ code, retryable: false })
  expect(jira.state().issues).toHaveLength(length)
})

test.each(['status', 'order by created'])('a search for %j says what a query must have', async (query) => {
  expect(await rejection(run('jira_search', { query }))).toMatchObject({
    code: 'jira_refused',
    retryable: false,
    message: expect.stringContaining('write JQL with at least one condition'),
  })
})

test.each(['two\nlines', 'two\rlines'])('a summary has one line: %j', (summary) => {
  const read = getTool('jira_create_issue')?.params.safeParse({ project: 'OPS', summary })
  expect(read?.error?.issues).toMatchObject([{ path: ['summary'], message: 'must be one line' }])
})

test('a refusal names the fields that Jira blames, and no words of Jira', async () => {
  const blamed = { customfield_10010: 'secret words', labels: 'x', 'secret words': 'x', customfield_x: 'x' }
  proxy.choose = (method) =>
    method === 'POST'
      ? { status: 400, body: JSON.stringify({ errorMessages: ['secret words'], errors: blamed }) }
      : 'pass'
  const error = (await rejection(run('jira_create_issue', { project: 'OPS', summary: 's' }))) as Error
  expect(error.message).toMatch(/; Jira names `customfield_10010` and `labels`$/)
  expect(error.message).not.toContain('secret')
})

describe('a comment with a file', () => {
  const params = {
    issue: 'OPS-3',
    text: 'see the file',
    attachment_name: 'plan.md',
    attachment_content: '# é',
  }
  const find = () => bodies.jira_comment.find(toolCall(params), context(), { sentSecondsAgo: 1 })
  const comments = () => issueOf('OPS-3')?.comments.length

  test('fails if its file is refused', async () => {
    proxy.choose = (method, path) =>
      method === 'POST' && path.endsWith('/attachments') ? { status: 413 } : 'pass'
    expect(await rejection(run('jira_comment', params))).toMatchObject({ code: 'jira_too_large' })
    expect([issueOf('OPS-3')?.files.length, comments()]).toEqual([0, 0])
  })

  test('has both', async () => {
    const output = await run('jira_comment', params)
    expect(issueOf('OPS-3')?.files.at(-1)).toMatchObject({ filename: 'plan.md', content: '# é' })
    expect(comments()).toBe(1)
    expect(await find()).toEqual({ kind: 'done', output })
  })

  test.each([
    { attachment_name: 'a.txt' },
    { attachment_content: 'x' },
    { attachment_name: '../a', attachment_content: 'x' },
    { attachment_name: 'a\r\nb', attachment_content: 'x' },
    { attachment_name: '..', attachment_content: 'x' },
  ])('needs a name and a text: %j', async (given) => {
    const wrong = run('jira_comment', { issue: 'OPS-4', text: 't', ...given })
    expect(await rejection(wrong)).toMatchObject({ code: 'invalid_params' })
    expect(issueOf('OPS-4')).toMatchObject({ files: [], comments: [] })
  })
})

test('approvers of a comment see its issue', async () => {
  const call = toolCall({ issue: 'OPS-5', text: 't' })
  const { revision, fields } = await bodies.jira_comment.state(call, context())
  expect(fields).toEqual({
    'summary of the issue': 'issue 5',
    'status of the issue': 'To Do',
    link: `${proxy.url}/browse/OPS-5`,
  })
  expect(
    (await bodies.jira_comment.state(toolCall({ issue: 'OPS-6', text: 't' }), context())).revision,
  ).not.toBe(revision)
})

describe('a comment is looked for', () => {
  const params = { issue: 'OPS-7', text: 't' }
  const call = toolCall(params, { idempotencyKey: 'of-pages' })
  const find = () => bodies.jira_comment.find(call, context(), { sentSecondsAgo: 1 })
  const isList = (path: string) => path.includes('/issue/OPS-7/comment?')
  /** Jira answers the first `pages` requests for a list with this page. */
  const listing = (pages: number, page: object): { asked: string[] } => {
    const requests = { asked: [] as string[] }
    proxy.choose = (_, path) => {
      if (!isList(path)) return 'pass'
      requests.asked.push(new URL(path, proxy.url).searchParams.get('startAt') ?? '')
      return requests.asked.length <= pages ? { status: 200, body: JSON.stringify(page) } : 'pass'
    }
    return requests
  }
  const now = new Date().toISOString()

  test('behind pages that are shorter than the ones that were asked for', async () => {
    const { output } = (await runBody('jira_comment', call, context())) as ToolResult
    await run('jira_comment', params)
    const { id } = issueOf('OPS-7')?.comments.at(-1) ?? {}
    const requests = listing(1, { comments: [{ id, created: now }], total: 2 })
    expect([await find(), requests.asked]).toEqual([{ kind: 'done', output }, ['0', '1']])
  })

  test.each([
    ['an empty page before the end', [], 1],
    ['pages without an end', [{ id: '1', created: now }], 10],
  ])('and %s tells nothing', async (_, comments, pages) => {
    const requests = listing(Infinity, { comments, total: 1_000 })
    expect([await find(), requests.asked.length]).toEqual([{ kind: 'unclear' }, pages])
  })
})
