import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createToolServices } from '../../../src/activities/tool-services.ts'
import { getTool, integrationNamed, type Connectable, type ToolName } from '../../../src/tools/index.ts'
import { destinationOf, type IntegrationDeclaration } from '../../../src/tools/kit/integration.ts'
import { connect, connectionRows, revokeConnection } from '../../../src/governance/connections/connections.ts'
import { listOwned } from '../../../src/governance/page.ts'
import { changeRole } from '../../../src/governance/people/members.ts'
import { readConnected, toolDestination } from '../../../src/governance/tools/connections.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { loopbackHosts, type NamedHost } from '../../../src/shared/outgoing/hosts.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from '../../support/scripted-server.ts'
import { auditOf } from '../support.ts'
import {
  effectOf,
  go,
  hold,
  holdRule,
  opOf,
  useEngine,
  type Engine,
  type ResolvedCall,
} from '../runs/engine-fixture.ts'
import { checkCredential, readCredential } from '../../../src/governance/connections/credential-check.ts'
import { createOutgoing } from '../../../src/shared/outgoing/outgoing.ts'
import { emulatorToken, startEmulator, type Emulator } from '../../support/emulators.ts'
import { expireConnection } from '../../../src/governance/connections/connection-view.ts'
import { tryRules } from '../../../src/governance/rules/rule-trial.ts'
import { createToolPolicy, deleteToolPolicy } from '../../../src/governance/rules/tool-policies.ts'
import { decideSteps } from '../../../src/calls/runs/effect.ts'

/* Where a connection sends its calls, and who may decide that it is not the service itself. */

let server: ScriptedServer
let slack: Emulator
let engine: Engine
const outgoing = createOutgoing({ hosts: loopbackHosts })
useEngine((started) => (engine = started))
beforeAll(async () => {
  ;[server, slack] = await Promise.all([startScriptedServer(), startEmulator('slack')])
})
beforeEach(async () => {
  server.arrived.length = 0
  await engine.context.db.deleteFrom('connections').execute()
})
afterAll(() => Promise.all([server?.close(), slack?.close(), outgoing.close()]))

type Name = 'owner' | 'admin' | 'member'
type Scope = 'personal' | 'organization'
const { signal } = new AbortController()
const connectAs = (name: Name, tool: string, credential: Given, scope: Scope = 'personal') =>
  connect(engine.context, engine.caller(name), { tool, credential, scope, name: undefined }, signal)

type Given = Readonly<Record<string, unknown>>
const token = { token: 't' }
const keyFile = (token_uri: string): Given => ({
  service_account: {
    type: 'service_account',
    client_email: 'bot@acme.iam.gserviceaccount.com',
    private_key: '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n',
    token_uri,
  },
})
const openai = { provider: 'openai', api_key: 'k', model: 'm' }
const refreshing = { client_id: 'c', client_secret: 's', refresh_token: 'r' }
const settings = {
  trackerBaseUrl: 'https://jira.acme.com:8443/base',
  google: { client: null, baseUrl: 'https://GOOGLE.proxy.acme.com/apis/' },
}

