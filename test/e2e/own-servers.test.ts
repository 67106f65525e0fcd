import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { get } from 'node:https'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startPostgres, type PostgresServer } from '../../src/stack/postgres.ts'
import { until } from '../stack/until.ts'
import { startProgram, type Program } from '../support/chaos-programs.ts'
import { asAdmin, guardedFolder, urlOf } from '../support/postgres.ts'
import { programEnv } from '../support/program-env.ts'
import { selfSigned } from '../support/self-signed.ts'
import { startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { testTemporal } from '../support/stack.ts'
import { stackHome, startStack, type StackHome, type StartedStack } from '../support/start-stack.ts'

/*
 * The steps of docs/operations.md, "Your own Temporal and PostgreSQL": its SQL on an unprepared server, the migration
 * as the owner, the first owner, the programs that `npm run build` makes, and a run.
 */

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(join(root, 'docs/operations.md'), 'utf8')
const [, pageSql = ''] = /## Your own Temporal and PostgreSQL\n.*?^```sql\n(.*?)^```$/ms.exec(page) ?? []

let folder: ReturnType<typeof guardedFolder>
let server: PostgresServer
let sink: SmtpSink
let env: Record<string, string>

beforeAll(async () => {
  folder = guardedFolder()
  server = await startPostgres({ dataDir: folder.dataDir, durable: false })
  sink = await startSmtpSink()
  await asAdmin(server.adminUrl, async (client) => {
    for (const what of ['database countersign', 'role countersign_owner', 'role countersign_app'])
      await client.query(`drop ${what}`)
  })
  const temporal = await testTemporal()
  env = {
    APP_ENV: 'production',
    DATABASE_URL: urlOf(server.adminUrl, 'countersign', 'countersign_app'),
    DATABASE_OWNER_URL: urlOf(server.adminUrl, 'countersign', 'countersign_owner'),
    DATA_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    SESSION_SECRET_KEY: randomBytes(32).toString('base64'),
    TRUSTED_PROXY_HOSTS: '127.0.0.1',
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: temporal.namespace,
    SMTP_URL: sink.url,
    FILE_ROOT: 'samples',
    LOG_LEVEL: 'error',
  }
})
afterAll(async () => {
  await sink?.close()
  await server?.stop(AbortSignal.abort())
  await folder?.guard.close()
})

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** A command's output and how it ended. */
function run(program: string, ...args: string[]): Promise<Ended> {
  const options = { cwd: root, env: { ...programEnv(), ...env } }
  return promisify(execFile)(program, args, options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (failed: Ended) => failed,
  )
}
const npm = (script: string, ...args: string[]) => run('npm', 'run', '--silent', script, '--', ...args)

describe('your own PostgreSQL', () => {
  let key: string

  test('is prepared with the SQL of the README, as its superuser', async () => {
    const passwords = ['countersign_owner', 'countersign_app']
    const sql = pageSql.replaceAll('…', () => passwords.shift() ?? '')
    expect(passwords).toEqual([])
    await asAdmin(server.adminUrl, async (client) => {
      for (const statement of sql.split(';').filter((each) => each.trim() !== ''))
        await client.query(statement)
    })
  })

  test('is migrated with the owner’s login, which is not a superuser; once', async () => {
    expect(await npm('migrate')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+ migrations? applied \(\d+\.\d s\)\n$/),
    })
    expect(await npm('migrate')).toMatchObject({ code: 0, stdout: 'the database is up to date\n' })
  })

  test('gets its first owner from the command line, once, with credentials printed as JSON', async () => {
    const usage = await npm('create-owner', 'no address')
    expect(usage).toMatchObject({
      code: 2,
      stdout: '',
      stderr: 'usage: npm run create-owner -- EMAIL [ORGANIZATION]\n',
    })
    const made = await npm('create-owner', 'you@example.com', 'Your organization')
    expect(made).toMatchObject({ code: 0, stderr: '' })
    const owner = JSON.parse(made.stdout) as Record<string, string>
    expect(owner).toMatchObject({ email: 'you@example.com', api_key: expect.stringMatching(/^csk_live_/) })
    key = owner['api_key'] ?? ''
    expect(await npm('create-owner', 'me@example.com')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'error: an organization with members already exists: ask one of its owners to invite you\n',
    })
  })

  test('executes a run of the built programs, which only use the application’s login', async () => {
    const built = await buildIn(join(folder.dataDir, 'built'))
    expect(await run(process.execPath, join(built, 'programs', 'migrate.js'))).toMatchObject({
      code: 0,
      stdout: 'the database is up to date\n',
    })
    // Only migrations get the owner's URL.
    const { DATABASE_OWNER_URL: _, ...theirs } = env
    const programs: Program[] = []
    try {
      for (const name of ['api-server', 'worker'])
        programs.push(await startProgram(join(built, 'programs', `${name}.js`), theirs))
      const url = programs[0]?.url ?? ''
      const ask = async (method: string, path: string, body?: unknown) => {
        const response = await fetch(`${url}${path}`, {
          method,
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        return (await response.json()) as Record<string, unknown>
      }
      await until('every part answers', async () => (await ask('GET', '/health'))['status'] === 'ok')
      const { id } = await ask('POST', '/api/v1/workflows', { name: 'Report', definition })
      const { execution_id: runId } = await ask('POST', `/api/v1/workflows/${String(id)}/execute?wait=0`, {})
      let last: Record<string, unknown> = {}
      await until('the run ends', async () => {
        last = await ask('GET', `/api/v1/runs/${String(runId)}`)
        return last['finished_at'] !== null
      })
      expect(last).toMatchObject({ status: 'completed', status_reason: 'every step has ended' })
      expect(sink.count('From dist')).toBe(1)
      expect(await Promise.all(programs.splice(0).map((program) => program.end()))).toEqual([0, 0])
    } finally {
      for (const program of programs) await program.end('SIGKILL')
    }
  })
})

