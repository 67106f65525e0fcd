import { generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { jwtVerify } from 'jose'
import { createToolServices } from '../../../src/activities/tool-services.ts'
import { catalog, getTool, type ToolName } from '../../../src/tools/index.ts'
import { connect, revokeConnection } from '../../../src/governance/connections/connections.ts'
import { startEmulator, type Emulator } from '../../support/emulators.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from '../../support/scripted-server.ts'
import { effectOf, opOf, startEngine, type Engine } from '../runs/engine-fixture.ts'
import { google } from '../../../src/tools/google/connect.ts'
import { beginAuthorization, finishAuthorization } from '../../../src/governance/connections/authorize.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { readConnected, toolView } from '../../../src/governance/tools/connections.ts'
import { until } from '../../stack/until.ts'

const email = 'bot@acme.iam.gserviceaccount.com'
const ana = 'ana@acme.example'
const client = { id: 'an-id', secret: 'a-secret-5b2e' }
const publicUrl = 'http://127.0.0.1:9'
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string

/** Google’s emulator, and a server in place of Google for single answers. */
let emulator: Emulator
let server: ScriptedServer
let engine: Engine
beforeAll(async () => {
  const redirect_uris = [`${publicUrl}/api/v1/connections/callback/google`]
  const own = { client_id: client.id, client_secret: client.secret, name: 'Countersign', redirect_uris }
  ;[server, emulator] = await Promise.all([
    startScriptedServer(),
    startEmulator('google', { users: [{ email: ana, name: 'Ana' }], oauth_clients: [own] }),
  ])
  engine = await startEngine({
    PUBLIC_URL: publicUrl,
    GOOGLE_CLIENT_ID: client.id,
    GOOGLE_CLIENT_SECRET: client.secret,
    GOOGLE_BASE_URL: emulator.url,
  })
})
afterAll(() => Promise.all([server?.close(), emulator?.close(), engine?.close()]))
beforeEach(async () => {
  await engine.context.db.deleteFrom('connections').execute()
  server.arrived.length = 0
  let count = 0
  server.answer = () => tokenAnswer(`token-${(count += 1)}`)
})

const tokenAnswer = (token: string, more: object = {}): Scripted => ({
  status: 200,
  body: { access_token: token, token_type: 'Bearer', expires_in: 3600, ...more },
})
const { signal } = new AbortController()
/** Connects Google for an admin with this credential: not every server here is Google's own. */
const connectWith = (credential: unknown) => {
  const wanted = { tool: 'docs_read', credential, scope: 'personal', name: undefined } as const
  return connect(engine.context, engine.caller('admin'), wanted, signal)
}
/** The connection that a call of the admin's run uses. */
const use = (tool: ToolName = 'docs_read') =>
  createToolServices(engine.context).connection(
    { organizationId: engine.organizationId, requester: { userId: engine.caller('admin').userId } },
    tool,
    'google',
  )
const own = () => ({
  client_id: client.id,
  client_secret: 's3cret',
  refresh_token: 'r1',
  base_url: server.url,
})

describe('a refresh token of somebody’s own client', () => {
  /** Simulates Google without checking requests against Google's description. */
  const play = (token: Scripted, account: Scripted = { status: 200, body: { email: ana } }) => {
    server.answer = ({ path }) =>
      path === '/token' ? token : path === '/oauth2/v2/userinfo' ? account : { status: 404, body: {} }
  }

  test('is checked by a refresh, and the account is named', async () => {
    play(tokenAnswer('a1', { refresh_token: 'r2' }))
    expect(await connectWith(own())).toMatchObject({ account: ana, name: `Google (${ana})` })
    const sent = server.arrived.find(({ path }) => path === '/token')
    expect(Object.fromEntries(new URLSearchParams(sent?.body))).toMatchObject({
      grant_type: 'refresh_token',
      refresh_token: 'r1',
      client_secret: 's3cret',
    })
    const { credential, headers } = await use()
    expect(credential).toMatchObject({ refresh_token: 'r2' })
    expect(headers).toMatchObject({ authorization: 'Bearer a1' })
  })

  test('without the scope that names the person has no account', async () => {
    play(tokenAnswer('a1'), { status: 401, body: {} })
    expect(await connectWith(own())).toMatchObject({ account: null, name: 'Google' })
  })

  const refusals: [string, string][] = [
    ['invalid_grant', 'make a new one'],
    ['invalid_client', 'check `client_id`'],
    ['s3cret is wrong', 'an unknown error'],
  ]
  test.each(refusals)('that Google refuses with %s is not connected', async (code, words) => {
    play({ status: 400, body: { error: code, error_description: 'r1 s3cret' } })
    const thrown = await connectWith(own()).catch((each: unknown) => each)
    expect(thrown).toMatchObject({ code: 'validation_error', message: expect.stringContaining(words) })
    expect(JSON.stringify([thrown, (thrown as Error).message])).not.toMatch(/s3cret|r1/)
  })

  test('is not sent to an endpoint elsewhere that the server’s description names', async () => {
    const elsewhere = 'http://localhost:1/token'
    const body = { issuer: server.url, authorization_endpoint: `${server.url}/a`, token_endpoint: elsewhere }
    server.answer = () => ({ status: 200, body })
    await expect(connectWith(own())).rejects.toMatchObject({ code: 'validation_error' })
    expect(server.arrived.map(({ path }) => path)).toEqual(['/.well-known/openid-configuration'])
  })

  test('is not revoked at Google when the connection is: it was not made for this service', async () => {
    play(tokenAnswer('a1'))
    const { id } = await connectWith(own())
    server.arrived.length = 0
    await revokeConnection(engine.context, engine.caller('admin'), id)
    expect(server.arrived).toEqual([])
  })

  test('cannot be given in the form of an authorization', async () => {
    const authorized = { authorized: { client_id: client.id, refresh_token: 'stolen' } }
    await expect(connectWith(authorized)).rejects.toMatchObject({ code: 'validation_error' })
  })
})

test('an authorization at Google’s own protocol, as its emulator speaks it', async () => {
  const caller = engine.caller('admin')
  const wanted = { tool: 'drive_search', scope: 'personal', name: undefined } as const
  const begun = await beginAuthorization(engine.context, caller, wanted)
  const form = new URLSearchParams(new URL(begun.authorization_url).searchParams)
  form.set('email', ana)
  const page = `${emulator.url}/o/oauth2/v2/auth/callback`
  const back = await fetch(page, { method: 'POST', body: form, redirect: 'manual' })
  const { searchParams } = new URL(back.headers.get('location') ?? '')
  const finished = await finishAuthorization(engine.context, caller, 'google', searchParams, signal)
  expect(finished).toMatchObject({ kind: 'connected', connection: { account: ana, integration: 'google' } })
  const { fetchWithin, headers } = await use('drive_search')
  const get = fetchWithin({ milliseconds: 30_000, bytes: 1_000_000 })
  const answer = await get(`${emulator.url}/drive/v3/files`, { headers })
  expect(answer.status).toBe(200)
})

test('every tool of Google names its scopes', () => {
  for (const tool of Object.values(catalog))
    if (tool.connection === 'google') expect(google.grant?.scopesOf(tool.name)).not.toEqual([])
})

describe('rights that the person has granted', () => {
  const scope = (name: string): string => `https://www.googleapis.com/auth/${name}`
  const grants = (granted: string | undefined) => {
    server.answer = ({ path }) => {
      if (path.includes('/.well-known/')) return { status: 404, body: '' }
      if (path === '/token')
        return tokenAnswer('t', { expires_in: 1, ...(granted === undefined ? {} : { scope: granted }) })
      return { status: 200, body: { email: ana } }
    }
  }
  test('are checked before a call, and the message names the missing one', async () => {
    grants(`openid ${scope('spreadsheets')}`)
    await connectWith(own())
    await use('sheets_read')
    server.arrived.length = 0
    const thrown = await use('docs_read').catch((error: unknown) => error)
    expect(thrown).toMatchObject({ code: 'connection_lacks_scope', retryable: false })
    expect((thrown as Error).message).toContain(scope('documents.readonly'))
    expect((thrown as Error).message).toContain('POST /tools/docs_read/connect')
    expect(server.arrived).toEqual([])
    // The connection still works for its other tools.
    await use('sheets_append')
  })

  test('are shown by the list of tools: connected, and not available', async () => {
    grants(`openid ${scope('spreadsheets')}`)
    await connectWith(own())
    const shown = async (name: ToolName) => {
      const tool = getTool(name) as ToolDeclaration
      const { organizationId } = engine
      const { userId } = engine.caller('admin')
      const connected = await readConnected(engine.context.db, organizationId, userId)
      return toolView(engine.context.config.tools, connected, tool, userId)
    }
    expect(await shown('sheets_read')).toMatchObject({ connected: true, available: true })
    expect(await shown('docs_read')).toMatchObject({
      connected: true,
      available: false,
      unavailable_because: expect.stringContaining('without a right that it needs: connect it again'),
    })
    expect(await shown('github_comment')).toMatchObject({ connected: false, available: false })
    const tool = getTool('docs_read') as ToolDeclaration
    const op = opOf(await engine.run(undefined, {}, 'admin'), { tool })
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
    expect((await effectOf(engine.context, op))?.error).toMatchObject({ code: 'connection_lacks_scope' })
    grants(`${scope('spreadsheets')} ${scope('documents')}`)
    await connectWith(own())
    expect(await shown('docs_read')).toMatchObject({ connected: true, available: true })
  })

  test('include those of a wider right', async () => {
    grants(scope('drive'))
    await connectWith(own())
    for (const tool of ['docs_read', 'docs_create', 'sheets_append', 'drive_search'] as const) await use(tool)
    await expect(use('calendar_create_event')).rejects.toMatchObject({ code: 'connection_lacks_scope' })
  })

  test('follow a refresh, and are not checked if the server names none', async () => {
    grants(undefined)
    await connectWith(own())
    await use('docs_read')
    grants(scope('spreadsheets'))
    // Access tokens of these tests are valid for one second.
    const code = () => use('docs_read').catch((error: { code: string }) => error.code)
    await until('the next token lacks the scope', async () => (await code()) === 'connection_lacks_scope')
  })
})

let given: Record<string, unknown>
beforeEach(() => {
  given = {
    type: 'service_account',
    project_id: 'acme',
    private_key_id: 'key-1',
    private_key: pem,
    client_email: email,
    client_id: '123',
    token_uri: `${server.url}/token`,
  }
})
const bearer = async (tool?: ToolName) => (await use(tool)).headers['authorization']
/** The verified assertion (JWT) in each token request. */
const statements = () =>
  Promise.all(
    server.arrived.map(async ({ body }) => {
      const parameters = new URLSearchParams(body)
      expect(parameters.get('grant_type')).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer')
      const { payload, protectedHeader } = await jwtVerify(parameters.get('assertion') ?? '', publicKey)
      expect(protectedHeader).toEqual({ alg: 'RS256', typ: 'JWT', kid: 'key-1' })
      return payload
    }),
  )

describe('a service account', () => {
  test('is connected with its key file, as an object or as text, and names its account', async () => {
    for (const service_account of [given, JSON.stringify(given)])
      expect(await connectWith({ service_account })).toMatchObject({ account: email, status: 'active' })
    for (const payload of await statements()) {
      expect(payload).toMatchObject({ iss: email, aud: `${server.url}/token` })
      expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(300)
    }
  })

  test('asks for the scopes of each tool alone, once for many calls', async () => {
    await connectWith({ service_account: given })
    server.arrived.length = 0
    const tokens = await Promise.all([bearer(), bearer(), bearer(), bearer('sheets_append'), bearer()])
    expect(new Set(tokens).size).toBe(2)
    const scopes = (await statements()).map(({ scope }) => scope)
    expect(scopes).toHaveLength(2)
    expect(scopes).toEqual(
      expect.arrayContaining([
        'https://www.googleapis.com/auth/documents.readonly',
        'https://www.googleapis.com/auth/spreadsheets',
      ]),
    )
  })

  test('gets another token when the last one ends, or a service refuses it', async () => {
    server.answer = () => tokenAnswer('short', { expires_in: 0 })
    await connectWith({ service_account: given })
    await bearer()
    server.arrived.length = 0
    server.answer = () => tokenAnswer('long')
    // The token `short` ends within a millisecond.
    for (let each = 0; (await bearer()) !== 'Bearer long'; each += 1) expect(each).toBeLessThan(1_000)
    expect(await (await use()).expired()).toMatchObject({ code: 'access_token_refused', retryable: true })
    server.answer = () => tokenAnswer('another')
    const third = await use()
    expect(third.headers['authorization']).toBe('Bearer another')
    expect(await third.expired()).toMatchObject({ code: 'connection_expired' })
  })

  test('whose key was deleted at Google expires', async () => {
    await connectWith({ service_account: given })
    server.answer = () => ({ status: 400, body: { error: 'invalid_grant', error_description: email } })
    await expect(use()).rejects.toMatchObject({ code: 'connection_expired' })
    await expect(use()).rejects.toMatchObject({ code: 'connection_expired' })
  })

  const later = { code: 'access_token_unavailable', retryable: true }
  const refused = { code: 'access_token_refused', retryable: false }
  const busy: [Scripted, object][] = [
    [{ status: 503, body: 'no' }, later],
    [
      { status: 429, headers: { 'retry-after': '7' }, body: {} },
      { ...later, retryAfterSeconds: 7 },
    ],
    [{ status: 401, body: { error: 'unauthorized_client' } }, refused],
    [{ status: 200, body: '<html>' }, refused],
    [{ status: 200, body: { access_token: 5 } }, refused],
    [{ status: 302, headers: { location: 'http://127.0.0.1:9/' } }, later],
  ]
  test.each(busy)('gets no token from %j, and the error is %j', async (answer, error) => {
    await connectWith({ service_account: given })
    server.answer = () => answer
    const thrown = await use().catch((each: unknown) => each)
    expect(thrown).toMatchObject(error)
    expect((thrown as Error).message).not.toContain('PRIVATE KEY')
  })

  const wrong: [string, object | string, string, string][] = [
    ['of another type', { type: 'authorized_user' }, 'type', 'service_account'],
    ['without an address', { client_email: undefined }, 'client_email', 'address'],
    ['without a key', { private_key: 'abc' }, 'private_key', 'PEM'],
    ['of another universe', { universe_domain: 'evil.example' }, 'universe_domain', 'googleapis'],
    ['that is no JSON', '{', '', 'object'],
    [
      'with another token endpoint',
      { token_uri: 'https://evil.example/token' },
      'token_uri',
      'CONNECTION_HOSTS',
    ],
    [
      'with a private token endpoint',
      { token_uri: 'https://169.254.169.254/token' },
      'token_uri',
      'CONNECTION_HOSTS',
    ],
  ]
  test.each(wrong)('%s is refused before anything is sent', async (_, change, path, words) => {
    const service_account = typeof change === 'string' ? change : { ...given, ...change }
    const error = await connectWith({ service_account }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'validation_error', message: expect.stringContaining(words) })
    const paths = (error as { details: { path: string }[] }).details.map((each) => each.path)
    expect(paths).toContain(['credential', 'service_account', path].filter(Boolean).join('.'))
    expect(JSON.stringify(error)).not.toContain(pem.slice(60, 90))
    expect(server.arrived).toEqual([])
  })

  test('whose key cannot be read is refused', async () => {
    const private_key = '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'
    await expect(connectWith({ service_account: { ...given, private_key } })).rejects.toMatchObject({
      code: 'validation_error',
      message: expect.stringContaining('whole key file'),
    })
    expect(server.arrived).toEqual([])
  })

  test('goes with its APIs to one host', async () => {
    const elsewhere = { service_account: given, base_url: 'http://localhost:1' }
    await expect(connectWith(elsewhere)).rejects.toMatchObject({
      details: [{ path: 'credential.base_url', message: expect.stringContaining('token_uri') }],
    })
    await connectWith({ service_account: given })
    expect((await use()).base).toBe(server.url)
  })
})
