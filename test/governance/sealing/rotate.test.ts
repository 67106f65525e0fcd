import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
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
import { memoryPlace } from '../../../src/governance/sealing/places.ts'
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
  if ('claim' in made)
    await context.db.transaction().execute((trx) => made.claim.markActed(trx, { secret: name }))
  if ('claim' in made) await made.claim.release()
  const admin = { userId: caller('approver').userId, organizationId, role: 'owner' } as const
  const read = async () => ({
    run: await readRun(context, organizationId, runId),
    output: await readStepOutput(context, organizationId, runId, 's'),
    memory: await readMemory(context, organizationId, name),
    approval: await readApproval(context, admin, approvalId),
    answer: await openKey(context, use(name)),
  })
  return { read, runId }
}

/** The number of values per data key. The name `` stands for version 1, and `plain` for values that are not sealed. */
async function named(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  const add = (name: string) => (counts[name] = (counts[name] ?? 0) + 1)
  for (const { table, column, stored, plain } of sealedColumns) {
    const { rows } = await engine.context.pool.query(
      `select ${column} as sealed, ${plain ?? 'null'} as plain from ${table}`,
    )
    for (const row of rows) {
      if (row.plain !== null) add('plain')
      if (row.sealed !== null)
        add(keyIdOf(stored === 'base64' ? Buffer.from(row.sealed, 'base64') : row.sealed) ?? '')
    }
  }
  return counts
}

/** Replaces sealed values by plain ones, as a superuser can. */
async function unsealed(name: string, runId: string): Promise<void> {
  await asAdmin(engine.adminUrl, async (client) => {
    await client.query(`update memory set value = '{"of":"forged"}', value_sealed = null where key = $1`, [
      name,
    ])
    for (const column of ['inputs', 'result'])
      await client.query(
        `update runs set ${column} = '{"who":"forged"}', ${column}_sealed = null where id = $1`,
        [runId],
      )
    await client.query(`update effects set output = '{"ok":1}', output_sealed = null where run_id = $1`, [
      runId,
    ])
  })
}

describe('npm run rotate-key', () => {
  test('seals values of every kind and age with a new key; they read as before, and the old key is retired', async () => {
    const [old, fresh] = [await world('old'), await world('fresh')]
    const before = [await old.read(), await fresh.read()]
    const used = await engine.context.pool.query('select bytes from memory_usage')
    const [{ id: first }] = (await engine.context.db.selectFrom('data_keys').select('id').execute()) as [
      { id: string },
    ]
    const counts = await named()
    expect(Object.keys(counts)).toEqual(expect.arrayContaining(['', first]))
    const values = Object.values(counts).reduce((sum, count) => sum + count, 0)

    const rotation = await rotate()
    expect(rotation).toMatchObject({ retired: [first], sealed: values, unreadable: [] })
    expect(rotation.data_key).not.toBe(first)
    expect(await named()).toEqual({ [rotation.data_key]: values })
    expect([await old.read(), await fresh.read()]).toEqual(before)
    expect((await engine.context.pool.query('select bytes from memory_usage')).rows).toEqual(used.rows)
    expect(await engine.context.db.selectFrom('data_keys').select('id').execute()).toHaveLength(2)
  })

  test('continues with its key after a kill', async () => {
    const { db } = engine.context
    await world('killed')
    const generation = (await db.selectFrom('data_keys').selectAll().execute()).length + 1
    await makeKey(db, testKey, generation)
    const made = await db
      .selectFrom('data_keys')
      .select('id')
      .where('generation', '=', generation)
      .executeTakeFirst()
    expect((await rotate()).data_key).toBe(made?.id)
    expect(Object.keys(await named())).toEqual([made?.id])
    expect((await rotate()).data_key).not.toBe(made?.id)
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
      rotation = rotateKey(engine.context, {
        installationKey: false,
        settleMilliseconds: 0,
        say: () => undefined,
      })
      // All other values are resealed while this row is locked.
      for (let others = 0; others !== 1;) {
        const counts = await named()
        others = Math.min(...Object.values(counts))
      }
      const sealed = await engine.context.sealer.seal(
        memoryPlace(engine.organizationId, 'busy', 'v2'),
        '"written meanwhile"',
      )
      await client.query(`update memory set value_sealed = $1, value_version = 'v2' where key = 'busy'`, [
        sealed,
      ])
      await client.query('commit')
    })
    const rotated = await rotation
    expect(Object.keys(await named())).toEqual([rotated?.data_key])
    expect(await readMemory(engine.context, engine.organizationId, 'busy')).toMatchObject({
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

  test('seals no plain value that somebody has put in place of a sealed one, and the service does not read it', async () => {
    const { read, runId } = await world('replaced')
    await read()
    await unsealed('replaced', runId)
    const { context, organizationId } = engine
    const refused = { name: 'UnsealError', message: expect.stringContaining('is not sealed') }
    await expect(readMemory(context, organizationId, 'replaced')).rejects.toMatchObject(refused)
    await expect(readStepOutput(context, organizationId, runId, 's')).rejects.toMatchObject(refused)
    expect(new Set((await rotate()).unreadable)).toEqual(
      new Set([
        `memory.value_sealed of ${organizationId}/replaced`,
        `runs.inputs_sealed of ${runId}`,
        `runs.result_sealed of ${runId}`,
        `effects.output_sealed of ${runId}/s/-1`,
      ]),
    )
    await asAdmin(engine.adminUrl, async (client) => {
      await client.query('delete from memory where value is not null')
      await client.query('update runs set inputs = null, result = null')
      await client.query('update effects set output = null')
    })
    await rotate()
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
    const keys = (await engine.context.db.selectFrom('data_keys').select('id').execute()).length
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
    const { database } = config
    const verification = engine.context.verifier.verify({
      databaseUrl: database.url,
      appRole: database.appRole,
      organizationId: engine.organizationId,
      encryptionKeys: [key],
    })
    // The codes of audit entries stay valid, also those under retired data keys.
    expect(await verification).toMatchObject({ valid: true, first_mismatch: null })
    // Values that older versions stored no longer need the old installation’s key either.
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
  const notValues = ['data_keys.wrapped', 'installation.key_probe']
  const names = rows.map((row) => row.name).filter((name: string) => !notValues.includes(name))
  expect(new Set(names)).toEqual(new Set(walked.filter((name) => !name.startsWith('idempotency_keys.'))))
})
