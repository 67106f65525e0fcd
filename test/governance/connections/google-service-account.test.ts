import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { jwtVerify } from 'jose'
import type { ToolName } from '../../../src/catalog/index.ts'
import type { Scripted } from '../../support/scripted-server.ts'
import { tokenAnswer, useGoogle, type GoogleStand } from './google-fixture.ts'

const email = 'bot@acme.iam.gserviceaccount.com'
let google: GoogleStand
let pem: string
let publicKey: KeyObject
let given: Record<string, unknown>
useGoogle((started) => (google = started))
beforeAll(() => {
  const pair = generateKeyPairSync('rsa', { modulusLength: 2048 })
  pem = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  publicKey = pair.publicKey
})
beforeEach(() => {
  given = keyFile()
})

const keyFile = (more: object = {}) => ({
  type: 'service_account',
  project_id: 'acme',
  private_key_id: 'key-1',
  private_key: pem,
  client_email: email,
  client_id: '123',
  token_uri: `${google.server.url}/token`,
  ...more,
})
const bearer = async (tool?: ToolName) => (await google.use(tool)).headers['authorization']
/** The verified assertion (JWT) in each token request. */
const statements = () =>
  Promise.all(
    google.server.arrived.map(async ({ body }) => {
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
      expect(await google.connect({ service_account })).toMatchObject({ account: email, status: 'active' })
    for (const payload of await statements()) {
      expect(payload).toMatchObject({ iss: email, aud: `${google.server.url}/token` })
      expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(300)
    }
  })

  test('asks for the scopes of each tool alone, once for many calls', async () => {
    await google.connect({ service_account: given })
    google.server.arrived.length = 0
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
    google.server.answer = () => tokenAnswer('short', { expires_in: 0 })
    await google.connect({ service_account: given })
    await bearer()
    google.server.arrived.length = 0
    google.server.answer = () => tokenAnswer('long')
    // The token `short` ends within a millisecond.
    for (let each = 0; (await bearer()) !== 'Bearer long'; each += 1) expect(each).toBeLessThan(1_000)
    expect(await (await google.use()).expired()).toMatchObject({
      code: 'access_token_refused',
      retryable: true,
    })
    google.server.answer = () => tokenAnswer('another')
    const third = await google.use()
    expect(third.headers['authorization']).toBe('Bearer another')
    expect(await third.expired()).toMatchObject({ code: 'connection_expired' })
  })

  test('whose key was deleted at Google expires', async () => {
    await google.connect({ service_account: given })
    google.server.answer = () => ({ status: 400, body: { error: 'invalid_grant', error_description: email } })
    await expect(google.use()).rejects.toMatchObject({ code: 'connection_expired' })
    await expect(google.use()).rejects.toMatchObject({ code: 'connection_expired' })
  })

  const busy: [Scripted, object][] = [
    [
      { status: 503, body: 'no' },
      { code: 'access_token_unavailable', retryable: true },
    ],
    [
      { status: 429, headers: { 'retry-after': '7' }, body: {} },
      { code: 'access_token_unavailable', retryable: true, retryAfterSeconds: 7 },
    ],
    [
      { status: 401, body: { error: 'unauthorized_client' } },
      { code: 'access_token_refused', retryable: false },
    ],
    [
      { status: 200, body: '<html>' },
      { code: 'access_token_refused', retryable: false },
    ],
    [
      { status: 200, body: { access_token: 5 } },
      { code: 'access_token_refused', retryable: false },
    ],
    [
      { status: 302, headers: { location: 'http://127.0.0.1:9/' } },
      { code: 'access_token_unavailable', retryable: true },
    ],
  ]
  test.each(busy)('gets no token from %j, and the error is %j', async (answer, error) => {
    await google.connect({ service_account: given })
    google.server.answer = () => answer
    const thrown = await google.use().catch((each: unknown) => each)
    expect(thrown).toMatchObject(error)
    expect((thrown as Error).message).not.toContain('PRIVATE KEY')
  })

  const wrong: [string, () => unknown, string, string][] = [
    ['of another type', () => keyFile({ type: 'authorized_user' }), 'type', 'service_account'],
    ['without an address', () => keyFile({ client_email: undefined }), 'client_email', 'address'],
    ['without a key', () => keyFile({ private_key: 'abc' }), 'private_key', 'PEM'],
    [
      'of another universe',
      () => keyFile({ universe_domain: 'evil.example' }),
      'universe_domain',
      'googleapis',
    ],
    ['that is no JSON', () => '{', '', 'object'],
    [
      'with another token endpoint',
      () => keyFile({ token_uri: 'https://evil.example/token' }),
      'token_uri',
      'CONNECTION_HOSTS',
    ],
    [
      'with a token endpoint at a private address',
      () => keyFile({ token_uri: 'https://169.254.169.254/token' }),
      'token_uri',
      'CONNECTION_HOSTS',
    ],
  ]
  test.each(wrong)('%s is refused before anything is sent', async (_, file, path, words) => {
    const error = await google.connect({ service_account: file() }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'validation_error', message: expect.stringContaining(words) })
    const paths = (error as { details: { path: string }[] }).details.map((each) => each.path)
    expect(paths).toContain(['credential', 'service_account', path].filter(Boolean).join('.'))
    expect(JSON.stringify(error)).not.toContain(pem.slice(60, 90))
    expect(google.server.arrived).toEqual([])
  })

  test('whose key cannot be read is refused', async () => {
    const private_key = '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'
    await expect(google.connect({ service_account: { ...given, private_key } })).rejects.toMatchObject({
      code: 'validation_error',
      message: expect.stringContaining('whole key file'),
    })
    expect(google.server.arrived).toEqual([])
  })

  test('goes with its APIs to one host', async () => {
    const elsewhere = { service_account: given, base_url: 'http://localhost:1' }
    await expect(google.connect(elsewhere)).rejects.toMatchObject({
      details: [{ path: 'credential.base_url', message: expect.stringContaining('token_uri') }],
    })
    await google.connect({ service_account: given })
    expect((await google.use()).base).toBe(google.server.url)
  })
})
