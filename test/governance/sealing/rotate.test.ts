import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { createContext } from '../../../src/programs/create-context.ts'
import type { Context } from '../../../src/governance/context.ts'
import { readApproval } from '../../../src/governance/approvals/read.ts'
import { openKey } from '../../../src/governance/idempotency.ts'
import { readMemory, setMemory } from '../../../src/governance/tools/memory.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { readStepOutput } from '../../../src/governance/runs/read/read.ts'
import { readRun } from '../runs/whole-run.ts'
import { sealedColumns } from '../../../src/governance/sealing/columns.ts'
import { keyIdOf } from '../../../src/governance/sealing/format.ts'
import { makeKey } from '../../../src/governance/sealing/keyring.ts'
import { memoryBinding } from '../../../src/governance/sealing/bindings.ts'
import { rotateKey, type Rotation } from '../../../src/governance/sealing/rotate.ts'
import { asAdmin } from '../../support/postgres.ts'
import {
  go,
  hold,
  holdRule,
  oneStep,
  opOf,
  outcomeOf,
  startEngine,
  type Engine,
} from '../runs/engine-fixture.ts'
import { testKey } from '../support.ts'
import { createToolServices } from '../../../src/activities/tool-services.ts'
import {
  changeWebhook,
  createWebhook,
  webhookRows,
  rotateWebhookSecret,
} from '../../../src/governance/webhooks/webhooks.ts'
import { readOwned } from '../../../src/governance/page.ts'
import { addConnection } from '../../api/fixtures.ts'
import { verify } from '../audit/chain-fixture.ts'

let engine: Engine
beforeAll(async () => {
  engine = await startEngine()
  await engine.rules(holdRule())
})
afterAll(() => engine.close())

const rotate = (context: Context = engine.context, installationKey = false): Promise<Rotation> =>
  rotateKey(context, { installationKey, settleMilliseconds: 0, say: () => undefined })

const inputs = { who: 'a secret name' }
const definition = { inputs: { who: { type: 'string' } }, ...oneStep, result: { was: '{{s.output}}' } }
const use = (key: string) => ({
  organizationId: engine.organizationId,
  userId: engine.caller('member').userId,
  apiKeyId: 'key_1',
  route: 'POST /x',
  key,
  bodyHash: 'b',
})

const keyIds = async () =>
  (await engine.context.db.selectFrom('data_keys').select('id').execute()).map(({ id }) => id)

/** Stores values of every kind. `read` returns each value as the service reads it. */
async function world(name: string) {
  const { context, organizationId, caller } = engine
  const op = opOf(await engine.run(definition, inputs))
  const approvalId = await hold(engine, op)
  await engine.vote(approvalId, 'approver')
  await engine.record(outcomeOf(op, await go(engine, op), 'completed'))
  const { runId } = op.key
  await finishRun(context, { runId, status: 'completed' })
  await setMemory(context, caller('member'), { key: name, value: { of: name }, labels: null })
  const opened = await openKey(context, use(name))
  if ('claim' in opened) await opened.claim.keep({ status: 200, body: `"${name}"` })
  const made = await openKey(context, use(`${name} made`))
  if ('claim' in made) {
    await context.db.transaction().execute((trx) => made.claim.markActed(trx, { secret: name }))
    await made.claim.release()
  }
  const admin = { userId: caller('approver').userId, organizationId, role: 'owner' } as const
  const read = async () => ({
    run: await readRun(context, organizationId, runId),
    output: await readStepOutput(context, organizationId, runId, 's'),
    memory: await readMemory(context, admin, name),
    approval: await readApproval(context, admin, approvalId),
    answer: await openKey(context, use(name)),
  })
  return { read, runId }
}

/** The number of values per data key. */
async function named(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { table, column, isBase64 } of sealedColumns) {
    const { rows } = await engine.context.pool.query(
      `select ${column} as sealed from ${table} where ${column} is not null`,
    )
    for (const { sealed } of rows) {
      const id = keyIdOf(isBase64 ? Buffer.from(sealed, 'base64') : sealed)
      counts[id] = (counts[id] ?? 0) + 1
    }
  }
  return counts
}

