import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Client } from 'pg'
import { recordedProcesses } from '../../src/stack/guard.ts'
import { isRunning } from '../../src/stack/process-identity.ts'
import { stackHome, startStack, type StackHome, type StartedStack } from '../support/start-stack.ts'
import { freePort } from '../../src/stack/ports.ts'
import { until } from './until.ts'

const entry = fileURLToPath(new URL('fixtures/main.ts', import.meta.url))
const parts = ['api', 'guard', 'postgres', 'temporal', 'worker'] as const

/** The data folder of most tests. Each test ends what it starts, and the next one starts on the same data. */
let home: StackHome
const started: StartedStack[] = []
beforeAll(() => {
  home = stackHome()
})
afterEach(async () => {
  for (const stack of started.splice(0)) await stack.stop('SIGKILL')
})
afterAll(() => home.remove())

interface Bootstrap {
  readonly base_url: string
  readonly metrics_url: string
  readonly database_url: string
  readonly database_admin_url: string
  readonly temporal_address: string
  readonly temporal_namespace: string
  readonly organization_id: string
}

async function start(
  env: Record<string, string> = {},
  { dataDir = home.dataDir, shell = false } = {},
): Promise<StartedStack> {
  const stack = await startStack({ dataDir, env, entry, shell })
  started.push(stack)
  return stack
}
const rolesOf = (stack: StartedStack): string[] =>
  stack
    .processes()
    .map(({ role }) => role)
    .sort()

