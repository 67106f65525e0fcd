import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { Client } from 'pg'
import { temporaryFolder } from './temporary-folder.ts'
import { until } from './until.ts'
import {
  accountFor,
  giveTo,
  disownStalePid,
  startPostgres,
  type System,
  type PostgresOptions,
  type PostgresServer,
} from '../../src/stack/postgres.ts'
import { guardedFolder } from '../support/postgres.ts'

/** One data folder for servers that are durable, and one for those that are not. Each test starts its own server. */
let folders: { readonly durable: string; readonly quick: string }
const cleaners: (() => Promise<void>)[] = []
const guards: { close(): Promise<void> }[] = []

beforeAll(() => {
  const [durable, quick] = [guardedFolder(), guardedFolder()]
  guards.push(durable.guard, quick.guard)
  folders = { durable: durable.dataDir, quick: quick.dataDir }
})
afterEach(async () => {
  for (const clean of cleaners.splice(0).toReversed()) await clean()
})
afterAll(() => Promise.all(guards.map((guard) => guard.close())))

async function start(options: PostgresOptions): Promise<PostgresServer> {
  const server = await startPostgres(options)
  cleaners.push(() => server.stop(AbortSignal.abort()))
  return server
}

async function ask(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query(sql)).rows as Record<string, unknown>[]
  } finally {
    await client.end()
  }
}

describe('the embedded PostgreSQL', () => {
  test('is durable, listens only on loopback, and needs the passwords of secrets.json', async () => {
    const dataDir = folders.durable
    const server = await start({ dataDir })
    const settings = await ask(
      server.adminUrl,
      `select name, setting from pg_settings where name in
      ('fsync', 'synchronous_commit', 'full_page_writes', 'listen_addresses', 'unix_socket_directories', 'max_connections', 'server_encoding')`,
    )
    expect(Object.fromEntries(settings.map((row) => [row['name'], row['setting']]))).toEqual({
      fsync: 'on',
      synchronous_commit: 'on',
      full_page_writes: 'on',
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: '200',
      server_encoding: 'UTF8',
    })
    const wrong = new URL(server.adminUrl)
    wrong.password = 'wrong'
    await expect(ask(wrong.href, 'select 1')).rejects.toThrow('password authentication failed')
    wrong.password = ''
    await expect(ask(wrong.href, 'select 1')).rejects.toThrow()
    expect(statSync(join(dataDir, 'secrets.json')).mode & 0o777).toBe(0o600)
    expect(readdirSync(dataDir).sort()).toEqual([
      'ports.json',
      'postgres',
      'postgres.log',
      'run',
      'secrets.json',
    ])
  })

  test('the application role owns nothing and may create nothing; the owner role may', async () => {
    const server = await start({ dataDir: folders.quick, durable: false })
    await expect(ask(server.appUrl, 'create table mine (a int)')).rejects.toThrow('permission denied')
    await ask(server.ownerUrl, 'create table ours (a int)')
    const roles = await ask(server.adminUrl, `select rolname from pg_roles where rolsuper order by 1`)
    expect(roles).toEqual([{ rolname: 'postgres' }])
  })

  test('committed data survives kill -9, backends of the dead server and its stale pid file', async () => {
    const dataDir = folders.durable
    const first = await start({ dataDir })
    await ask(first.ownerUrl, 'create table kept as select 42 as answer')
    // A stopped backend has not noticed that its server has ended, and still holds the shared memory.
    const session = new Client({ connectionString: first.adminUrl })
    session.on('error', () => undefined)
    await session.connect()
    const [row] = (await session.query('select pg_backend_pid() as pid')).rows as { pid: number }[]
    const backend = row?.pid ?? 0
    process.kill(backend, 'SIGSTOP')
    try {
      process.kill(first.pid, 'SIGKILL')
      await first.exited
      expect(statSync(join(dataDir, 'postgres', 'postmaster.pid')).isFile()).toBe(true)
      const starting = start({ dataDir, port: first.port })
      const log = (): string => readFileSync(join(dataDir, 'postgres.log'), 'utf8')
      await until('the first try is refused', () => log().includes('is still in use'))
      process.kill(backend, 'SIGCONT')
      const second = await starting
      expect(second.port).toBe(first.port)
      expect(await ask(second.ownerUrl, 'select answer from kept')).toEqual([{ answer: 42 }])
    } finally {
      await session.end().catch(() => undefined)
    }
  })

  test('a pid file that names an unrelated process neither prevents the start nor harms that process', async () => {
    const dataDir = folders.quick
    const first = await start({ dataDir, durable: false })
    process.kill(first.pid, 'SIGKILL')
    await first.exited
    const path = join(dataDir, 'postgres', 'postmaster.pid')
    const stranger = Number(
      execFileSync('sh', ['-c', 'sleep 600 >/dev/null 2>&1 & echo $!'], { encoding: 'utf8' }),
    )
    try {
      writeFileSync(path, readFileSync(path, 'utf8').replace(/^\d+/, String(stranger)))
      const second = await start({ dataDir, durable: false })
      expect(await ask(second.adminUrl, 'select 1 as one')).toEqual([{ one: 1 }])
      process.kill(stranger, 0)
    } finally {
      process.kill(stranger, 'SIGKILL')
    }
  })

  test('a running server of the folder is left alone', async () => {
    const dataDir = folders.quick
    const server = await start({ dataDir, durable: false })
    const path = join(dataDir, 'postgres', 'postmaster.pid')
    const before = readFileSync(path, 'utf8')
    disownStalePid(join(dataDir, 'postgres'))
    expect(readFileSync(path, 'utf8')).toBe(before)
    expect(server.gone()).toBe(false)
  })

  test('an impossible start reports the reason from the log', async () => {
    const dataDir = folders.quick
    const first = await start({ dataDir, durable: false })
    await first.stop()
    writeFileSync(join(dataDir, 'postgres', 'postgresql.conf'), 'no_such_setting = on\n')
    await expect(startPostgres({ dataDir, durable: false })).rejects.toThrow('no_such_setting')
  })
})

