import { createServer, request as forward, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { getSecretsHealth } from '../../../src/api/routes/secrets-health.ts'
import { createAwsSecrets } from '../../../src/governance/sealing/aws-secrets.ts'
import {
  SecretGone,
  SecretsUnavailable,
  type Secrets,
} from '../../../src/governance/sealing/secrets-backend.ts'
import { startMoto, type Moto } from './moto/moto.ts'

/** The operations of AWS, simulated by moto. A proxy before moto can refuse or throttle one of the operations. */
let moto: Moto
let proxy: Server
let faults: Readonly<Record<string, string>> = {}
let asked: string[] = []
const before = { ...process.env }
const open: Secrets[] = []

beforeAll(async () => {
  moto = await startMoto()
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
  await moto?.close()
})

const secrets = (clock?: { now(): number }): Secrets => {
  const settings = {
    backend: 'aws_secrets_manager',
    region: 'eu-central-1',
    prefix: 'cs-test/',
  } as const
  const made = createAwsSecrets(settings, clock)
  open.push(made)
  return made
}
let count = 0
const owner = () => ({ organizationId: 'org_1', connectionId: `con_${(count += 1)}` })
const kept = { backend: 'aws_secrets_manager', credential_sealed: null, secret_version: null } as const

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
    const [mine, process] = [owner(), secrets()]
    await process.keep(mine, 't')
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
    const [mine, process] = [owner(), secrets()]
    await process.keep(mine, 't')
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
    const [mine, process] = [owner(), secrets()]
    await process.keep(mine, 't')
    faults = { GetSecretValue: 'AccessDeniedException' }
    await expect(process.read(mine, kept)).rejects.toThrow(SecretsUnavailable)
    faults = {}
    expect(await process.read(mine, kept)).toBe('t')
  })
})

describe('the health of the backend', () => {
  test('is good if both rights are there', async () => {
    expect(await secrets().check()).toEqual({ list_secrets: 'ok', get_secret: 'ok' })
  })

  test.each([
    ['ListSecrets', 'list_secrets', 'get_secret'],
    ['GetSecretValue', 'get_secret', 'list_secrets'],
  ] as const)('names the right %s if it is denied', async (operation, failed, other) => {
    faults = { [operation]: 'AccessDeniedException' }
    const checks = await secrets().check()
    expect(checks[failed]).toMatch(new RegExp(`^AWS refuses ${operation} .*give the service this right`))
    expect(checks[other]).toBe('ok')
    expect(JSON.stringify(checks)).not.toMatch(/hunter2|health-check/)
  })

  test.each([
    [{}, 'ok'],
    [{ GetSecretValue: 'AccessDeniedException' }, 'degraded'],
    [{ ListSecrets: 'ThrottlingException' }, 'degraded'],
  ])('is what `GET /health/secrets` answers: %j is %s', async (refusing, status) => {
    faults = refusing
    const answer = await getSecretsHealth.handle?.({ context: { secrets: secrets() } } as never)
    const checks = { list_secrets: expect.any(String), get_secret: expect.any(String) }
    expect(answer).toMatchObject({ status: 200, body: { status, backend: 'aws_secrets_manager', checks } })
    expect(JSON.stringify(answer)).not.toMatch(/hunter2|health-check/)
  })

  test('says that AWS throttles', async () => {
    faults = { ListSecrets: 'ThrottlingException' }
    expect((await secrets().check()).list_secrets).toMatch(/^AWS throttles ListSecrets/)
  })
})
