import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { createToolServices } from '../../../src/activities/tools/services.ts'
import { connectionPlace, memoryPlace, webhookPlace } from '../../../src/governance/sealing/places.ts'
import { rotateKey } from '../../../src/governance/sealing/rotate.ts'
import { readMemory, setMemory } from '../../../src/governance/tools/memory.ts'
import {
  changeWebhook,
  createWebhook,
  readWebhook,
  rotateWebhookSecret,
} from '../../../src/governance/webhooks/webhooks.ts'
import { addConnection } from '../../api/fixtures.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'

let engine: Engine
beforeAll(async () => {
  engine = await startEngine()
})
afterAll(() => engine?.close())

/** A column that is written again in the same row. */
interface Again {
  readonly table: string
  readonly column: string
  readonly version: string
  readonly key: string
  /** Makes a row. Returns its key. */
  make(): Promise<string>
  write(id: string): Promise<unknown>
  read(id: string): Promise<unknown>
  formerPlace(id: string): string
}

let made = 0
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

const memory = { table: 'memory', column: 'value_sealed', version: 'value_version', key: 'key' }
const webhooks = { table: 'webhooks', column: 'target_sealed', version: 'target_version', key: 'id' }
const makeMemory = async () => (await putMemory(`k${(made += 1)}`, 'first')).key
const makeWebhook = async () =>
  (await createWebhook(engine.context, engine.caller('owner'), { url: 'https://example.com/a', events: ['run.completed'] })).id // prettier-ignore
const readHook = (id: string) => readWebhook(engine.context, engine.organizationId, id)
const hookPlace = (id: string) => webhookPlace(engine.organizationId, id, null)

const columns: readonly (readonly [string, Again])[] = [
  [
    'a memory value',
    {
      ...memory,
      make: makeMemory,
      write: (key) => putMemory(key, 'second'),
      read: (key) => readMemory(engine.context, engine.organizationId, key),
      formerPlace: (key) => memoryPlace(engine.organizationId, key, null),
    },
  ],
  [
    'a memory value that a tool reads',
    {
      ...memory,
      make: makeMemory,
      write: (key) => putMemory(key, 'first'),
      read: (key) => createToolServices(engine.context).memory.get(engine.organizationId, key),
      formerPlace: (key) => memoryPlace(engine.organizationId, key, null),
    },
  ],
  [
    'a credential',
    {
      table: 'connections',
      column: 'credential_sealed',
      version: 'secret_version',
      key: 'id',
      async make() {
        const { context, organizationId, caller } = engine
        const id = await addConnection(context, organizationId, caller('member').userId, `i${(made += 1)}`)
        await putCredential(id, '"first"')
        return id
      },
      write: (id) => putCredential(id, '"second"'),
      read: async (id) => engine.context.secrets.read(owner(id), await connection(id)),
      formerPlace: (id) => connectionPlace(engine.organizationId, id, 'credential', null),
    },
  ],
  [
    'the address of a webhook',
    {
      ...webhooks,
      make: makeWebhook,
      write: (id) =>
        changeWebhook(engine.context, engine.caller('owner'), id, { url: 'https://example.com/b' }),
      read: readHook,
      formerPlace: hookPlace,
    },
  ],
  [
    'the secret of a webhook',
    {
      ...webhooks,
      make: makeWebhook,
      write: (id) => rotateWebhookSecret(engine.context, engine.caller('owner'), { id, seconds: 60 }),
      read: readHook,
      formerPlace: hookPlace,
    },
  ],
]

const bytesOf = async ({ table, column, key }: Again, id: string): Promise<Buffer> => {
  const { rows } = await sql<{ sealed: Buffer }>`
    select ${sql.ref(column)} as sealed from ${sql.table(table)} where ${sql.ref(key)} = ${id}`.execute(
    engine.context.db,
  )
  return rows[0]?.sealed as Buffer
}
/** Changes a row, as a superuser can. */
const put = ({ table, column, version, key }: Again, id: string, sealed: Buffer, versioned = true) =>
  sql`update ${sql.table(table)} set ${sql.ref(column)} = ${sealed},
      ${sql.ref(version)} = case when ${versioned}::boolean then ${sql.ref(version)} end
      where ${sql.ref(key)} = ${id}`.execute(engine.context.db)

const rotate = () =>
  rotateKey(engine.context, { installationKey: false, settleMilliseconds: 0, say: () => undefined })

describe.each(columns)('%s', (_, column) => {
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

  test('opens without a version only if it was sealed before values had versions', async () => {
    const id = await column.make()
    const earlier = await bytesOf(column, id)
    await column.write(id)
    const [present, before] = [await bytesOf(column, id), await column.read(id)]
    for (const sealed of [earlier, present]) {
      await put(column, id, sealed, false)
      await expect(column.read(id)).rejects.toMatchObject(refused)
    }
    const text = JSON.stringify({ url: 'https://example.com/', secret: 'whsec_AA==' })
    await put(column, id, await engine.context.sealer.seal(column.formerPlace(id), text), false)
    expect(await column.read(id)).not.toEqual(before)
    await column.write(id)
    expect(await bytesOf(column, id)).not.toEqual(present)
    await column.read(id)
  })
})