async function ask(stack: StartedStack, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: stack.bootstrap<Bootstrap>().database_admin_url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

let kept = 0
async function remember(stack: StartedStack): Promise<void> {
  kept += 1
  await ask(stack, 'create schema if not exists mine; create table if not exists mine.kept (n int)')
  await ask(stack, `insert into mine.kept values (${kept})`)
}

async function expectRemembered(stack: StartedStack): Promise<void> {
  expect(await ask(stack, 'select n from mine.kept order by n')).toEqual(
    Array.from({ length: kept }, (_, index) => ({ n: index + 1 })),
  )
}

/** The marks of the folder of checkpoints. */
const marks = (folder: string): unknown[] =>
  readdirSync(folder, { recursive: true }).filter((name) => /^folder-id.[0-9a-f-]{36}$/.test(String(name)))

describe('npm start', () => {
  test('prints progress and then ready; shows its addresses; a clean stop leaves no process', async () => {
    const { dataDir } = home
    const stack = await start()
    expect(stack.output().trimEnd().split('\n').at(-1)).toBe(`ready ${stack.baseUrl}`)
    expect(stack.output()).toContain(
      `\nconsole: ${stack.baseUrl}/console/\nsign in: ${join(dataDir, 'bootstrap.json')} has`,
    )
    expect(stack.output()).toMatch(/PostgreSQL: done \(\d+\.\d s\)[^]*API and worker: done/)
    const bootstrap = stack.bootstrap<Bootstrap>()
    expect(bootstrap).toMatchObject({ base_url: stack.baseUrl, organization_id: 'org_fixture' })
    expect(statSync(join(dataDir, 'bootstrap.json')).mode & 0o777).toBe(0o600)
    const databases = readdirSync(dataDir).filter((name) => name.startsWith('temporal.db'))
    expect(databases).toContain('temporal.db')
    for (const name of databases) expect(statSync(join(dataDir, name)).mode & 0o077).toBe(0)
    const env = (await (await fetch(`${stack.baseUrl}/env`)).json()) as Record<string, string>
    expect(env).toMatchObject({
      DATABASE_URL: bootstrap.database_url,
      TEMPORAL_ADDRESS: bootstrap.temporal_address,
      TEMPORAL_NAMESPACE: bootstrap.temporal_namespace,
      SMTP_URL: 'smtp://127.0.0.1:1',
      DATA_DIR: dataDir,
    })
    expect(Buffer.from(env['DATA_ENCRYPTION_KEY'] ?? '', 'base64')).toHaveLength(32)
    expect(Object.values(env)).not.toContain(bootstrap.database_admin_url)
    expect(rolesOf(stack)).toEqual(parts)
    expect(marks(join(dataDir, 'audit-checkpoints'))).toHaveLength(1)
    const records = recordedProcesses(dataDir)
    expect(await stack.stop('SIGINT')).toBe(0)
    expect(records.filter(isRunning)).toEqual([])
    expect(recordedProcesses(dataDir)).toEqual([])
    // A fast shutdown with a checkpoint: the next start has nothing to recover.
    expect(readFileSync(join(dataDir, 'logs', 'postgres.log'), 'utf8')).toMatch(
      /database system is shut down\s*$/,
    )
  })

  test('a part killed with -9 is restarted on the same port, and a line says so; no old folder is marked', async () => {
    const checkpoints = join(home.dataDir, 'audit-checkpoints')
    // Somebody has emptied the folder of checkpoints. This start must not make it look like a new one.
    rmSync(checkpoints, { recursive: true })
    const stack = await start()
    expect(existsSync(checkpoints)).toBe(false)
    await remember(stack)
    for (const role of ['api', 'worker', 'temporal', 'postgres'] as const) {
      await stack.kill9(role)
      await until(`${role} is up again`, () => stack.output().includes(`${role} is up again`))
      expect(stack.output()).toContain(`${role} ended unexpectedly (signal SIGKILL)`)
    }
    await until('the API answers', async () => (await fetch(`${stack.baseUrl}/health`).catch(() => null))?.status === 200) // prettier-ignore
    await expectRemembered(stack)
    expect(rolesOf(stack)).toEqual(parts)
    expect(await stack.stop()).toBe(0)
  })

  test('a second start on the folder is refused and harms nothing; a killed supervisor leaves only usable data', async () => {
    const { dataDir } = home
    const first = await start()
    await remember(first)
    const error = await start().catch(String)
    expect(error).toContain('the stack ended (1)')
    expect(error).toContain(`is in use by process ${first.pid}: stop that one first`)
    expect(rolesOf(first)).toEqual(parts)
    expect((await fetch(`${first.baseUrl}/health`)).status).toBe(200)
    expect(JSON.parse(readFileSync(join(dataDir, 'ports.json'), 'utf8'))).toMatchObject({
      postgres: Number(new URL(first.bootstrap<Bootstrap>().database_url).port),
      api: Number(new URL(first.baseUrl).port),
    })
    const records = recordedProcesses(dataDir)
    expect(records).toHaveLength(parts.length)
    await first.kill9('supervisor')
    await until('everything has ended', () => !records.some(isRunning))
    const ports = {
      postgres: await freePort(),
      temporal: await freePort(),
      api: await freePort(),
      metrics: await freePort(),
    }
    writeFileSync(join(dataDir, 'ports.json'), JSON.stringify(ports))
    const second = await start()
    const bootstrap = second.bootstrap<Bootstrap>()
    expect(bootstrap.organization_id).toBe('org_fixture')
    // The ports are the same as before, so bookmarks and connection strings stay valid.
    expect(new URL(bootstrap.database_url).port).toBe(String(ports.postgres))
    expect(bootstrap.temporal_address).toBe(`127.0.0.1:${ports.temporal}`)
    expect(bootstrap.base_url).toBe(`http://127.0.0.1:${ports.api}`)
    expect(bootstrap.metrics_url).toBe(`http://127.0.0.1:${ports.metrics}/metrics`)
    await expectRemembered(second)
    await remember(second)
    await second.kill9('all')
    const third = await start()
    await expectRemembered(third)
    const orphans = recordedProcesses(dataDir).filter(
      ({ role }) => role === 'postgres' || role === 'temporal',
    )
    const guards = recordedProcesses(dataDir).filter(({ role }) => role === 'guard')
    for (const { pid } of [third, ...guards]) process.kill(pid, 'SIGKILL')
    const fourth = await start()
    expect(orphans).toHaveLength(2)
    expect(orphans.filter(isRunning)).toEqual([])
    expect(fourth.output()).toContain('left by an earlier start')
    await expectRemembered(fourth)
    expect(await fourth.stop()).toBe(0)
  })

  test('a port in use is reported before anything is made', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const { port } = other.address() as AddressInfo
    const empty = stackHome()
    try {
      const error = await start({ PORT: String(port) }, empty).catch(String)
      expect(error).toContain(`error: port ${port} of 127.0.0.1 is in use: set PORT`)
      expect(existsSync(join(empty.dataDir, 'postgres'))).toBe(false)
    } finally {
      await empty.remove()
      await new Promise((resolve) => other.close(resolve))
    }
  })

  test('a part that cannot be kept running ends the whole stack with exit 1 and the reason', async () => {
    const stack = await start({ FIXTURE_WORKER: 'fails' })
    expect(await stack.exited).toBe(1)
    expect(stack.output()).toMatch(
      /error: worker failed 6 times in a row right after its start \(exit code 3\)/,
    )
    expect(recordedProcesses(home.dataDir)).toEqual([])
  })

  test('a second signal ends parts that do not drain, and PostgreSQL in a way that loses nothing', async () => {
    const first = await start({ FIXTURE_API: 'stuck' })
    await remember(first)
    let exit: number | string | undefined
    void first.exited.then((code) => (exit = code))
    await until('it has ended', () => {
      // Not with `process.kill`: the pid may be reused before we learn that the process has ended.
      void first.stop('SIGTERM')
      return exit !== undefined
    })
    expect(exit).toBe(0)
    expect(recordedProcesses(home.dataDir)).toEqual([])
  })

  test('under npm it stops when npm, or the shell between them, is ended', async () => {
    const stack = await start({ npm_lifecycle_event: 'start' }, { shell: true })
    // All that the tests above have written is there, also what was written before the second signal.
    await expectRemembered(stack)
    const records = recordedProcesses(home.dataDir)
    process.kill(stack.pid, 'SIGTERM')
    await until('everything has ended', () => !records.some(isRunning))
    expect(stack.output()).toContain('stopping')
  })

  test('in production no bootstrap.json is written and no mail catcher is used; a named folder of checkpoints is not made', async () => {
    const further = stackHome()
    try {
      const named = join(further.dataDir, '..', 'named')
      const stack = await start({ APP_ENV: 'production', AUDIT_CHECKPOINT_DIR: named }, further)
      expect(() => stack.bootstrap()).toThrow('ENOENT')
      expect(await (await fetch(`${stack.baseUrl}/env`)).json()).not.toHaveProperty('SMTP_URL')
      expect(await stack.stop()).toBe(0)
      expect(existsSync(named)).toBe(false)
    } finally {
      await further.remove()
    }
  })
})
