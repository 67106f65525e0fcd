import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { createToolServices } from '../../../src/activities/tools/services.ts'
import type { Context } from '../../../src/governance/context.ts'
import { beginAuthorization } from '../../../src/governance/connections/authorize.ts'
import { listConnections, revokeConnection } from '../../../src/governance/connections/connections.ts'
import { finishAuthorization } from '../../../src/governance/connections/finish-authorization.ts'
import { SecretsUnavailable } from '../../../src/governance/sealing/secrets-backend.ts'
import { startAuthorizationServer, type AuthorizationServer } from '../../support/authorization-server.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'
import { startMoto, type Moto } from '../sealing/moto/moto.ts'

const publicUrl = 'http://127.0.0.1:9'
let google: AuthorizationServer
let moto: Moto
const before = { ...process.env }
beforeAll(async () => {
  ;[google, moto] = await Promise.all([
    startAuthorizationServer([`${publicUrl}/api/v1/connections/callback/google`]),
    startMoto(),
  ])
  process.env['AWS_ENDPOINT_URL_SECRETS_MANAGER'] = moto.url
  process.env['AWS_ACCESS_KEY_ID'] = 'test'
  process.env['AWS_SECRET_ACCESS_KEY'] = 'test'
}, 300_000)
afterAll(async () => {
  process.env = before
  await Promise.all([google?.close(), moto?.close()])
})

const backends: [string, NodeJS.ProcessEnv][] = [
  ['db', {}],
  ['aws_secrets_manager', { SECRETS_BACKEND: 'aws_secrets_manager', AWS_REGION: 'eu-central-1' }],
]

