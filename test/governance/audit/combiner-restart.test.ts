import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { migrate } from '../../../src/db/migrate.ts'
import { startPostgres, type PostgresServer } from '../../../src/stack/postgres.ts'
import { guardedFolder } from '../../support/postgres.ts'
import { patience, until } from '../../stack/until.ts'
import {
  appendMarked,
  createOrganization,
  openCombiner,
  organizationId,
  storedRows,
  verify,
} from './chain-fixture.ts'

let folder: ReturnType<typeof guardedFolder>
let server: PostgresServer

beforeAll(async () => {
  folder = guardedFolder()
  server = await startPostgres({ dataDir: folder.dataDir })
  await migrate({ url: server.ownerUrl })
  await createOrganization(server.ownerUrl)
})
afterAll(async () => {
  await server.stop(AbortSignal.abort())
  await folder.guard.close()
})

let stop = false
// Stops the callers after a failed test. Otherwise they would repeat for ever.
afterEach(() => {
  stop = true
})

const refusal = { code: 'unavailable', message: expect.stringContaining('nothing was decided') }

test.each([
  { how: 'killed', signal: 'SIGKILL' as const },
  { how: 'shut down', signal: 'SIGINT' as const },
])(
  'Postgres is $how and comes back under load: no answer is lost, none doubled, no gap',
  async ({ how, signal }) => {
    // Enough time to find out whether a lost commit succeeded, however long the restart takes.
    const patient = { settleMilliseconds: patience }
    const opened = [openCombiner(server.appUrl, patient), openCombiner(server.appUrl, patient)]
    const answered: string[] = []
    stop = false
    const caller = async (name: number): Promise<void> => {
      const { combiner } = opened[name % 2] as (typeof opened)[number]
      for (let n = 0; !stop; n += 1) {
        const mark = `${how}-${name}-${n}`
        try {
          answered.push(`${await combiner.join(organizationId, appendMarked, mark)} ${mark}`)
        } catch (error) {
          expect(error).toMatchObject(refusal)
        }
      }
    }
    const callers = Array.from({ length: 16 }, (_, name) => caller(name))
    await until('200 answers', () => answered.length > 200)
    process.kill(server.pid, signal)
    await server.exited
    // Each existing caller may still wait for a lost commit, so perhaps none of them is refused. A new caller is
    // refused.
    const late = openCombiner(server.appUrl)
    opened.push(late)
    const asked = late.combiner.join(organizationId, appendMarked, `${how}-late`)
    await expect(asked).rejects.toMatchObject(refusal)
    server = await startPostgres({ dataDir: folder.dataDir, port: server.port })
    const before = answered.length
    await until('200 answers more', () => answered.length > before + 200)
    stop = true
    await Promise.all(callers)
    for (const { close } of opened) await close()
    const rows = (await storedRows(server.appUrl)).filter((row) => row.mark.startsWith(how))
    expect(rows.map((row) => `${row.seq} ${row.mark}`).sort()).toEqual(answered.sort())
    expect(await verify(server.appUrl)).toMatchObject({ valid: true })
  },
)