describe('the destination of a connection', () => {
  const own: [Connectable, Given, string][] = [
    ['github', token, 'api.github.com'],
    ['github', { ...token, base_url: 'HTTPS://API.GitHub.com:443/' }, 'api.github.com'],
    ['slack', token, 'slack.com'],
    ['slack', { ...token, base_url: 'https://slack.com/x/../api//' }, 'slack.com'],
    ['trello', { key: 'k', token: 't' }, 'api.trello.com'],
    ['jira', { email: 'a@b.example', token: 't' }, 'jira.acme.com:8443'],
    ['search', { provider: 'brave', api_key: 'k' }, 'api.search.brave.com'],
    ['search', { provider: 'tavily', api_key: 'k' }, 'api.tavily.com'],
    ['llm', openai, 'api.openai.com'],
    ['llm', { ...openai, provider: 'anthropic' }, 'api.anthropic.com'],
    ['mail', { provider: 'resend', api_key: 'k', from: 'desk@acme.example' }, 'api.resend.com'],
    ['google', refreshing, 'www.googleapis.com'],
    ['google', { ...refreshing, base_url: 'https://google.proxy.acme.com/apis' }, 'google.proxy.acme.com'],
    ['google', keyFile('https://oauth2.googleapis.com/token'), 'www.googleapis.com'],
  ]
  test.each(own)('of %s with %j is its own host `%s`', (name, given, host) => {
    expect(read(name, given)).toEqual({ host, isOwn: true, foreign: [] })
  })

  const [base, tokenUri] = ['base_url', 'service_account.token_uri']
  const foreign: [Connectable, Given, string, string][] = [
    ['github', { ...token, base_url: 'https://api.github.com.evil.example' }, 'api.github.com.evil.example', base], // prettier-ignore
    ['github', { ...token, base_url: 'https://api.github.com.' }, 'api.github.com.', base],
    ['github', { ...token, base_url: 'https://api.github.com:8443' }, 'api.github.com:8443', base],
    ['github', { ...token, base_url: 'http://api.github.com' }, 'api.github.com', base],
    ['github', { ...token, base_url: 'https://api.github.com/repos/evil' }, 'api.github.com', base],
    ['github', { ...token, base_url: 'https://аpi.github.com' }, 'xn--pi-6kc.github.com', base],
    ['github', { ...token, base_url: 'https://evil.example\\@api.github.com' }, 'evil.example', base],
    ['slack', { ...token, base_url: 'https://slack.com/api/..' }, 'slack.com', base],
    ['slack', { ...token, base_url: 'https://slack.com/api%2f..' }, 'slack.com', base],
    ['trello', { key: 'k', token: 't', base_url: 'https://trello.com' }, 'trello.com', base],
    ['search', { provider: 'searxng', base_url: 'https://s.example' }, 's.example', base],
    ['search', { provider: 'brave', api_key: 'k', base_url: 'https://api.tavily.com' }, 'api.tavily.com', base], // prettier-ignore
    ['llm', { ...openai, base_url: 'https://api.anthropic.com/v1' }, 'api.anthropic.com', base],
    ['llm', { ...openai, provider: 'ollama' }, '127.0.0.1:11434', base],
    ['llm', { ...openai, provider: 'ollama', base_url: 'https://api.openai.com/v1' }, 'api.openai.com', base],
    ['mail', { provider: 'resend', api_key: 'k', from: 'desk@acme.example', base_url: 'https://m.example' }, 'm.example', base], // prettier-ignore
    ['google', { ...refreshing, base_url: 'https://google.proxy.acme.com' }, 'google.proxy.acme.com', base],
    ['google', keyFile('https://evil.example/token'), 'evil.example', tokenUri],
    ['google', keyFile('https://oauth2.googleapis.com/other'), 'oauth2.googleapis.com', tokenUri],
    ['google', { ...keyFile('https://oauth2.googleapis.com/token'), base_url: 'https://oauth2.googleapis.com' }, 'oauth2.googleapis.com', base], // prettier-ignore
  ]
  test.each(foreign)('of %s with %j is the foreign host `%s`', (name, given, host, path) => {
    const { foreign: addresses, ...rest } = read(name, given)
    expect(rest).toEqual({ host, isOwn: false })
    expect(addresses[0]).toMatchObject({ path })
  })

  function read(name: Connectable, given: Given) {
    const declaration = integrationNamed(name) as IntegrationDeclaration
    const found = destinationOf(declaration, declaration.credential.parse(given), settings)
    if (found === null) throw new Error('it has no address')
    return found
  }
})

