import { createServer, request as forward, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { getSecretsHealth } from '../../../src/api/routes/health.ts'
import { createAwsSecrets } from '../../../src/governance/sealing/aws-secrets.ts'
import {
  SecretGone,
  SecretsUnavailable,
  type Secrets,
} from '../../../src/governance/sealing/secrets-backend.ts'
import { startMoto, type Moto } from './moto/moto.ts'
import { connect, connectionRows, revokeConnection } from '../../../src/governance/connections/connections.ts'
import { listOwned } from '../../../src/governance/page.ts'
import { removeSecrets } from '../../../src/governance/connections/secret-removals.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'
import { createToolServices } from '../../../src/activities/tool-services.ts'
import type { Context } from '../../../src/governance/context.ts'
import { beginAuthorization, finishAuthorization } from '../../../src/governance/connections/authorize.ts'
import { startAuthorizationServer, type AuthorizationServer } from '../../support/authorization-server.ts'

/** The operations of AWS, simulated by moto. A proxy before moto can refuse or throttle one of the operations. */
let moto: Moto
let proxy: Server
let google: AuthorizationServer
const publicUrl = 'http://127.0.0.1:9'
let faults: Readonly<Record<string, string>> = {}
let asked: string[] = []
const before = { ...process.env }
const open: Secrets[] = []

beforeAll(async () => {
  ;[google, moto] = await Promise.all([
    startAuthorizationServer([`${publicUrl}/api/v1/connections/callback/google`]),
    startMoto(),
  ])
  proxy = createServer((incoming, response) => {
    const operation = String(incoming.headers['x-amz-target']).split('.')[1] ?? ''
    asked.push(operation)
    const fault = faults[operation]
    if (fault !== undefined) {
      incoming.resume()
      const headers = { 'content-type': 'application/x-amz-json-1.1' }
      response.writeHead(400, headers).end(JSON.stringify({ __type: fault, message: 'hunter2' }))
      return
    }
    const { method, url, headers } = incoming
    incoming.pipe(
      forward(`${moto.url}${url}`, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
      }),
    )
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  process.env['AWS_ENDPOINT_URL_SECRETS_MANAGER'] =
    `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  process.env['AWS_ACCESS_KEY_ID'] = 'test'
  process.env['AWS_SECRET_ACCESS_KEY'] = 'test'
}, 300_000)
beforeEach(() => {
  faults = {}
  asked = []
})
afterAll(async () => {
  process.env = before
  for (const each of open) each.close()
  proxy?.closeAllConnections()
  proxy?.close()
  await Promise.all([google?.close(), moto?.close()])
})

const secrets = (clock?: { now(): number }): Secrets => {
  const settings = { backend: 'aws_secrets_manager', region: 'eu-central-1', prefix: 'cs-test/' } as const
  const made = createAwsSecrets(settings, clock)
  open.push(made)
  return made
}
let count = 0
const owner = () => ({ organizationId: 'org_1', connectionId: `con_${(count += 1)}` })
const kept = { backend: 'aws_secrets_manager', credential_sealed: null, secret_version: null } as const
/** A credential, and the process that has kept it. */
const keptOne = async () => {
  const [mine, process] = [owner(), secrets()]
  await process.keep(mine, 't')
  return [mine, process] as const
}
const inAws = { SECRETS_BACKEND: 'aws_secrets_manager', AWS_REGION: 'eu-central-1' }

describe('a credential in AWS Secrets Manager', () => {
  test('is kept there and nowhere else, and read by another process', async () => {
    const mine = owner()
    const first = await secrets().keep(mine, '{"token":"t"}')
    expect(first).toEqual({ ...kept, secret_version: expect.any(String) })
    for (const row of [first, kept]) expect(await secrets().read(mine, row)).toBe('{"token":"t"}')
  })

  test('that is replaced is read by the version that its row names', async () => {
    const [mine, process] = [owner(), secrets()]
    const first = await process.keep(mine, 'old')
    const second = await secrets().replace(mine, 'new', first)
    for (const each of [process, secrets()]) {
      expect(await each.read(mine, second)).toBe('new')
      expect(await each.read(mine, first)).toBe('old')
    }
  })

  test('is read once a minute, also when many calls want it at once', async () => {
    const [mine, process] = await keptOne()
    asked = []
    await Promise.all(Array.from({ length: 20 }, () => process.read(mine, kept)))
    await process.read(mine, kept)
    expect(asked).toEqual(['GetSecretValue'])
  })

  test('is read anew after a minute, also if it is used all the time', async () => {
    let now = 1_000
    const [mine, process] = [owner(), secrets({ now: () => now })]
    const row = await process.keep(mine, 'old')
    asked = []
    for (const passed of [0, 30_000, 59_000]) {
      now = 1_000 + passed
      expect(await process.read(mine, row)).toBe('old')
    }
    expect(asked).toEqual(['GetSecretValue'])
    await secrets().remove(mine)
    expect(await process.read(mine, row)).toBe('old')
    now = 1_000 + 60_001
    await expect(process.read(mine, row)).rejects.toThrow(SecretGone)
    expect(asked.filter((operation) => operation === 'GetSecretValue')).toHaveLength(2)
  })

  test('is gone once it was removed, here or by hand', async () => {
    const [mine, process] = await keptOne()
    expect(await process.read(mine, kept)).toBe('t')
    await process.remove(mine)
    await expect(process.read(mine, kept)).rejects.toThrow(SecretGone)
    await process.remove(mine)
  })

  test.each(['ThrottlingException', 'AccessDeniedException', 'InternalServiceError'])(
    'cannot be read or kept during %s, and the error says no value and no name',
    async (fault) => {
      faults = { GetSecretValue: fault, CreateSecret: fault, DeleteSecret: fault }
      const [mine, process] = [owner(), secrets()]
      const acts = [() => process.read(mine, kept), () => process.keep(mine, 't'), () => process.remove(mine)]
      for (const act of acts) {
        const error = await act().catch((thrown: unknown) => thrown)
        expect(error).toBeInstanceOf(SecretsUnavailable)
        expect((error as Error).message).toContain(fault)
        expect((error as Error).message).not.toMatch(/hunter2|con_|cs-test/)
      }
    },
    60_000,
  )

  test('that could not be read is asked for again', async () => {
    const [mine, process] = await keptOne()
    faults = { GetSecretValue: 'AccessDeniedException' }
    await expect(process.read(mine, kept)).rejects.toThrow(SecretsUnavailable)
    faults = {}
    expect(await process.read(mine, kept)).toBe('t')
  })
})

describe('the health of the backend', () => {
  const denied = 'AccessDeniedException'
  const refused = (operation: string) => new RegExp(`^AWS refuses ${operation} .*give the service this right`)
  test.each([
    [{}, 'ok', /^ok$/, /^ok$/],
    [{ ListSecrets: denied }, 'degraded', refused('ListSecrets'), /^ok$/],
    [{ GetSecretValue: denied }, 'degraded', /^ok$/, refused('GetSecretValue')],
    [{ ListSecrets: 'ThrottlingException' }, 'degraded', /^AWS throttles ListSecrets/, /^ok$/],
  ])('during %j is %s, also as `GET /health/secrets` answers', async (refusing, status, list, get) => {
    faults = refusing
    const checks = { list_secrets: expect.stringMatching(list), get_secret: expect.stringMatching(get) }
    expect(await secrets().check()).toEqual(checks)
    const answer = await getSecretsHealth.handle?.({ context: { secrets: secrets() } } as never)
    expect(answer).toMatchObject({ status: 200, body: { status, backend: 'aws_secrets_manager', checks } })
    expect(JSON.stringify(answer)).not.toMatch(/hunter2|health-check/)
  })
})

describe('the secret of a connection', () => {
  let engine: Engine
  beforeAll(async () => {
    engine = await startEngine(inAws)
  })
  afterAll(() => engine?.close())

  const read = (connectionId: string) =>
    engine.another().secrets.read({ organizationId: engine.organizationId, connectionId }, kept)
  const connectSearch = (context = engine.context) => {
    const credential = { provider: 'brave', api_key: 'k' }
    const wanted = { tool: 'web_search', credential, scope: 'personal', name: undefined } as const
    return connect(context, engine.caller('member'), wanted, new AbortController().signal)
  }
  const removals = () => engine.context.db.selectFrom('secret_removals').selectAll().execute()

  test('lives as long as its connection', async () => {
    const { id } = await connectSearch()
    expect(JSON.parse(await read(id))).toEqual({ provider: 'brave', api_key: 'k' })
    const row = await engine.context.db.selectFrom('connections').selectAll().executeTakeFirstOrThrow()
    expect(row).toMatchObject({ id, backend: 'aws_secrets_manager', credential_sealed: null })
    expect(await removals()).toEqual([])
    await revokeConnection(engine.context, engine.caller('member'), id)
    expect(await removals()).toMatchObject([{ connection_id: id }])
    expect(await removeSecrets(engine.context)).toBe(1)
    await expect(read(id)).rejects.toThrow(SecretGone)
    expect(await removals()).toEqual([])
  })

  test('is to be removed once another connection replaces it', async () => {
    const first = await connectSearch()
    const second = await connectSearch()
    expect(await removals()).toMatchObject([{ connection_id: first.id }])
    expect(await removeSecrets(engine.context)).toBe(1)
    await expect(read(first.id)).rejects.toThrow(SecretGone)
    expect(await read(second.id)).toContain('brave')
  })

  test('is removed after an hour if the connection was never saved', async () => {
    const dying = {
      ...engine.context,
      combiner: { ...engine.context.combiner, run: () => Promise.reject(new Error('died')) },
    }
    await expect(connectSearch(dying as unknown as Engine['context'])).rejects.toThrow('died')
    const [orphan] = await removals()
    const id = orphan?.connection_id ?? ''
    expect(await read(id)).toContain('brave')
    expect(await removeSecrets(engine.context)).toBe(0)
    await engine.context.pool.query(`update secret_removals set due_at = due_at - interval '1 hour'`)
    expect(await removeSecrets(engine.context)).toBe(1)
    await expect(read(id)).rejects.toThrow(SecretGone)
  })
})

const backends: [string, NodeJS.ProcessEnv][] = [
  ['db', {}],
  ['aws_secrets_manager', inAws],
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
    const page = { limit: 1, cursor: null }
    return (await listOwned(engine.context, connectionRows, engine.caller('member'), page)).data[0]?.status
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
    const token = parameters.get('refresh_token') as string
    const body = new URLSearchParams({
      token,
      client_id: google.client.id,
      client_secret: google.client.secret,
    })
    await fetch(`${google.url}/revoke`, { method: 'POST', body })
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
      engine.context.pool.query(`update connections set refreshing_until = clock_timestamp() + '${interval}'`)
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
    const after = 'select refreshing_until::text as lease from connections'
    expect((await engine.context.pool.query(after)).rows).toEqual([{ lease }])
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
    const { message, cause, stack } = error as Error
    const shown = JSON.stringify([error, message, cause, stack])
    for (const name of ['refresh_token', 'client_secret']) expect(shown).not.toContain(parameters.get(name))
  })
})