const passwd = 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/sbin/nologin\n'

function system(change: Partial<System>): System {
  return { uid: 0, accounts: () => passwd, works: () => true, ...change }
}

describe('the account that PostgreSQL runs as', () => {
  test('is the user’s own, except for root', () => {
    expect(accountFor('/nowhere', system({ uid: 1000 }))).toEqual({ wrap: [] })
    expect(accountFor('/nowhere', system({ uid: undefined }))).toEqual({ wrap: [] })
  })

  test('for root is an existing account in a user namespace', () => {
    const wrap = ['unshare', '--user', '--map-user=65534', '--map-group=65533', '--']
    const asked: string[] = []
    const works = (command: readonly string[]): boolean => asked.push(command.join(' ')) > 0
    expect(accountFor('/nowhere', system({ works }))).toEqual({ wrap })
    expect(asked).toEqual([[...wrap, 'true'].join(' ')])
  })

  test('prefers `postgres` over `nobody`', () => {
    const accounts = (): string => `${passwd}postgres:x:70:71:p:/:/bin/sh\n`
    expect(accountFor('/nowhere', system({ accounts, works: () => false }))).toEqual({
      wrap: [],
      uid: 70,
      gid: 71,
    })
  })

  test('without namespaces is switched to; without an account either, root is told what to do', () => {
    expect(accountFor('/nowhere', system({ works: () => false }))).toEqual({
      wrap: [],
      uid: 65534,
      gid: 65533,
    })
    expect(() => accountFor('/nowhere', system({ accounts: () => '' }))).toThrow(/start as another user, or set DATABASE_URL/) // prettier-ignore
  })

  test('a cluster is handed over completely, and the folders above it are opened no further than needed', () => {
    const dataDir = temporaryFolder()
    chmodSync(dataDir, 0o700)
    const cluster = join(dataDir, 'postgres')
    mkdirSync(join(cluster, 'base'), { recursive: true, mode: 0o700 })
    writeFileSync(join(cluster, 'base', '1'), '')
    giveTo({ wrap: [] }, cluster, dataDir)
    expect(statSync(dataDir).mode & 0o777).toBe(0o700)
    const { uid, gid } = statSync(cluster)
    giveTo({ wrap: [], uid, gid }, cluster, dataDir)
    expect(statSync(dataDir).mode & 0o777).toBe(0o711)
    expect(statSync(cluster).mode & 0o777).toBe(0o700)
  })
})