describe('a connection to a host that is not the service’s own', () => {
  let host: string
  beforeEach(() => {
    host = new URL(server.url).host
    set({ hosts: loopbackHosts, trackerBaseUrl: server.url })
    const body = { ok: true, user: 'u', data: [], results: [], login: 'octo' }
    server.answer = () => ({ status: 200, body })
  })

  const page = { limit: 10, cursor: null }
  const set = (some: { hosts?: readonly NamedHost[]; trackerBaseUrl?: string }) =>
    Object.assign(engine.context.config.connections, some)
  const credentials: [ToolName, (base_url: string) => Given][] = [
    ['web_search', (base_url) => ({ provider: 'searxng', base_url })],
    ['llm_generate', (base_url) => ({ ...openai, base_url })],
    ['github_get_issue', (base_url) => ({ ...token, base_url })],
    ['slack_send_message', (base_url) => ({ ...token, base_url })],
    ['trello_get_card', (base_url) => ({ key: 'k', token: 't', base_url })],
    ['mail_send', (base_url) => ({ provider: 'resend', api_key: 'k', from: 'desk@acme.example', base_url })],
    ['docs_read', (base_url) => ({ ...refreshing, base_url })],
    ['drive_search', (base_url) => keyFile(`${base_url}/token`)],
  ]
  const github = (name: Name, scope?: Scope) =>
    connectAs(name, 'github_get_issue', { ...token, base_url: server.url }, scope)
  const use = (name: Name, tool: ToolName = 'github_get_issue', integration: Connectable = 'github') =>
    createToolServices(engine.context).connection(
      { organizationId: engine.organizationId, requester: { userId: engine.caller(name).userId } },
      tool,
      integration,
    )

  test.each(credentials)('for `%s` is refused to a member, and nothing is sent', async (tool, credential) => {
    await expect(connectAs('member', tool, credential(server.url))).rejects.toMatchObject({
      code: 'insufficient_role',
      details: [{ path: 'admin' }],
    })
    expect(server.arrived).toEqual([])
  })

  test.each(credentials)('for `%s` needs a host that the operator names', async (tool, credential) => {
    for (const name of ['admin', 'owner'] as const)
      await expect(connectAs(name, tool, credential('https://evil.example'))).rejects.toMatchObject({
        code: 'validation_error',
        details: [
          {
            path: expect.stringMatching(/^credential\.(?:base_url|service_account\.token_uri)$/),
            message: expect.stringContaining('let the operator name `evil.example` in CONNECTION_HOSTS'),
          },
        ],
      })
  })

  test('shows its host in its answers, in the list of tools and in its audit entry', async () => {
    const made = await github('admin')
    const shown = { destination: host, own_host: false }
    expect(made).toMatchObject(shown)
    const { db, config } = engine.context
    expect(
      (await listOwned(engine.context, connectionRows, engine.caller('admin'), page)).data,
    ).toMatchObject([shown])
    const connected = await readConnected(db, engine.organizationId, engine.caller('admin').userId)
    const tool = getTool('github_comment') as ToolDeclaration
    const { userId } = engine.caller('admin')
    expect(toolDestination(config.tools, connected, tool, userId)).toMatchObject({
      destination: host,
      ownHost: false,
    })
    expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([{ metadata: shown }])
  })

  test('a call that is tried counts as in a run: text to it is sent out', async () => {
    const call = { tool: 'github_create_issue', params: { repo: 'acme/app', title: 't' }, labels: [] }
    const tried = () => tryRules(engine.context, engine.caller('admin'), call, null)
    expect((await tried()).side_effect).toBe('write')
    await github('admin')
    expect((await tried()).side_effect).toBe('egress')
  })

  test('gets no call once the operator no longer names the host', async () => {
    await github('admin')
    expect((await use('admin')).base).toBe(server.url)
    server.arrived.length = 0
    set({ hosts: [] })
    await expect(use('admin')).rejects.toMatchObject({
      code: 'tool_not_available',
      retryable: false,
      message: expect.stringContaining('CONNECTION_HOSTS'),
    })
    expect(server.arrived).toEqual([])
  })

  test('is revoked when its person is no longer an admin; the organization’s stays', async () => {
    const ofAll = await github('admin', 'organization')
    const own = await github('admin')
    const { userId } = engine.caller('admin')
    await changeRole(engine.context, engine.caller('owner'), userId, 'member')
    try {
      const { data } = await listOwned(engine.context, connectionRows, engine.caller('owner'), page)
      const statuses = Object.fromEntries(data.map(({ id, status }) => [id, status]))
      expect(statuses).toEqual({ [ofAll.id]: 'active', [own.id]: 'revoked' })
    } finally {
      await changeRole(engine.context, engine.caller('owner'), userId, 'admin')
    }
  })

  test('is not saved if its person is no longer an admin when the service answers', async () => {
    const { userId } = engine.caller('admin')
    const write = async (response: ServerResponse): Promise<void> => {
      await changeRole(engine.context, engine.caller('owner'), userId, 'member')
      response.end('{"login":"octo"}')
    }
    server.answer = () => ({ status: 200, write: (response) => void write(response) })
    try {
      await expect(github('admin')).rejects.toMatchObject({ code: 'insufficient_role' })
    } finally {
      await changeRole(engine.context, engine.caller('owner'), userId, 'admin')
    }
    expect(await engine.context.db.selectFrom('connections').selectAll().execute()).toEqual([])
  })

  test('an address that the operator moves gets no call with a credential for the former one', async () => {
    const jira = { email: 'a@b.example', token: 't' }
    expect(await connectAs('member', 'jira_search', jira)).toMatchObject({
      destination: host,
      own_host: true,
    })
    expect((await use('member', 'jira_search', 'jira')).base).toBe(server.url)
    set({ trackerBaseUrl: server.url.replace('127.0.0.1', 'localhost') })
    await expect(use('member', 'jira_search', 'jira')).rejects.toMatchObject({ code: 'tool_not_available' })
  })
})

