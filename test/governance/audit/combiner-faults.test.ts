import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { migrate } from '../../../src/db/migrate.ts'
import { atCommitPoint } from '../../../src/governance/audit/commit-points.ts'
import { startPostgres, type PostgresServer } from '../../../src/stack/postgres.ts'
import { patience, until } from '../../stack/until.ts'
import { guardedFolder } from '../../support/postgres.ts'
import type { TestDatabase } from '../../support/stack.ts'
import {
  appendMarked,
  createOrganization,
  openCombiner,
  organizationId,
  storedRows,
  verify,
} from './chain-fixture.ts'
import { CommitProxy } from './commit-proxy.ts'
import { useChain } from './use-chain.ts'

/* The combiner while connections are lost, processes die, and PostgreSQL ends. */

let database: TestDatabase
useChain((made) => (database = made))
const stored = async () => (await storedRows(database.appUrl)).map((row) => row.mark)

interface ChildEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** One line `seq mark` for every answered append. */
  readonly answered: string[]
  readonly stderr: string
}

/** Runs combiner-process.ts to its end. */
function runProcess(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<ChildEnd> {
  const program = fileURLToPath(new URL('./combiner-process.ts', import.meta.url))
  const child = spawn(process.execPath, [program, database.appUrl, ...args], {
    env: { ...process.env, ...env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data: Buffer) => (stdout += data.toString()))
  child.stderr.on('data', (data: Buffer) => (stderr += data.toString()))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) =>
      resolve({ code, signal, answered: stdout.split('\n').filter((line) => line !== ''), stderr }),
    )
  })
}

describe('the connection is lost at the commit', () => {
  let proxy: CommitProxy
  let url: string
  let open: ReturnType<typeof openCombiner>
  beforeEach(async () => {
    proxy = new CommitProxy(database.appUrl)
    url = await proxy.listen()
    // Enough time to find out whether a lost commit succeeded, even on a slow machine.
    open = openCombiner(url, { settleMilliseconds: patience })
  })
  afterEach(async () => {
    await open.close()
    await proxy.close()
  })

  const marks = Array.from({ length: 20 }, (_, index) => `m${index}`)
  const appendAll = ({ combiner } = open): Promise<PromiseSettledResult<number>[]> =>
    Promise.allSettled(marks.map((mark) => combiner.join(organizationId, appendMarked, mark)))

  test('before the server got it: nothing was saved, the callers get an error, and the next call succeeds', async () => {
    proxy.cuts.push('before')
    for (const answer of await appendAll())
      expect(answer).toMatchObject({
        reason: { code: 'unavailable', message: expect.stringContaining('nothing was decided') },
      })
    expect(await stored()).toEqual([])
    expect(await open.combiner.join(organizationId, appendMarked, 'next')).toBe(1)
  })

  test('after the server committed: every caller gets the committed answer, once', async () => {
    proxy.cuts.push('after')
    expect(await appendAll()).toEqual(marks.map((_, index) => ({ status: 'fulfilled', value: index + 1 })))
    expect(await stored()).toEqual(marks)
    expect(await open.combiner.join(organizationId, appendMarked, 'next')).toBe(21)
  })

  test('during the commit: the callers get the true outcome', async () => {
    proxy.cuts.push('meanwhile')
    const statuses = new Set((await appendAll()).map(({ status }) => status))
    expect(statuses.size).toBe(1)
    expect(await stored()).toEqual(statuses.has('fulfilled') ? marks : [])
  })

  test('the outcome is found even if others have appended since', async () => {
    const other = openCombiner(database.appUrl)
    proxy.cuts.push('after')
    const [answers] = await Promise.all([
      appendAll(),
      Promise.all(marks.map((mark) => other.combiner.join(organizationId, appendMarked, `other ${mark}`))),
    ])
    expect(answers.map((answer) => answer.status)).toEqual(marks.map(() => 'fulfilled'))
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 40 })
    await other.close()
  })

  test('and the database stays away: the callers learn that the outcome is unknown, and nothing runs again', async () => {
    const impatient = openCombiner(url, { settleMilliseconds: 1_000 })
    proxy.cuts.push('after')
    proxy.staysDown = true
    for (const answer of await appendAll(impatient))
      expect(answer).toMatchObject({
        reason: { code: 'unavailable', message: expect.stringContaining('unknown whether this was saved') },
      })
    expect(await stored()).toEqual(marks)
    await impatient.close()
  })
})

describe('several processes', () => {
  test('share one gapless chain of many callers, and every answer is its entry', async () => {
    const ends = await Promise.all(['a', 'b', 'c'].map((prefix) => runProcess([prefix, '24', '25'])))
    expect(ends.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
      ends.map(() => ({ code: 0, stderr: '' })),
    )
    const rows = await storedRows(database.appUrl)
    expect(rows.map((row) => row.seq)).toEqual(Array.from({ length: 3 * 24 * 25 }, (_, index) => index + 1))
    const answered = ends.flatMap((end) => end.answered)
    expect(answered.sort()).toEqual(rows.map((row) => `${row.seq} ${row.mark}`).sort())
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: rows.length })
  })

  describe('with a fault file', () => {
    let folder: string
    let faultFile: string
    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), 'countersign-fault-'))
      faultFile = join(folder, 'fault')
    })
    afterEach(() => rmSync(folder, { recursive: true }))
    const appendFour = (prefix: string, env: NodeJS.ProcessEnv = {}): Promise<ChildEnd> =>
      runProcess([prefix, '4', '1'], { COUNTERSIGN_FAULT_FILE: faultFile, ...env })

    test.each([
      { when: 'before', entries: 0 },
      { when: 'after', entries: 4 },
    ])(
      'one dies $when the commit: $entries entries are stored, none was answered, the next process continues',
      async ({ when, entries }) => {
        writeFileSync(faultFile, `effect.decide:${when}`)
        expect(await appendFour('a')).toMatchObject({ signal: 'SIGKILL', answered: [] })
        expect(existsSync(`${faultFile}.fired`)).toBe(true)
        expect(await stored()).toHaveLength(entries)
        expect((await appendFour('b')).answered).toHaveLength(4)
        expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: entries + 4 })
      },
    )

    test('an armed point fires once: of two processes exactly one dies', async () => {
      writeFileSync(faultFile, 'effect.decide:after')
      const ends = await Promise.all([appendFour('a'), appendFour('b')])
      expect(ends.filter((end) => end.signal === 'SIGKILL')).toHaveLength(1)
      expect(await stored()).toHaveLength(8)
    })

    test.each([
      { what: 'another point', armed: 'run.finish:before', env: {} },
      { what: 'production', armed: 'effect.decide:before', env: { APP_ENV: 'production' } },
    ])('$what is ignored', async ({ armed, env }) => {
      writeFileSync(faultFile, armed)
      expect(await appendFour('a', env)).toMatchObject({ code: 0, signal: null })
      expect(existsSync(faultFile)).toBe(true)
    })
  })

  test('without a fault file a commit runs and answers', async () => {
    expect(await atCommitPoint('run.accept', () => Promise.resolve(7))).toBe(7)
  })
})

describe('PostgreSQL', () => {
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
  afterEach(() => void (stop = true))
  const refusal = { code: 'unavailable', message: expect.stringContaining('nothing was decided') }

  test.each([
    { how: 'killed', signal: 'SIGKILL' as const },
    { how: 'shut down', signal: 'SIGINT' as const },
  ])(
    'is $how and comes back under load: no answer is lost, none doubled, no gap',
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
})