describe('npm run rotate-key', () => {
  test('seals values of every kind with a new key; they read as before, and the old key is retired', async () => {
    const [old, fresh] = [await world('old'), await world('fresh')]
    const before = [await old.read(), await fresh.read()]
    const used = await engine.context.pool.query('select bytes from memory_usage')
    const [first] = await keyIds()
    const counts = await named()
    expect(Object.keys(counts)).toEqual([first])
    const values = Object.values(counts).reduce((sum, count) => sum + count, 0)

    const rotation = await rotate()
    expect(rotation).toMatchObject({ retired: [first], sealed: values, unreadable: [] })
    expect(rotation.data_key).not.toBe(first)
    expect(await named()).toEqual({ [rotation.data_key]: values })
    expect([await old.read(), await fresh.read()]).toEqual(before)
    expect((await engine.context.pool.query('select bytes from memory_usage')).rows).toEqual(used.rows)
    expect(await keyIds()).toHaveLength(2)
  })

  test('continues with its key after a kill', async () => {
    const { db } = engine.context
    await world('killed')
    const generation = (await db.selectFrom('data_keys').selectAll().execute()).length + 1
    await makeKey(db, testKey, generation)
    const keys = await db.selectFrom('data_keys').selectAll().execute()
    const made = keys.find((key) => key.generation === generation)?.id
    expect((await rotate()).data_key).toBe(made)
    expect(Object.keys(await named())).toEqual([made])
    expect((await rotate()).data_key).not.toBe(made)
  })

  test('runs alone', async () => {
    const results = await Promise.allSettled([rotate(), rotate(engine.another())])
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(results).toContainEqual({
      status: 'rejected',
      reason: expect.objectContaining({ code: 'conflict' }),
    })
  })

  test('does not wait for locked rows, and loses no concurrent write', async () => {
    await world('busy')
    let rotation: Promise<Rotation> | undefined
    await asAdmin(engine.adminUrl, async (client) => {
      await client.query('begin')
      await client.query(`select 1 from memory where key = 'busy' for update`)
      rotation = rotate()
      // All other values are resealed while this row is locked.
      for (let others = 0; others !== 1;) {
        const counts = await named()
        others = Math.min(...Object.values(counts))
      }
      const place = memoryBinding(engine.organizationId, 'busy', 'v2')
      const sealed = await engine.context.sealer.seal(place, '"written meanwhile"')
      await client.query(`update memory set value_sealed = $1, value_version = 'v2' where key = 'busy'`, [
        sealed,
      ])
      await client.query('commit')
    })
    const rotated = await rotation
    expect(Object.keys(await named())).toEqual([rotated?.data_key])
    expect(await readMemory(engine.context, engine.caller('owner'), 'busy')).toMatchObject({
      value: 'written meanwhile',
    })
  })

  test('names a value that no key opens, leaves it, and retires no key', async () => {
    await setMemory(engine.context, engine.caller('member'), { key: 'broken', value: 1, labels: null })
    await asAdmin(engine.adminUrl, (client) =>
      client.query(
        `update memory set value_sealed = overlay(value_sealed placing '\\x00' from 38) where key = 'broken'`,
      ),
    )
    const rotation = await rotate()
    expect(rotation).toMatchObject({
      retired: [],
      unreadable: [expect.stringMatching(/^memory.value_sealed of .*broken$/)],
    })
    expect(Object.keys(await named())).toHaveLength(2)
    await engine.context.db.deleteFrom('memory').where('key', '=', 'broken').execute()
    expect(await rotate()).toMatchObject({ data_key: rotation.data_key, retired: [expect.any(String)] })
  })
})

/** A column that is written again in the same row. */
interface Again {
  readonly table: string
  readonly column: string
  readonly key: string
  /** Makes a row. Returns its key. */
  make(): Promise<string>
  write(id: string): Promise<unknown>
  read(id: string): Promise<unknown>
}

let count = 0
const owner = (connectionId: string) => ({ organizationId: engine.organizationId, connectionId })
const connection = (id: string) =>
  engine.context.db.selectFrom('connections').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const putMemory = (key: string, value: string) =>
  setMemory(engine.context, engine.caller('member'), { key, value, labels: null })
const putCredential = async (id: string, text: string) =>
  engine.context.db
    .updateTable('connections')
    .set(await engine.context.secrets.replace(owner(id), text, await connection(id)))
    .where('id', '=', id)
    .execute()

const memory = {
  table: 'memory',
  column: 'value_sealed',
  key: 'key',
  make: async () => (await putMemory(`k${(count += 1)}`, 'first')).key,
}
const webhooks = {
  table: 'webhooks',
  column: 'target_sealed',
  key: 'id',
  make: async () =>
    (await createWebhook(engine.context, engine.caller('owner'), { url: 'https://example.com/a', events: ['run.completed'] })).id, // prettier-ignore
  read: (id: string) => readOwned(engine.context, webhookRows, engine.caller('owner'), id),
}
const columns: Readonly<Record<string, Again>> = {
  'a memory value': {
    ...memory,
    write: (key) => putMemory(key, 'second'),
    read: (key) => readMemory(engine.context, engine.caller('owner'), key),
  },
  'a memory value that a tool reads': {
    ...memory,
    write: (key) => putMemory(key, 'first'),
    read: (key) => createToolServices(engine.context).memory.get(engine.organizationId, key),
  },
  'a credential': {
    table: 'connections',
    column: 'credential_sealed',
    key: 'id',
    async make() {
      const { context, organizationId, caller } = engine
      const id = await addConnection(context, organizationId, caller('member').userId, `i${(count += 1)}`)
      await putCredential(id, '"first"')
      return id
    },
    write: (id) => putCredential(id, '"second"'),
    read: async (id) => engine.context.secrets.read(owner(id), await connection(id)),
  },
  'the address of a webhook': {
    ...webhooks,
    write: (id) =>
      changeWebhook(engine.context, engine.caller('owner'), id, { url: 'https://example.com/b' }),
  },
  'the secret of a webhook': {
    ...webhooks,
    write: (id) => rotateWebhookSecret(engine.context, engine.caller('owner'), { id, seconds: 60 }),
  },
}

