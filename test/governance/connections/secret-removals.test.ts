import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { connect, revokeConnection } from '../../../src/governance/connections/connections.ts'
import { removeSecrets } from '../../../src/governance/connections/secret-removals.ts'
import { SecretGone, type KeptSecret } from '../../../src/governance/sealing/secrets-backend.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'
import { startMoto, type Moto } from '../sealing/moto/moto.ts'

let moto: Moto
let engine: Engine
const before = { ...process.env }
beforeAll(async () => {
  moto = await startMoto()
  process.env['AWS_ENDPOINT_URL_SECRETS_MANAGER'] = moto.url
  process.env['AWS_ACCESS_KEY_ID'] = 'test'
  process.env['AWS_SECRET_ACCESS_KEY'] = 'test'
  engine = await startEngine({ SECRETS_BACKEND: 'aws_secrets_manager', AWS_REGION: 'eu-central-1' })
}, 300_000)
afterAll(async () => {
  process.env = before
  await engine?.close()
  await moto?.close()
})

const kept: KeptSecret = { backend: 'aws_secrets_manager', credential_sealed: null, secret_version: null }
const read = (connectionId: string) =>
  engine.another().secrets.read({ organizationId: engine.organizationId, connectionId }, kept)
const connectSearch = (context = engine.context) =>
  connect(
    context,
    engine.caller('member'),
    {
      tool: 'web_search',
      credential: { provider: 'brave', api_key: 'k' },
      scope: 'personal',
      name: undefined,
    },
    new AbortController().signal,
  )
const removals = () => engine.context.db.selectFrom('secret_removals').selectAll().execute()

test('a secret lives as long as its connection', async () => {
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

test('a connection that replaces another leaves the old secret to be removed', async () => {
  const first = await connectSearch()
  const second = await connectSearch()
  expect(await removals()).toMatchObject([{ connection_id: first.id }])
  expect(await removeSecrets(engine.context)).toBe(1)
  await expect(read(first.id)).rejects.toThrow(SecretGone)
  expect(await read(second.id)).toContain('brave')
})

test('a secret whose connection was never saved is removed after an hour', async () => {
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
