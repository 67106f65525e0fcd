import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { integrationNamed, type Connectable } from '../../../src/catalog/integrations/index.ts'
import type { IntegrationDeclaration } from '../../../src/catalog/integrations/integration.ts'
import { checkCredential, readCredential } from '../../../src/governance/connections/credential-check.ts'
import { loopbackHosts } from '../../../src/shared/outgoing/hosts.ts'
import { createOutgoing } from '../../../src/shared/outgoing/outgoing.ts'
import { emulatorToken, startEmulator, type Emulator } from '../../support/emulators.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from '../../support/scripted-server.ts'

let server: ScriptedServer
let slack: Emulator
const outgoing = createOutgoing({ hosts: loopbackHosts })
beforeAll(async () => {
  ;[server, slack] = await Promise.all([startScriptedServer(), startEmulator('slack')])
})
beforeEach(() => {
  server.arrived.length = 0
})
afterAll(() => Promise.all([server?.close(), slack?.close(), outgoing.close()]))

const noGoogle = { client: null, baseUrl: null }

async function check(name: Connectable, given: object) {
  const declaration = integrationNamed(name) as IntegrationDeclaration
  const context = {
    outgoing,
    config: { connections: { hosts: loopbackHosts, trackerBaseUrl: server.url, google: noGoogle } },
  }
  const { credential, addresses } = readCredential(context, declaration, given, 'admin')
  const first = { credential, accessToken: null }
  return checkCredential(context, declaration, first, addresses, new AbortController().signal)
}

test('Slack’s own protocol, as its emulator speaks it', async () => {
  expect(await check('slack', { token: emulatorToken, base_url: `${slack.url}/api` })).toEqual({
    account: 'admin, Emulate',
  })
})

const own = () => ({ base_url: server.url })
/** Columns: integration, credential, the request that the service documents, the service's answer, the account. */
const accepted: [Connectable, () => object, object, Scripted, string | null][] = [
  [
    'slack',
    () => ({ token: 'xoxb-1', ...own() }),
    { method: 'POST', path: '/auth.test', headers: { authorization: 'Bearer xoxb-1' } },
    { status: 200, body: { ok: true, user: 'bot', team: 'Acme' } },
    'bot, Acme',
  ],
  [
    'jira',
    () => ({ email: 'ana@acme.example', token: 'jt' }),
    {
      method: 'GET',
      path: '/rest/api/3/myself',
      headers: { authorization: `Basic ${Buffer.from('ana@acme.example:jt').toString('base64')}` },
    },
    { status: 200, body: { displayName: 'Ana', emailAddress: 'ana@acme.example' } },
    'ana@acme.example',
  ],
  [
    'trello',
    () => ({ key: 'k1', token: 't1', ...own() }),
    {
      method: 'GET',
      path: '/1/members/me',
      headers: { authorization: 'OAuth oauth_consumer_key="k1", oauth_token="t1"' },
    },
    { status: 200, body: { username: 'ana' } },
    'ana',
  ],
  [
    'search',
    () => ({ provider: 'searxng', ...own() }),
    { method: 'GET', path: '/search?q=countersign&format=json' },
    { status: 200, body: { results: [] } },
    'searxng',
  ],
  [
    'search',
    () => ({ provider: 'tavily', api_key: 'tvly', ...own() }),
    { method: 'GET', path: '/usage', headers: { authorization: 'Bearer tvly' } },
    { status: 200, body: { key: { usage: 1 } } },
    'tavily',
  ],
  [
    'mail',
    () => ({ provider: 'resend', api_key: 're_1', from: 'Desk <desk@acme.example>', ...own() }),
    { method: 'GET', path: '/domains', headers: { authorization: 'Bearer re_1' } },
    { status: 200, body: { data: [] } },
    'Desk <desk@acme.example>',
  ],
  [
    'mail',
    () => ({ provider: 'resend', api_key: 're_1', from: 'desk@acme.example', ...own() }),
    { method: 'GET', path: '/domains' },
    // The service's documented answer to a key that may only send.
    {
      status: 401,
      body: { name: 'restricted_api_key', message: 'This API key is restricted to only send emails' },
    },
    'desk@acme.example',
  ],
  [
    'llm',
    () => ({ provider: 'anthropic', api_key: 'sk', model: 'm', ...own() }),
    { method: 'GET', path: '/models', headers: { 'x-api-key': 'sk' } },
    { status: 200, body: { data: [] } },
    'anthropic',
  ],
  [
    'llm',
    () => ({ provider: 'openai', api_key: 'sk', model: 'm', ...own() }),
    { method: 'GET', path: '/models', headers: { authorization: 'Bearer sk' } },
    // Some servers with this protocol do not have the list of models.
    { status: 404, body: 'no' },
    'openai',
  ],
  [
    'llm',
    () => ({ provider: 'ollama', model: 'm', ...own() }),
    { method: 'GET', path: '/api/tags' },
    { status: 200, body: { models: [] } },
    'ollama',
  ],
]
test.each(accepted)('%s is asked as it documents', async (name, given, request, answer, account) => {
  server.answer = () => answer
  expect(await check(name, given())).toEqual({ account })
  expect(server.arrived).toMatchObject([request])
})