const bytesOf = async ({ table, column, key }: Again, id: string): Promise<Buffer> => {
  const { rows } = await sql<{ sealed: Buffer }>`
    select ${sql.ref(column)} as sealed from ${sql.table(table)} where ${sql.ref(key)} = ${id}`.execute(
    engine.context.db,
  )
  return rows[0]?.sealed as Buffer
}
/** Changes a row, as a superuser can. */
const put = ({ table, column, key }: Again, id: string, sealed: Buffer) =>
  sql`update ${sql.table(table)} set ${sql.ref(column)} = ${sealed} where ${sql.ref(key)} = ${id}`.execute(
    engine.context.db,
  )

describe.each(Object.entries(columns))('%s', (_, column) => {
  const refused = { name: 'UnsealError' }

  test('does not open with earlier bytes of its row, bytes of another row, or plain bytes, and rotate-key names it', async () => {
    const [id, other] = [await column.make(), await column.make()]
    const earlier = await bytesOf(column, id)
    await column.write(id)
    const present = await bytesOf(column, id)
    const before = await column.read(id)
    for (const wrong of [earlier, await bytesOf(column, other), Buffer.from('"plain"')]) {
      await put(column, id, wrong)
      await expect(column.read(id)).rejects.toMatchObject(refused)
    }
    await put(column, id, earlier)
    expect((await rotate()).unreadable).toEqual([
      expect.stringMatching(new RegExp(`^${column.table}.${column.column} of .*${id}$`)),
    ])
    await put(column, id, present)
    expect((await rotate()).unreadable).toEqual([])
    expect(await column.read(id)).toEqual(before)
  })
})

test('the installation’s key is changed by wrapping the data keys again; then the old one is not needed', async () => {
  const { config } = engine.context
  const { read, runId } = await world('wrapped')
  // After this, the process has the newest data key in memory.
  await rotate()
  await read()
  const before = await read()
  const key = randomBytes(32)
  const withKeys = (...encryptionKeys: [Buffer, ...Buffer[]]): Context =>
    createContext({ ...config, encryptionKeys }, 'tool')
  const [both, alone, strange] = [withKeys(key, testKey), withKeys(key), withKeys(randomBytes(32), key)]
  const twice = withKeys(testKey, testKey)
  try {
    await expect(alone.sealer.check()).rejects.toThrow('DATA_ENCRYPTION_KEY_OLD')
    await expect(rotate(alone, true)).rejects.toThrow('DATA_ENCRYPTION_KEY_OLD')
    const keys = (await keyIds()).length
    // Only one key is set, so there is no new key to change to.
    for (const same of [engine.context, twice])
      await expect(rotate(same, true)).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('set the new one as DATA_ENCRYPTION_KEY'),
      })
    const rotation = await rotate(both, true)
    expect(rotation).toMatchObject({ wrapped: keys, unreadable: [] })
    // Running it again, after a success or a kill, does no harm.
    expect(await rotate(both, true)).toMatchObject({ wrapped: 0, sealed: 0, unreadable: [] })
    await expect(rotate(alone, true)).rejects.toMatchObject({ code: 'conflict' })
    // The codes of audit entries stay valid, also those under retired data keys.
    const verification = await verify(config.database.url, engine.organizationId, [key])
    expect(verification).toMatchObject({ valid: true, first_mismatch: null })
    expect(Object.keys(await named())).toEqual([rotation.data_key])
    await alone.sealer.check()
    expect(await readRun(alone, engine.organizationId, runId)).toEqual(before.run)
    // A process that had read the data keys before continues to work.
    expect(await read()).toEqual(before)
    // A process with an additional wrong key can still open the data keys.
    await strange.sealer.check()
  } finally {
    await Promise.all([both, alone, strange, twice].map((context) => context.close()))
  }
})

test('every column for sealed values is resealed', async () => {
  const { rows } = await engine.context.pool.query(
    `select table_name || '.' || column_name as name from information_schema.columns
     where table_schema = 'public' and (data_type = 'bytea' or column_name like '%\\_sealed')`,
  )
  const walked = sealedColumns.map(({ table, column }) => `${table}.${column}`)
  const names = rows
    .map((row) => row.name)
    .filter((name: string) => !['data_keys.wrapped', 'auth_passkeys.public_key'].includes(name))
  expect(new Set(names)).toEqual(new Set(walked.filter((name) => !name.startsWith('idempotency_keys.'))))
})