const contextOf = (hosts: readonly NamedHost[], trackerBaseUrl: string | null) => ({
  outgoing: hosts === loopbackHosts ? outgoing : createOutgoing({ hosts }),
  config: { connections: { hosts, trackerBaseUrl, google: { client: null, baseUrl: null }, standIns: null } },
})
const jira = integrationNamed('jira') as IntegrationDeclaration

async function check(name: Connectable, given: object) {
  const declaration = integrationNamed(name) as IntegrationDeclaration
  const context = contextOf(loopbackHosts, server.url)
  const { credential, addresses } = readCredential(context, declaration, given, 'admin')
  return checkCredential(context, declaration, { credential, accessToken: null }, addresses, signal)
}

test('Slack’s own protocol, as its emulator speaks it', async () => {
  expect(await check('slack', { token: emulatorToken, base_url: `${slack.url}/api` })).toEqual({
    account: 'admin, Emulate',
  })
})

const own = () => ({ base_url: server.url })
const resend = { provider: 'resend', api_key: 're_1' }
const anthropic = { ...openai, provider: 'anthropic' }
const basic = `Basic ${Buffer.from('ana@acme.example:jt').toString('base64')}`
/** Resend’s documented answer to a key that may only send. */
const onlySends = { name: 'restricted_api_key', message: 'This API key is restricted to only send emails' }
const me = { displayName: 'Ana', emailAddress: 'ana@acme.example' }
const oauth = 'OAuth oauth_consumer_key="k1", oauth_token="t1"'
/** Columns: account, integration, credential, path and header of the request, body and status of its answer. */
const accepted: [string, Connectable, object, string, string | object, unknown, number?][] = [
  ['bot, Acme', 'slack', { token: 'x' }, '/auth.test', 'Bearer x', { ok: true, user: 'bot', team: 'Acme' }],
  ['ana@acme.example', 'jira', { email: 'ana@acme.example', token: 'jt' }, '/rest/api/3/myself', basic, me],
  ['ana', 'trello', { key: 'k1', token: 't1' }, '/1/members/me', oauth, { username: 'ana' }],
  ['searxng', 'search', { provider: 'searxng' }, '/search?q=countersign&format=json', {}, { results: [] }],
  ['tavily', 'search', { provider: 'tavily', api_key: 'tv' }, '/usage', 'Bearer tv', { key: { usage: 1 } }],
  ['Desk <d@a.example>', 'mail', { ...resend, from: 'Desk <d@a.example>' }, '/domains', 'Bearer re_1', {}],
  ['d@acme.example', 'mail', { ...resend, from: 'd@acme.example' }, '/domains', {}, onlySends, 401],
  ['anthropic', 'llm', anthropic, '/models', { 'x-api-key': 'k' }, { data: [] }],
  // Some servers with this protocol do not have the list of models.
  ['openai', 'llm', openai, '/models', 'Bearer k', 'no', 404],
  ['ollama', 'llm', { provider: 'ollama', model: 'm' }, '/api/tags', {}, { models: [] }],
]
test.each(accepted)('the account %s of %s is asked as documented', async (account, name, given, ...row) => {
  const [path, header, body, status = 200] = row
  server.answer = () => ({ status, body })
  expect(await check(name, name === 'jira' ? given : { ...given, ...own() })).toEqual({ account })
  const method = name === 'slack' ? 'POST' : 'GET'
  const headers = typeof header === 'string' ? { authorization: header } : header
  expect(server.arrived).toMatchObject([{ method, path, headers }])
})

test('Brave counts every call, so it is not asked', async () => {
  expect(await check('search', { provider: 'brave', api_key: 'k', ...own() })).toEqual({ account: 'brave' })
  expect(server.arrived).toEqual([])
})

