import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { freePort } from '../../src/stack/ports.ts'
import { standInToken, startStandIns, type StandIns } from '../../src/stack/stand-ins/server.ts'
import type { ToolName } from '../../src/tools/index.ts'
import { toolContext } from '../tools/call.ts'
import { connectionTo } from '../tools/connection.ts'
import { ServiceCall } from '../tools/service-call.ts'
import { temporaryFolder } from './temporary-folder.ts'

/* The stand-ins of `npm start` in development, asked by the tools themselves. */

let standIns: StandIns
const options = { dataDir: temporaryFolder(), port: 0 }
beforeAll(async () => {
  options.port = await freePort()
  standIns = await startStandIns(options)
})
afterAll(() => standIns?.close())

function callOf(name: ToolName, params: object): ServiceCall {
  const service = name.startsWith('github') ? 'github' : 'slack'
  const connection = connectionTo(service, { token: standInToken }, `${standIns.url}/${service}`)
  const slackAccount = async () => ({ id: 'U0123456', linkedSecondsAgo: 1_000 })
  const context = toolContext({ connection: (async () => connection) as never, slackAccount })
  return new ServiceCall(name, params, context, {})
}
const outputOf = (name: ToolName, params: object) => callOf(name, params).make<Record<string, unknown>>()
const page = async () => (await fetch(standIns.url)).text()

describe('GitHub', () => {
  const repo = 'larkspur/pump-control'

  test('keeps an issue with its comment, which is found again', async () => {
    const call = callOf('github_create_issue', {
      repo,
      title: 'It <b>leaks</b>',
      body: 'a lot',
      labels: ['bug'],
    })
    expect(await call.find()).toBe('absent')
    const made = await call.make<{ number: number; url: string }>()
    expect(made).toEqual({ number: 1, url: `${standIns.url}/${repo}/issues/1` })
    expect(await call.find()).toEqual(made)
    const comment = callOf('github_comment', { repo, number: 1, body: 'fixed' })
    expect((await comment.seen()).fields).toMatchObject({ 'title of the issue': 'It <b>leaks</b>' })
    const said = await comment.make()
    expect(await comment.find()).toEqual(said)
    expect((await outputOf('github_list_issues', { repo, labels: ['bug'] }))['issues']).toMatchObject([
      { number: 1, title: 'It <b>leaks</b>', body: 'a lot', labels: ['bug'] },
    ])
    expect(await page()).toMatch(/It &#60;b&#62;leaks.*a lot.*fixed/s)
    expect(await page()).not.toContain('<!--')
  })

  test('answers the tools that read', async () => {
    const file = await outputOf('github_get_file', { repo, path: 'README.md' })
    expect(file['text']).toContain('stand-in')
    await expect(outputOf('github_get_file', { repo, path: 'other.md' })).rejects.toThrow('no such')
    expect(await outputOf('github_search_code', { query: 'pump' })).toEqual({ results: [] })
    expect((await outputOf('github_list_pull_requests', { repo }))['pull_requests']).toEqual([])
  })
})

test('keeps the newest 500 comments of all issues, and cuts texts', async () => {
  const headers = { authorization: `Bearer ${standInToken}`, 'content-type': 'application/json' }
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${standIns.url}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    return (await answer.json()) as { number: number; id: number; body: string }
  }
  const repo = '/github/repos/b/many/issues'
  const [first, second] = [await post(repo, { title: 'one' }), await post(repo, { title: 'two' })]
  await post(`${repo}/${first.number}/comments`, { body: 'forgotten' })
  const kept = await post(`${repo}/${first.number}/comments`, { body: 'x'.repeat(70_000) })
  expect(kept.body).toHaveLength(65_536)
  for (let more = 0; more < 499; more += 1) await post(`${repo}/${second.number}/comments`, { body: 'more' })
  const commentsOf = async ({ number }: { number: number }) =>
    (await (await fetch(`${standIns.url}${repo}/${number}/comments?per_page=1000`, { headers })).json()) as { id: number }[] // prettier-ignore
  expect((await commentsOf(first)).map(({ id }) => id)).toEqual([kept.id])
  expect(await commentsOf(second)).toHaveLength(499)
})

describe('Slack', () => {
  test('keeps messages, in a channel and to a person, which are found again', async () => {
    const call = callOf('slack_send_message', { channel: '#general', text: 'Hello <b>' })
    expect(await call.find()).toBe('unclear')
    const made = await call.make<{ channel: string; ts: string }>()
    expect(await call.find()).toEqual(made)
    const reply = callOf('slack_send_message', { channel: '#general', text: 'again', thread_ts: made.ts })
    const replied = await reply.make()
    expect(await reply.find()).toEqual(replied)
    const direct = await outputOf('slack_send_message', { channel: '@me', text: 'to you' })
    expect(direct['channel']).toBe('D0123456')
    expect(await page()).toMatch(/to you.*again.*Hello &#60;b&#62;/s)
  })

  test('makes a channel once', async () => {
    const call = callOf('slack_create_channel', { name: '#incident-7' })
    expect(await call.find()).toBe('absent')
    const made = await call.make()
    expect(made).toMatchObject({ name: 'incident-7', invited: true })
    expect(await call.find()).toEqual(made)
    await expect(outputOf('slack_create_channel', { name: '#incident-7' })).rejects.toThrow()
  })
})

test('a restart keeps what was posted', async () => {
  await outputOf('github_create_issue', { repo: 'a/b', title: 'kept over a restart' })
  await standIns.close()
  standIns = await startStandIns(options)
  // The client may still use a connection that the restart has closed.
  expect(await page().catch(page)).toContain('kept over a restart')
})

test('another token, and another name for the address, are refused', async () => {
  const headers = { authorization: 'Bearer ghp_real' }
  expect((await fetch(`${standIns.url}/github/user`, { headers })).status).toBe(401)
  const slack = await fetch(`${standIns.url}/slack/auth.test`, { method: 'POST', headers })
  expect(await slack.json()).toEqual({ ok: false, error: 'invalid_auth' })
  expect((await fetch(standIns.url.replace('127.0.0.1', 'localhost'))).status).toBe(421)
})