test('Brave counts every call, so it is not asked', async () => {
  expect(await check('search', { provider: 'brave', api_key: 'k', ...own() })).toEqual({ account: 'brave' })
  expect(server.arrived).toEqual([])
})

describe('a refusal', () => {
  const token = { token: 'hunter2' }
  const refused: [Connectable, object, Scripted, string, string][] = [
    [
      'slack',
      token,
      { status: 200, body: { ok: false, error: 'invalid_auth' } },
      'validation_error',
      '`invalid_auth`',
    ],
    [
      'slack',
      token,
      { status: 200, body: { ok: false, error: 'hunter2 is wrong' } },
      'validation_error',
      'did not accept',
    ],
    [
      'slack',
      token,
      { status: 200, body: { ok: false, error: 'ratelimited' } },
      'unavailable',
      'could not be checked',
    ],
    ['trello', { key: 'k', ...token }, { status: 401, body: 'invalid key' }, 'validation_error', '401'],
    ['search', { provider: 'searxng' }, { status: 403, body: '' }, 'validation_error', 'search.formats'],
    [
      'search',
      { provider: 'tavily', api_key: 'hunter2' },
      { status: 403, body: {} },
      'validation_error',
      '403',
    ],
    ...([400, 401, 403] as const).map((status): (typeof refused)[number] => [
      'mail',
      { provider: 'resend', api_key: 'hunter2', from: 'desk@acme.example' },
      {
        status,
        body: {
          name: status === 403 ? 'invalid_api_key' : 'validation_error',
          message: 'API key is invalid',
        },
      },
      'validation_error',
      `it answered ${status}`,
    ]),
    [
      'llm',
      { provider: 'openai', model: 'm', api_key: 'hunter2' },
      { status: 401, body: {} },
      'validation_error',
      '401',
    ],
    [
      'llm',
      { provider: 'anthropic', model: 'm', api_key: 'hunter2' },
      { status: 529, body: {} },
      'unavailable',
      '529',
    ],
  ]
  test.each(refused)('by %s %j %j is %s', async (name, given, answer, code, words) => {
    server.answer = () => answer
    const error = await check(name, { ...given, ...own() }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code, message: expect.stringContaining(words) })
    expect((error as Error).message).not.toContain('hunter2')
  })

  test('of a mail service at a host that the operator does not name comes before anything is sent', async () => {
    const given = { provider: 'resend', api_key: 'hunter2', from: 'desk@acme.example' }
    const elsewhere = { ...given, base_url: 'https://mail.evil.example' }
    await expect(check('mail', elsewhere)).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'credential.base_url', message: expect.stringContaining('CONNECTION_HOSTS') }],
    })
    expect(server.arrived).toEqual([])
  })

  test.each([
    'desk',
    'desk@acme.example\r\nBcc: x@evil.example',
    'A, B <desk@acme.example>',
    'x <y> <desk@acme.example>',
    '<desk@acme.example>, x@evil.example',
  ])('of the sender %j comes before anything is sent', async (from) => {
    const given = { provider: 'resend', api_key: 'hunter2', from, ...own() }
    await expect(check('mail', given)).rejects.toMatchObject({ code: 'validation_error' })
    expect(server.arrived).toEqual([])
  })

  test('of Jira without an address says what the operator must set', () => {
    const declaration = integrationNamed('jira') as IntegrationDeclaration
    const context = {
      outgoing,
      config: { connections: { hosts: [], trackerBaseUrl: null, google: noGoogle } },
    }
    expect(() =>
      readCredential(context, declaration, { email: 'a@b.example', token: 't' }, 'member'),
    ).toThrow('TRACKER_BASE_URL')
  })

  test.each(['http://jira.acme.example', 'http://127.0.0.1:1', 'ftp://jira.acme.example'])(
    'of Jira at %s names the setting, unless the operator named the host',
    (trackerBaseUrl) => {
      const declaration = integrationNamed('jira') as IntegrationDeclaration
      const config = { connections: { hosts: [], trackerBaseUrl, google: noGoogle } }
      const strict = createOutgoing({ hosts: [] })
      const credential = { email: 'a@b.example', token: 'hunter2' }
      expect(() => readCredential({ outgoing: strict, config }, declaration, credential, 'member')).toThrow(
        /the operator must change TRACKER_BASE_URL \(it is (?:plain http: use https|no https address)/,
      )
    },
  )
})