const definition = {
  steps: [
    { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
    {
      id: 'send',
      tool: 'mail_send',
      params: { to: 'ana@acme.test', subject: 'From dist', text: '{{steps.read.output.text}}' },
    },
  ],
}

/** Runs `npm run build` in a separate installation; returns its `dist`. */
async function buildIn(installation: string): Promise<string> {
  mkdirSync(installation)
  cpSync(join(root, 'package.json'), join(installation, 'package.json'))
  for (const name of ['node_modules', 'samples', 'temporal-dev.yml'])
    symlinkSync(join(root, name), join(installation, name))
  const dist = join(installation, 'dist')
  expect(await npm('build', dist)).toMatchObject({ code: 0, stderr: '' })
  return dist
}

describe('`npm start` with your own Temporal, with a certificate', () => {
  let home: StackHome
  let stack: StartedStack | undefined
  beforeAll(() => {
    home = stackHome()
  })
  afterAll(async () => {
    await stack?.stop()
    await home.remove()
  })

  test('answers over TLS, and uses https in all links', async () => {
    const { certFile, keyFile } = selfSigned
    stack = await startStack({
      dataDir: home.dataDir,
      env: {
        TEMPORAL_ADDRESS: env['TEMPORAL_ADDRESS'] ?? '',
        TEMPORAL_NAMESPACE: env['TEMPORAL_NAMESPACE'] ?? '',
        TEMPORAL_TASK_QUEUE: 'with-a-certificate',
        TLS_CERT_FILE: certFile,
        TLS_KEY_FILE: keyFile,
        LOG_LEVEL: 'error',
      },
    })
    expect(stack.baseUrl).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
    expect(stack.bootstrap()).toMatchObject({
      base_url: stack.baseUrl,
      console_url: `${stack.baseUrl}/console/`,
    })
    expect(stack.processes().map(({ role }) => role)).not.toContain('temporal')
    const request = get(`${stack.baseUrl}/health`, { ca: readFileSync(certFile) })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    expect(response.statusCode).toBe(200)
    response.resume()
  })

  test('does not start with a certificate but no key', async () => {
    const { dataDir, remove } = stackHome()
    try {
      const env = { TLS_CERT_FILE: selfSigned.certFile, TEMPORAL_ADDRESS: '127.0.0.1:1' }
      await expect(startStack({ dataDir, env })).rejects.toThrow(
        'TLS_CERT_FILE and TLS_KEY_FILE belong together: set both, or neither',
      )
    } finally {
      await remove()
    }
  })
})