describe.each(backends)('an access token with credentials in %s', (_, settings) => {
  let engine: Engine
  beforeAll(async () => {
    engine = await startEngine({
      PUBLIC_URL: publicUrl,
      GOOGLE_CLIENT_ID: google.client.id,
      GOOGLE_CLIENT_SECRET: google.client.secret,
      GOOGLE_BASE_URL: google.url,
      ...settings,
    })
  })
  afterAll(() => engine?.close())
  let id: string
  beforeEach(async () => {
    google.onToken = async () => 'answered'
    await engine.context.db.deleteFrom('connections').execute()
    id = await authorize()
    google.requests.length = 0
  })

  /** Authorizes a connection of `member` in the browser. */
  async function authorize(): Promise<string> {
    const { context } = engine
    const caller = engine.caller('member')
    const input = { tool: 'docs_read', scope: 'personal', name: undefined } as const
    const begun = await beginAuthorization(context, caller, input)
    const { searchParams } = await google.authorize(begun.authorization_url)
    const { signal } = new AbortController()
    const finished = await finishAuthorization(context, caller, 'google', searchParams, signal)
    if (finished.kind !== 'connected') throw new Error(finished.code)
    return finished.connection.id
  }
  const use = (context: Context = engine.context) =>
    createToolServices(context).connection(
      { organizationId: engine.organizationId, requester: { userId: engine.caller('member').userId } },
      'docs_read',
      'google',
    )
  const tokenOf = async (context?: Context) => (await use(context)).headers['authorization'] ?? ''
  const end = () =>
    engine.context.pool.query(
      `update connections set access_fresh_until = clock_timestamp() - interval '1 second'`,
    )
  const refreshes = () =>
    google.requests.filter(({ parameters }) => parameters.get('grant_type') === 'refresh_token')
  /** Refreshes the token. Returns the parameters of the refresh request. */
  const lastRefresh = async (): Promise<URLSearchParams> => {
    await end()
    await tokenOf()
    return refreshes().at(-1)?.parameters as URLSearchParams
  }
  const statusOf = async () => {
    const { data } = await listConnections(engine.context.db, engine.caller('member'), {
      limit: 1,
      cursor: null,
    })
    return data[0]?.status
  }
  /** The status of a request for the account with this token. */
  const works = async (authorization: string) =>
    (await fetch(`${google.url}/oauth2/v2/userinfo`, { headers: { authorization } })).status

  test('is used until it ends, without another request', async () => {
    const first = await tokenOf()
    expect(await works(first)).toBe(200)
    expect(await Promise.all([tokenOf(), tokenOf(engine.another())])).toEqual([first, first])
    expect(refreshes()).toHaveLength(0)
  })

  test('is refreshed once, however many processes want it at once, and each gets the new one', async () => {
    const first = await tokenOf()
    await end()
    const processes = [engine.context, engine.another(), engine.another()]
    const tokens = await Promise.all(Array.from({ length: 24 }, (__, each) => tokenOf(processes[each % 3])))
    expect(new Set(tokens).size).toBe(1)
    expect(tokens[0]).not.toBe(first)
    expect(await works(tokens[0] as string)).toBe(200)
    expect(refreshes()).toHaveLength(1)
  })

  test('goes on over many refreshes, each with the refresh token of the one before', async () => {
    const processes = [engine.context, engine.another()]
    for (let each = 0; each < 5; each += 1) {
      await end()
      expect(await works(await tokenOf(processes[each % 2]))).toBe(200)
    }
    const used = refreshes().map(({ parameters }) => parameters.get('refresh_token'))
    expect(new Set(used).size).toBe(5)
  })

  test('is not used while it cannot be kept', async () => {
    const { secrets } = engine.context
    await end()
    const replace = () => Promise.reject(new SecretsUnavailable('away'))
    const failing = { ...engine.context, secrets: { ...secrets, replace } }
    await expect(use(failing)).rejects.toMatchObject({ code: 'secrets_unavailable', retryable: true })
  })

  test('ends with the grant: the connection expires, and the error says what to do', async () => {
    const parameters = await lastRefresh()
    await fetch(`${google.url}/revoke`, {
      method: 'POST',
      body: new URLSearchParams({
        token: parameters.get('refresh_token') as string,
        client_id: google.client.id,
        client_secret: google.client.secret,
      }),
    })
    // If a refresh token is used a second time, the server ends the whole grant.
    await fetch(`${google.url}/token`, { method: 'POST', body: parameters })
    await end()
    await expect(use()).rejects.toMatchObject({
      code: 'connection_expired',
      retryable: false,
      message: expect.stringContaining('/connect`'),
    })
    expect(await statusOf()).toBe('expired')
    const count = refreshes().length
    await expect(use()).rejects.toMatchObject({ code: 'connection_expired' })
    expect(refreshes()).toHaveLength(count)
  })
  test('whose answer was lost is asked for again; a server that takes each refresh token once then ends the grant', async () => {
    await end()
    google.onToken = async () => 'lost'
    await expect(use()).rejects.toMatchObject({ code: 'access_token_unavailable', retryable: true })
    expect(await statusOf()).toBe('active')
    google.onToken = async () => 'answered'
    await expect(use()).rejects.toMatchObject({ code: 'connection_expired' })
    expect(await statusOf()).toBe('expired')
  })

  test('waits for a process that died while it asked, and not longer than its lease', async () => {
    await end()
    const lease = (interval: string) =>
      engine.context.pool.query(
        `update connections set refreshing_until = clock_timestamp() + interval '${interval}'`,
      )
    await lease('1 hour')
    const waiting = tokenOf()
    await lease('-1 second')
    expect(await works(await waiting)).toBe(200)
    expect(refreshes()).toHaveLength(1)
  })

  test('is not asked for by a process that stood still after its claim', async () => {
    await end()
    const { outgoing } = engine.context
    const now = Date.now
    const otherLease = async () => {
      const { rows } = await engine.context.pool.query<{ lease: string }>(
        `update connections set refreshing_until = clock_timestamp() + interval '45 s'
         returning refreshing_until::text as lease`,
      )
      return rows[0]?.lease
    }
    let lease: string | undefined
    const fetchWithin: typeof outgoing.fetchWithin = (bounds) => async (input, init) => {
      // Meanwhile, another process has claimed the row.
      lease ??= await otherLease()
      jest.spyOn(Date, 'now').mockImplementation(() => now() + 30_000)
      return outgoing.fetchWithin(bounds)(input, init)
    }
    const stalled = { ...engine.context, outgoing: { ...outgoing, fetchWithin } }
    try {
      await expect(use(stalled)).rejects.toMatchObject({ code: 'access_token_unavailable', retryable: true })
    } finally {
      jest.restoreAllMocks()
    }
    expect(refreshes()).toHaveLength(0)
    const { rows } = await engine.context.pool.query(
      'select refreshing_until::text as lease from connections',
    )
    expect(rows).toEqual([{ lease }])
    await engine.context.pool.query('update connections set refreshing_until = null')
    expect(await works(await tokenOf())).toBe(200)
  })

  test('of a connection that is revoked while the server answers is used by nobody', async () => {
    await end()
    google.onToken = async () => {
      google.onToken = async () => 'answered'
      await revokeConnection(engine.context, engine.caller('member'), id)
      return 'answered'
    }
    await expect(use()).rejects.toMatchObject({ code: 'tool_not_available' })
    const row = await engine.context.db.selectFrom('connections').selectAll().executeTakeFirstOrThrow()
    expect(row).toMatchObject({ status: 'revoked', credential_sealed: null, generation: 1 })
  })

  test('that the service refuses is forgotten once; a new one that it refuses ends the connection', async () => {
    const first = await use()
    expect(await first.expired()).toMatchObject({ code: 'access_token_refused', retryable: true })
    expect(await statusOf()).toBe('active')
    const second = await use()
    expect(refreshes()).toHaveLength(1)
    expect(await second.expired()).toMatchObject({ code: 'connection_expired' })
    expect(await statusOf()).toBe('expired')
  })

  test('is in no error, and neither is the refresh token or the secret of the client', async () => {
    const parameters = await lastRefresh()
    await end()
    google.onToken = async () => 'lost'
    const error = await use().catch((thrown: unknown) => thrown)
    const shown = JSON.stringify([
      error,
      (error as Error).message,
      (error as Error).cause,
      (error as Error).stack,
    ])
    for (const name of ['refresh_token', 'client_secret']) expect(shown).not.toContain(parameters.get(name))
  })
})
