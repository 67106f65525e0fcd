import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { Client } from 'pg'
import { disownStalePid } from '../../src/stack/postgres-cluster.ts'
import { startPostgres, type PostgresOptions, type PostgresServer } from '../../src/stack/postgres.ts'
import { guardedFolder } from '../support/postgres.ts'
import { until } from './until.ts'

const cleaners: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const clean of cleaners.splice(0).toReversed()) await clean()
})

function folder(): string {
  const { dataDir, guard } = guardedFolder()
  cleaners.push(() => guard.close())
  return dataDir
}

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
    const dataDir = folder()
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
    const server = await start({ dataDir: folder(), durable: false })
    await expect(ask(server.appUrl, 'create table mine (a int)')).rejects.toThrow('permission denied')
    await ask(server.ownerUrl, 'create table ours (a int)')
    const roles = await ask(server.adminUrl, `select rolname from pg_roles where rolsuper order by 1`)
    expect(roles).toEqual([{ rolname: 'postgres' }])
  })

  test('committed data survives kill -9, backends of the dead server and its stale pid file', async () => {
    const dataDir = folder()
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
    const dataDir = folder()
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
    const dataDir = folder()
    const server = await start({ dataDir, durable: false })
    const path = join(dataDir, 'postgres', 'postmaster.pid')
    const before = readFileSync(path, 'utf8')
    disownStalePid(join(dataDir, 'postgres'))
    expect(readFileSync(path, 'utf8')).toBe(before)
    expect(server.gone()).toBe(false)
  })

  test('an impossible start reports the reason from the log', async () => {
    const dataDir = folder()
    const first = await start({ dataDir, durable: false })
    await first.stop()
    writeFileSync(join(dataDir, 'postgres', 'postgresql.conf'), 'no_such_setting = on\n')
    await expect(startPostgres({ dataDir, durable: false })).rejects.toThrow('no_such_setting')
  })
})
