import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { ToolName } from '../../../src/catalog/index.ts'
import type { Json } from '../../../src/policy/types.ts'
import { emulatorToken } from '../../support/emulators.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { rejection } from './call.ts'
import { connectionTo, contextWith, outputOf } from './connection.ts'

let scripted: ScriptedServer
beforeAll(async () => {
  scripted = await startScriptedServer()
})
afterAll(() => scripted?.close())
beforeEach(() => void scripted.arrived.splice(0))

const run = (name: ToolName, params: object, base = scripted.url): Promise<Json> =>
  outputOf(name, params, contextWith(connectionTo('github', { token: emulatorToken }, base)))

const repo = 'admin/app'
const one = { number: 1, title: 'one', body: 'text', labels: [], state: 'open' }

describe('an answer that is no success', () => {
  const later = (code: string, retryAfterSeconds: number | null = null) => ({
    code,
    retryable: true,
    retryAfterSeconds,
  })
  const final = (code: string) => ({ code, retryable: false })
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
    const error = (await rejection(run('github_get_issue', { repo, number: 1 }))) as Error
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
    expect(await rejection(run(name, params))).toMatchObject({
      code: 'github_redirected',
      retryable: false,
    })
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
    expect(await rejection(run('github_search_code', params))).toMatchObject({
      code: 'github_other_repository',
    })
    scripted.answer = () => answer('Admin/App')
    expect(await run('github_search_code', params)).toMatchObject({ results: [{ path: 'a' }] })
  })
})
