import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { final, later, rejection, toolCall } from './call.ts'
import { connectionTo, contextWith, outputOf, runBody } from './connection.ts'
import type { ToolResult } from '../../src/tools/kit/executor.ts'
import { pagesOf } from '../../src/tools/github/pages.ts'
import { repositoryAt } from '../../src/tools/github/place.ts'
import { tools } from '../../src/tools/github/tools.ts'
import { run as bodies } from '../../src/tools/github/run.ts'
import type { ToolName } from '../../src/tools/index.ts'
import type { Json } from '../../src/policy/types.ts'
import { type Emulator, emulatorToken, startEmulator } from '../support/emulators.ts'
import { type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts'

let github: Emulator
let scripted: ScriptedServer
beforeAll(async () => {
  ;[github, scripted] = await Promise.all([
    startEmulator('github', {
      users: [{ login: 'admin' }],
      repos: [{ owner: 'admin', name: 'app', auto_init: true }],
    }),
    startScriptedServer(),
  ])
  await ask('PUT', '/contents/docs/é a.md', { message: 'm', content: base64('hello words') })
  await ask('PUT', '/contents/b.bin', { message: 'm', content: '//79' })
  const { object } = (await ask('GET', '/git/ref/heads/main')) as { object: { sha: string } }
  await ask('POST', '/git/refs', { ref: 'refs/heads/topic', sha: object.sha })
  await ask('PUT', '/contents/c.md', { message: 'm', content: base64('c'), branch: 'topic' })
  await ask('POST', '/issues', { title: 'one', body: 'text' })
  await ask('POST', '/labels', { name: 'bug', color: 'ffffff' })
  await ask('POST', '/issues', { title: 'two', labels: ['bug'] })
  await ask('POST', '/pulls', { title: 'three', head: 'topic', base: 'main' })
})
afterAll(() => Promise.all([github?.close(), scripted?.close()]))
beforeEach(() => {
  scripted.arrived.splice(0)
})

test.each([
  [
    'github_create_issue',
    { repo: 'acme/app', title: 't' },
    'https://api.github.com',
    'https://github.com/acme/app/issues',
  ],
  [
    'github_create_issue',
    { repo: 'https://github.com/acme/app/issues/7', title: 't' },
    'https://api.github.com',
    'https://github.com/acme/app/issues',
  ],
  [
    'github_comment',
    { repo: 'acme/app', number: 7, body: 'b' },
    'https://git.acme.com',
    'https://git.acme.com/acme/app/issues/7',
  ],
] as const)('the page of %s %j at %s is %s', (name, params, base, page) => {
  // prettier-ignore
  expect(tools[name].pageOf?.(params as never, base)).toBe(page)
})

const base64 = (text: string): string => Buffer.from(text).toString('base64')

async function ask(method: string, path: string, body?: object): Promise<unknown> {
  const answer = await fetch(encodeURI(`${github.url}/repos/admin/app${path}`), {
    method,
    headers: { authorization: `Bearer ${emulatorToken}`, 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  })
  expect({ path, ok: answer.ok }).toEqual({ path, ok: true })
  return answer.json()
}

const contextAt = (base = github.url) =>
  contextWith(connectionTo('github', { token: emulatorToken }, base, { account: 'admin' }))
const run = (name: ToolName, params: object, base?: string): Promise<Json> =>
  outputOf(name, params, contextAt(base))

const repo = 'admin/app'
const one = { number: 1, title: 'one', body: 'text', labels: [], state: 'open' }
const two = { number: 2, title: 'two', labels: ['bug'], state: 'open' }
const three = { number: 3, title: 'three', merged_at: null, state: 'open' }
const file = { repo, path: 'docs/é a.md', ref: 'main', text: 'hello words' }
const c = { path: 'c.md', ref: 'topic', text: 'c' }

describe('a call that reads', () => {
  const reads: readonly (readonly [ToolName, object, object])[] = [
    ['github_search_code', { query: 'hello', repo }, { results: [{ repo, path: 'docs/é a.md' }] }],
    ['github_search_code', { query: 'hello repo:admin/app' }, { results: [{ repo, path: 'docs/é a.md' }] }],
    ['github_get_file', { repo, path: 'docs/é a.md' }, file],
    ['github_list_issues', { repo, labels: ['bug'] }, { issues: [two] }],
    ['github_list_issues', { repo, state: 'closed' }, { issues: [] }],
    ['github_get_issue', { repo, number: 1 }, one],
    ['github_list_pull_requests', { repo }, { pull_requests: [three] }],
  ]
  test.each(reads)('%s %j', async (name, params, expected) => {
    expect(await run(name, params)).toMatchObject(expected)
  })

  const links: readonly (readonly [ToolName, string, object, object])[] = [
    ['github_get_file', '/Admin/App/blob/main/docs/%C3%A9%20a.md', {}, file],
    ['github_get_file', '/admin/app', { path: 'c.md', ref: 'topic' }, c],
    ['github_get_file', '/admin/app/blob/topic/c.md#L1', {}, c],
    ['github_get_issue', '/admin/app/issues/1', {}, one],
    ['github_list_issues', '/admin/app.git', { labels: ['bug'] }, { issues: [two] }],
    ['github_search_code', '/admin/app', { query: 'hello' }, { results: [{ repo }] }],
  ]
  test.each(links)('%s of a link %s of the host of the connection', async (name, path, params, expected) => {
    expect(await run(name, { repo: `${github.url}${path}`, ...params })).toMatchObject(expected)
  })

  test('lists issues without pull requests, and at most as many as asked', async () => {
    const numbers = async (params: object) =>
      ((await run('github_list_issues', { repo, ...params })) as { issues: { number: number }[] }).issues
        .map((issue) => issue.number)
        .sort((a, b) => a - b)
    expect(await numbers({})).toEqual([1, 2])
    expect(await numbers({ limit: 1 })).toHaveLength(1)
  })

  test('leaves the markers of other calls out', async () => {
    const { number } = (await run('github_create_issue', { repo, title: 'marked', body: 'a' })) as {
      number: number
    }
    const kept = (await ask('GET', `/issues/${number}`)) as { body: string }
    expect(kept.body).toMatch(/^a\n\n<!-- countersign:call:[\da-f]{32} -->$/)
    expect(await run('github_get_issue', { repo, number })).toMatchObject({ body: 'a' })
    await run('github_comment', { repo, number, body: `copied ${kept.body}` })
    const [comment] = (await ask('GET', `/issues/${number}/comments`)) as { body: string }[]
    expect(comment?.body.match(/countersign:call/g)).toHaveLength(1)
    await ask('PATCH', `/issues/${number}`, { state: 'closed' })
  })
})

describe('parameters that name no one thing with certainty are refused before any request', () => {
  const wrong: readonly (readonly [ToolName, object])[] = [
    ['github_get_file', { repo, path: '../../user' }],
    ['github_get_file', { repo, path: 'a/%2e%2e/b' }],
    ['github_get_file', { repo, path: '/a' }],
    ['github_get_file', { repo, path: 'notes//a.md' }],
    ['github_get_file', { repo, path: './a.md' }],
    ['github_get_file', { repo, path: 'a', ref: '../x' }],
    ['github_get_file', { repo }],
    ['github_get_issue', { repo }],
    ['github_list_issues', { repo: 'admin/app/../other' }],
    ['github_list_issues', { repo, labels: ['a,b'] }],
    ['github_list_pull_requests', { repo: 'admin' }],
    ['github_search_code', { query: 'a OR b', repo }],
    ['github_search_code', { query: 'a repo:admin/secret', repo }],
    ['github_search_code', { query: 'a org:admin', repo }],
    ['github_comment', { repo, body: 'b' }],
  ]
  test.each(wrong)('%s %j', async (name, params) => {
    expect(await rejection(run(name, params, scripted.url))).toMatchObject(final('invalid_params'))
    expect(scripted.arrived).toEqual([])
  })
})

describe('a link', () => {
  const at = (repo: string, base: string) =>
    rejection(run('github_comment', { repo, body: 'b' }, base)) as Promise<Error>
  const own: readonly (readonly [base: string, repo: string])[] = [
    ['https://api.github.com', 'https://git.acme.com/a/b/issues/1'],
    ['https://api.github.com', 'https://api.github.com/a/b/issues/1'],
    ['https://api.github.com', 'git.acme.com/a/b/issues/1'],
    ['https://git.acme.com/api/v3', 'https://github.com/a/b/issues/1'],
    ['https://git.acme.com/api/v3', 'www.github.com/a/b/issues/1'],
    ['https://git.acme.com/api/v3', 'https://git.acme.com:8443/a/b/issues/1'],
    ['https://git.acme.com:8443/api/v3', 'https://git.acme.com/a/b/issues/1'],
    ['https://git.acme.com/api/v3', 'https://git.acme.com.evil.example/a/b/issues/1'],
    ['https://api.acme.ghe.com', 'https://github.com/a/b/issues/1'],
    ['http://127.0.0.1:9', 'http://[::1]:9/a/b/issues/1'],
    ['http://127.0.0.1:9', 'http://localhost:9/a/b/issues/1'],
  ]
  test.each(own)('with the API at %s, %s leads elsewhere', async (base, link) => {
    const error = await at(link, base)
    expect(error).toMatchObject({ code: 'github_other_host', retryable: false })
    expect(error.message).not.toContain('a/b')
  })

  test.each([
    ['https://api.github.com', 'http://github.com/a/b/issues/1'],
    ['https://api.github.com', 'https://me@github.com/a/b/issues/1'],
    ['https://api.github.com', '//github.com/a/b/issues/1'],
    ['https://api.github.com', 'https://github.com/a/b/%2e%2e/c/issues/1'],
    ['https://git.acme.com/api/v3', 'https://git.acme.com/a/../c/issues/1'],
    ['https://git.acme.com/api/v3', 'https://git.acme.com@evil.example/a/b/issues/1'],
    ['https://git.acme.com/api/v3', 'http://git.acme.com/a/b/issues/1'],
    ['https://git.acme.com/api/v3', 'https://git.acme.com/a'],
  ])('with the API at %s, %s names nothing for certain', async (base, link) => {
    expect(await at(link, base)).toMatchObject({ code: 'invalid_params', retryable: false })
  })

  test.each([
    ['https://api.github.com', 'https://github.com/A/B.git'],
    ['https://api.github.com', 'www.github.com/a/b/issues?q=1'],
    ['https://git.acme.com/api/v3', 'https://git.acme.com/a/b/issues/1'],
    ['https://git.acme.com:8443/api/v3', 'GIT.acme.com:8443/a/b'],
    ['https://api.acme.ghe.com', 'https://acme.ghe.com/a/b'],
    ['http://[::1]:9/api/v3', 'http://[::1]:9/a/b#c'],
    ['https://git.acme.com/api/v3', 'a/b'],
  ])('with the API at %s, %s names a repository there', (base, text) => {
    expect(repositoryAt(text, pagesOf(base))).toEqual({ owner: 'a', repo: 'b' })
  })

  test('and a number that differs from its own are refused', async () => {
    const link = 'https://github.com/admin/app/issues/1'
    const error = await rejection(
      run('github_get_issue', { repo: link, number: 2 }, 'https://api.github.com'),
    )
    expect(error).toMatchObject({ code: 'invalid_params' })
  })
})

test('a text of a million line breaks is read', async () => {
  const body = '\n'.repeat(1_000_000)
  scripted.answer = () => ({ status: 200, body: { ...one, body, html_url: 'u' } })
  expect(await run('github_get_issue', { repo, number: 1 }, scripted.url)).toMatchObject({ body })
})

test.each([
  ['main', undefined],
  ['topic', undefined],
  ['refs/pull/3/head', ['untrusted']],
  ['pull/3/merge', ['untrusted']],
  ['0123abc', ['untrusted']],
  ['0123456789abcdef0123456789abcdef01234567', ['untrusted']],
])('a file at `%s` carries the labels %j besides its own', async (ref, labels) => {
  const content = base64('words')
  scripted.answer = () => ({ status: 200, body: { type: 'file', path: 'a', encoding: 'base64', content } })
  const call = toolCall({ repo, path: 'a', ref })
  const result = (await runBody('github_get_file', call, contextAt(scripted.url))) as ToolResult
  expect(result.labels).toEqual(labels)
})

test('a file that is no text is refused, and so is a folder', async () => {
  const of = (path: string) => rejection(run('github_get_file', { repo, path }))
  expect(await of('b.bin')).toMatchObject({ code: 'github_no_text' })
  expect(await of('docs')).toMatchObject({ code: 'github_no_file' })
})

describe('what approvers of a comment see', () => {
  const seen = (number: number) =>
    bodies.github_comment.state(toolCall({ repo, number, body: 'b' }), contextAt())

  test('title and state of the issue; the revision changes with these alone', async () => {
    const { number } = (await ask('POST', '/issues', { title: 'before' })) as { number: number }
    const first = await seen(number)
    expect(first.fields).toMatchObject({ 'title of the issue': 'before', 'state of the issue': 'open' })
    await ask('POST', `/issues/${number}/comments`, { body: 'by somebody else' })
    expect(await seen(number)).toEqual(first)
    await ask('PATCH', `/issues/${number}`, { state: 'closed' })
    expect((await seen(number)).revision).not.toBe(first.revision)
    await expect(seen(9_999)).rejects.toMatchObject({ code: 'github_not_found' })
  })
})

const runScripted = (name: ToolName, params: object) => run(name, params, scripted.url)

describe('an answer that is no success', () => {
  const answers: readonly (readonly [number, Record<string, string>, unknown, object])[] = [
    [401, {}, {}, final('connection_expired')],
    [403, {}, { message: 'secret words' }, final('github_forbidden')],
    [403, { 'retry-after': '9' }, {}, later('github_rate_limited', 9)],
    [403, {}, { message: 'You have exceeded a secondary rate limit' }, later('github_rate_limited', 60)],
    [429, {}, { message: 'You have exceeded a secondary rate limit' }, later('github_rate_limited', 60)],
    [403, { 'retry-after': '90' }, { message: 'a secondary rate limit' }, later('github_rate_limited', 90)],
    [429, {}, {}, later('github_rate_limited')],
    [404, {}, {}, final('github_not_found')],
    [410, {}, {}, final('github_gone')],
    [422, {}, {}, final('github_refused')],
    [451, {}, {}, final('github_refused')],
    [500, {}, {}, later('github_unavailable')],
    [503, { 'retry-after': '5' }, {}, later('github_unavailable', 5)],
    [302, { location: 'http://127.0.0.1:9/' }, {}, final('github_redirected')],
    [200, { 'content-type': 'text/html' }, '<p>secret words', final('github_bad_answer')],
    [200, {}, { number: '1' }, final('github_bad_answer')],
    [200, {}, '{"number":', final('github_bad_answer')],
  ]
  test.each(answers)('%i %j %j', async (status, headers, body, expected) => {
    scripted.answer = () => ({ status, headers, body })
    const error = (await rejection(runScripted('github_get_issue', { repo, number: 1 }))) as Error
    expect(error).toMatchObject(expected)
    expect(error.message).not.toContain('secret words')
    // The client repeats nothing by itself.
    expect(scripted.arrived).toHaveLength(1)
  })

  test('a server that is away is tried again', async () => {
    const gone = await startScriptedServer()
    await gone.close()
    const error = await rejection(run('github_get_issue', { repo, number: 1 }, gone.url))
    expect(error).toMatchObject(later('github_unreachable'))
  })
})

/** GitHub gives these answers for a repository that was renamed or transferred to another owner. */
describe('a repository that was moved', () => {
  const calls: readonly (readonly [ToolName, object])[] = [
    ['github_search_code', { query: 'hello', repo }],
    ['github_get_file', { repo, path: 'a.md' }],
    ['github_get_file', { repo, path: 'a.md', ref: 'main' }],
    ['github_list_issues', { repo }],
    ['github_get_issue', { repo, number: 1 }],
    ['github_list_pull_requests', { repo }],
    ['github_create_issue', { repo, title: 't' }],
    ['github_comment', { repo, number: 1, body: 'b' }],
  ]
  test.each(calls)('is not reached under its old name: %s %j', async (name, params) => {
    const to = `${scripted.url}/repositories/7`
    scripted.answer = ({ path }) =>
      path.startsWith('/repositories/')
        ? { status: 200, body: one }
        : { status: name === 'github_create_issue' ? 307 : 301, headers: { location: to }, body: {} }
    expect(await rejection(runScripted(name, params))).toMatchObject(final('github_redirected'))
    expect(scripted.arrived).toHaveLength(1)
  })

  test.each([
    [{ query: 'hello', repo }, 'other/app'],
    [{ query: 'hello repo:admin/app' }, 'admin/other'],
    [{ query: 'hello org:admin' }, 'other/app'],
  ])('its code is not shown for a search %j that finds it as %s', async (params, full_name) => {
    const answer = (named: string) => ({
      status: 200,
      body: { items: [{ path: 'a', html_url: 'u', repository: { full_name: named } }] },
    })
    scripted.answer = () => answer(full_name)
    expect(await rejection(runScripted('github_search_code', params))).toMatchObject({
      code: 'github_other_repository',
    })
    scripted.answer = () => answer('Admin/App')
    expect(await runScripted('github_search_code', params)).toMatchObject({ results: [{ path: 'a' }] })
  })
})