describe('a refusal', () => {
  const [token, key] = [{ token: 'hunter2' }, { api_key: 'hunter2' }]
  const mail = { provider: 'resend', ...key, from: 'desk@acme.example' }
  const wrongKey = (status: number, name: string): Scripted => {
    return { status, body: { name, message: 'API key is invalid' } }
  }
  const slackError = (error: string): Scripted => ({ status: 200, body: { ok: false, error } })
  const invalid = 'validation_error'
  const refused: [Connectable, object, Scripted, string, string][] = [
    ['slack', token, slackError('invalid_auth'), invalid, '`invalid_auth`'],
    ['slack', token, slackError('hunter2 is wrong'), invalid, 'did not accept'],
    ['slack', token, slackError('ratelimited'), 'unavailable', 'could not be checked'],
    ['trello', { key: 'k', ...token }, { status: 401, body: 'invalid key' }, invalid, '401'],
    ['search', { provider: 'searxng' }, { status: 403, body: '' }, invalid, 'search.formats'],
    ['search', { provider: 'tavily', ...key }, { status: 403, body: {} }, invalid, '403'],
    ['mail', mail, wrongKey(400, 'validation_error'), invalid, 'it answered 400'],
    ['mail', mail, wrongKey(401, 'validation_error'), invalid, 'it answered 401'],
    ['mail', mail, wrongKey(403, 'invalid_api_key'), invalid, 'it answered 403'],
    ['llm', { ...openai, ...key }, { status: 401, body: {} }, invalid, '401'],
    ['llm', { ...anthropic, ...key }, { status: 529, body: {} }, 'unavailable', '529'],
  ]
  test.each(refused)('by %s %j %j is %s', async (name, given, answer, code, words) => {
    server.answer = () => answer
    const error = await check(name, { ...given, ...own() }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code, message: expect.stringContaining(words) })
    expect((error as Error).message).not.toContain('hunter2')
  })

  test.each([
    'desk',
    'desk@acme.example\r\nBcc: x@evil.example',
    'A, B <desk@acme.example>',
    'x <y> <desk@acme.example>',
    '<desk@acme.example>, x@evil.example',
  ])('of the sender %j comes before anything is sent', async (from) => {
    await expect(check('mail', { ...mail, from, ...own() })).rejects.toMatchObject({
      code: 'validation_error',
    })
    expect(server.arrived).toEqual([])
  })

  test.each([null, 'http://jira.acme.example', 'http://127.0.0.1:1', 'ftp://jira.acme.example'])(
    'of Jira at %s names what the operator must set, unless the operator named the host',
    (address) => {
      const given = { email: 'a@b.example', token: 'hunter2' }
      expect(() => readCredential(contextOf([], address), jira, given, 'member')).toThrow(
        address === null
          ? 'TRACKER_BASE_URL'
          : /the operator must change TRACKER_BASE_URL \(it is (?:plain http: use https|no https address)/,
      )
    },
  )
})

/** A tool that needs a connection for the web search. */
const tool: ToolDeclaration = { ...(getTool('mail_send') as ToolDeclaration), connection: 'search' }
const opOfSearch = (runId: string): ResolvedCall => opOf(runId, { tool })
/** The runs are started by `member`. */
const connectSearch = (who: 'member' | 'admin', scope: Scope) =>
  connectAs(who, 'web_search', { provider: 'brave', api_key: 'k' }, scope)

describe('a call whose service is not connected', () => {
  const cases = [
    ['revoked', 'tool_not_available'],
    ['expired', 'connection_expired'],
  ] as const
  test.each(cases)('fails although it was held and approved before it was %s', async (what, code) => {
    const connection = await connectSearch('member', 'personal')
    await engine.rules(holdRule())
    const op = opOfSearch(await engine.run())
    await engine.vote(await hold(engine, op), 'admin')
    if (what === 'revoked') await revokeConnection(engine.context, engine.caller('member'), connection.id)
    else await expireConnection(engine.context, connection)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
    expect(await effectOf(engine.context, op)).toMatchObject({
      error: { code, message: expect.stringContaining('/connect`') },
    })
  })

  test('fails for everybody but the person who connected it', async () => {
    await connectSearch('admin', 'personal')
    expect(await engine.decide(opOfSearch(await engine.run()))).toMatchObject({ go: false, state: 'failed' })
    await connectSearch('admin', 'organization')
    await go(engine, opOfSearch(await engine.run()))
  })

  test('is denied by the policy of its role, whoever has connected what', async () => {
    const policy = { tool_name: 'mail_send', allowed: false, restrictions: {}, role: 'member' } as const
    await createToolPolicy(engine.context, engine.caller('admin'), policy, null)
    for (const scope of ['organization', 'personal'] as const) {
      await connectSearch(scope === 'personal' ? 'member' : 'admin', scope)
      const op = opOfSearch(await engine.run())
      expect(await engine.decide(op)).toMatchObject({ go: false, state: 'denied' })
    }
    await deleteToolPolicy(engine.context, engine.caller('admin'), 'mail_send', 'member')
    await go(engine, opOfSearch(await engine.run()))
  })

  test('fails in every process from the revocation on', async () => {
    const connection = await connectSearch('member', 'personal')
    const other = engine.another()
    const decide = (op: ResolvedCall) => other.combiner.join(engine.organizationId, decideSteps, op)
    expect(await decide(opOfSearch(await engine.run()))).toMatchObject({ go: true })
    await revokeConnection(engine.context, engine.caller('member'), connection.id)
    expect(await decide(opOfSearch(await engine.run()))).toMatchObject({ go: false, state: 'failed' })
  })
})
