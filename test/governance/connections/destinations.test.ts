import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createToolServices } from '../../../src/activities/tools/services.ts'
import { integrationNamed, type Connectable } from '../../../src/catalog/integrations/index.ts'
import { destinationOf, type IntegrationDeclaration } from '../../../src/catalog/integrations/integration.ts'
import type { ToolName } from '../../../src/catalog/index.ts'
import { connect, listConnections } from '../../../src/governance/connections/connections.ts'
import { changeRole } from '../../../src/governance/people/members.ts'
import { readConnected, toolDestination } from '../../../src/governance/tools/connections.ts'
import { getTool } from '../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../src/catalog/tool.ts'
import { loopbackHosts, type NamedHost } from '../../../src/shared/outgoing/hosts.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { auditOf } from '../support.ts'
import { useEngine, type Engine } from '../runs/engine-fixture.ts'

/* Where a connection sends its calls, and who may decide that it is not the service itself. */

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

  const foreign: [Connectable, Given, string, string][] = [
    ['github', { ...token, base_url: 'https://api.github.com.evil.example' }, 'api.github.com.evil.example', 'base_url'], // prettier-ignore
    ['github', { ...token, base_url: 'https://api.github.com.' }, 'api.github.com.', 'base_url'],
    ['github', { ...token, base_url: 'https://api.github.com:8443' }, 'api.github.com:8443', 'base_url'],
    ['github', { ...token, base_url: 'http://api.github.com' }, 'api.github.com', 'base_url'],
    ['github', { ...token, base_url: 'https://api.github.com/repos/evil' }, 'api.github.com', 'base_url'],
    ['github', { ...token, base_url: 'https://аpi.github.com' }, 'xn--pi-6kc.github.com', 'base_url'],
    ['github', { ...token, base_url: 'https://evil.example\\@api.github.com' }, 'evil.example', 'base_url'],
    ['slack', { ...token, base_url: 'https://slack.com/api/..' }, 'slack.com', 'base_url'],
    ['slack', { ...token, base_url: 'https://slack.com/api%2f..' }, 'slack.com', 'base_url'],
    ['trello', { key: 'k', token: 't', base_url: 'https://trello.com' }, 'trello.com', 'base_url'],
    ['search', { provider: 'searxng', base_url: 'https://s.example' }, 's.example', 'base_url'],
    ['search', { provider: 'brave', api_key: 'k', base_url: 'https://api.tavily.com' }, 'api.tavily.com', 'base_url'], // prettier-ignore
    ['llm', { ...openai, base_url: 'https://api.anthropic.com/v1' }, 'api.anthropic.com', 'base_url'],
    ['llm', { ...openai, provider: 'ollama' }, '127.0.0.1:11434', 'base_url'],
    ['llm', { ...openai, provider: 'ollama', base_url: 'https://api.openai.com/v1' }, 'api.openai.com', 'base_url'], // prettier-ignore
    ['mail', { provider: 'resend', api_key: 'k', from: 'desk@acme.example', base_url: 'https://m.example' }, 'm.example', 'base_url'], // prettier-ignore
    ['google', { ...refreshing, base_url: 'https://google.proxy.acme.com' }, 'google.proxy.acme.com', 'base_url'], // prettier-ignore
    ['google', keyFile('https://evil.example/token'), 'evil.example', 'service_account.token_uri'],
    ['google', keyFile('https://oauth2.googleapis.com/other'), 'oauth2.googleapis.com', 'service_account.token_uri'], // prettier-ignore
    ['google', { ...keyFile('https://oauth2.googleapis.com/token'), base_url: 'https://oauth2.googleapis.com' }, 'oauth2.googleapis.com', 'base_url'], // prettier-ignore
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
  let engine: Engine
  let server: ScriptedServer
  let host: string
  useEngine((started) => (engine = started))
  beforeAll(async () => {
    server = await startScriptedServer()
    server.answer = () => ({
      status: 200,
      body: { ok: true, user: 'u', data: [], results: [], login: 'octo' },
    })
    host = new URL(server.url).host
  })
  afterAll(() => server?.close())
  beforeEach(async () => {
    set({ hosts: loopbackHosts, trackerBaseUrl: server.url })
    await engine.context.db.deleteFrom('connections').execute()
    server.arrived.splice(0)
  })

  type Name = 'owner' | 'admin' | 'member'
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
  const connectAs = (name: Name, tool: string, credential: Given, scope: 'personal' | 'organization' = 'personal') =>
    connect(engine.context, engine.caller(name), { tool, credential, scope, name: undefined }, new AbortController().signal) // prettier-ignore
  const github = (name: Name, scope?: 'personal' | 'organization') =>
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
    const page = { limit: 10, cursor: null }
    expect((await listConnections(db, engine.caller('admin'), page)).data).toMatchObject([shown])
    const connected = await readConnected(db, engine.organizationId, engine.caller('admin').userId)
    const tool = getTool('github_comment') as ToolDeclaration
    const { userId } = engine.caller('admin')
    expect(toolDestination(config.tools, connected, tool, userId)).toMatchObject({
      destination: host,
      ownHost: false,
    })
    expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([{ metadata: shown }])
  })

  test('gets no call once the operator no longer names the host', async () => {
    await github('admin')
    expect((await use('admin')).base).toBe(server.url)
    server.arrived.splice(0)
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
      const { data } = await listConnections(engine.context.db, engine.caller('owner'), {
        limit: 10,
        cursor: null,
      })
      const statuses = Object.fromEntries(data.map(({ id, status }) => [id, status]))
      expect(statuses).toEqual({ [ofAll.id]: 'active', [own.id]: 'revoked' })
    } finally {
      await changeRole(engine.context, engine.caller('owner'), userId, 'admin')
    }
  })

  test('is not saved if its person is no longer an admin when the service answers', async () => {
    const { userId } = engine.caller('admin')
    const { answer } = server
    const write = async (response: ServerResponse): Promise<void> => {
      await changeRole(engine.context, engine.caller('owner'), userId, 'member')
      response.end('{"login":"octo"}')
    }
    server.answer = () => ({ status: 200, write: (response) => void write(response) })
    try {
      await expect(github('admin')).rejects.toMatchObject({ code: 'insufficient_role' })
    } finally {
      server.answer = answer
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
