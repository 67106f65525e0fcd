import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { readQuota } from '../../src/governance/limits/quota.ts'
import { loadSecrets } from '../../src/stack/secrets.ts'
import { toolEnvironment } from '../../src/programs/tool-environment.ts'
import { testContext, testKey, withPeople } from '../governance/support.ts'
import { programEnv } from '../support/program-env.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'

const url = 'postgresql://countersign_app:hidden@127.0.0.1:5439/countersign'

const temporal = { temporal_address: '127.0.0.1:7999', temporal_namespace: 'default' }

function dataFolder(databaseUrl = url): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'bootstrap.json'), JSON.stringify({ database_url: databaseUrl, ...temporal }))
  return folder
}

test('uses the database, Temporal server and keys of a stack that runs there, and shows them without the password', () => {
  const folder = dataFolder()
  const secrets = loadSecrets(folder)
  const said: string[] = []
  const env = toolEnvironment({ DATA_DIR: folder, DATABASE_URL: '', LOG_LEVEL: 'error' }, (line) =>
    said.push(line),
  )
  expect(env).toEqual({
    DATA_DIR: folder,
    DATABASE_URL: url,
    TEMPORAL_ADDRESS: temporal.temporal_address,
    TEMPORAL_NAMESPACE: temporal.temporal_namespace,
    DATA_ENCRYPTION_KEY: secrets.data_encryption_key,
    SESSION_SECRET_KEY: secrets.session_secret_key,
    LOG_DIR: join(folder, 'logs'),
    AUDIT_CHECKPOINT_DIR: join(folder, 'audit-checkpoints'),
    LOG_LEVEL: 'error',
  })
  expect(said).toEqual([expect.stringContaining('127.0.0.1:5439/countersign')])
  expect(said[0]).toContain(folder)
  expect(said[0]).not.toContain('hidden')
  expect(toolEnvironment({ DATA_DIR: folder, DATA_ENCRYPTION_KEY: 'mine' }, () => undefined)).toMatchObject({
    DATA_ENCRYPTION_KEY: 'mine',
  })
  expect(toolEnvironment({ DATA_DIR: folder, TEMPORAL_ADDRESS: 'mine:7233' }, () => undefined)).toMatchObject(
    {
      TEMPORAL_ADDRESS: 'mine:7233',
    },
  )
})

describe('a data folder without bootstrap.json, as in production', () => {
  const folderOf = () => {
    const folder = temporaryFolder()
    const secrets = loadSecrets(folder)
    writeFileSync(join(folder, 'ports.json'), JSON.stringify({ postgres: 5439, temporal: 7999 }))
    return { folder, secrets }
  }

  test('names the database and the Temporal server of its last start', () => {
    const { folder, secrets } = folderOf()
    mkdirSync(join(folder, 'postgres'))
    writeFileSync(join(folder, 'postgres', 'PG_VERSION'), '18\n')
    const said: string[] = []
    const env = toolEnvironment({ DATA_DIR: folder, APP_ENV: 'production' }, (line) => said.push(line))
    expect(env).toEqual({
      DATA_DIR: folder,
      APP_ENV: 'production',
      DATABASE_URL: url.replace('hidden', secrets.postgres_app_password),
      TEMPORAL_ADDRESS: '127.0.0.1:7999',
      DATA_ENCRYPTION_KEY: secrets.data_encryption_key,
      SESSION_SECRET_KEY: secrets.session_secret_key,
      AUDIT_CHECKPOINT_DIR: join(folder, 'audit-checkpoints'),
    })
    expect(said).toEqual([expect.stringContaining('127.0.0.1:5439/countersign')])
    expect(said[0]).not.toContain(secrets.postgres_app_password)
  })

  test('names nothing if its last start had another database', () => {
    const { folder } = folderOf()
    const env = { DATA_DIR: folder }
    expect(toolEnvironment(env, () => undefined)).toBe(env)
  })
})

test.each([
  ['an environment that names a database', () => ({ DATABASE_URL: url, DATA_DIR: dataFolder() }), []],
  [
    'a folder without a stack',
    () => ({ DATA_DIR: temporaryFolder() }),
    [expect.stringMatching(/^`.+` has no database of `npm start`: run `npm start` first, or set/)],
  ],
])('%s stays unchanged', (_what, make, lines) => {
  const env = make()
  const said: string[] = []
  expect(toolEnvironment(env, (line) => said.push(line))).toBe(env)
  expect(said).toEqual(lines)
  expect(existsSync(join(env.DATA_DIR, 'secrets.json'))).toBe(false)
})

test('a bootstrap.json that cannot be read is named', () => {
  const folder = dataFolder('nowhere')
  expect(() => toolEnvironment({ DATA_DIR: folder }, () => undefined)).toThrow(`${folder}/bootstrap.json`)
})

const commands: readonly (readonly [string, readonly string[]])[] = [
  ['set-plan', ['org_1', 'pro']],
  ['set-queue', ['org_1', 'acme']],
  ['rotate-key', []],
  ['accept-checkpoints', ['--all']],
  ['connect-installation', ['org_1', 'file_read']],
  ['create-owner', ['you@example.com']],
]

test.each(commands)('`npm run %s` without the database says in one line what to do', async (name, args) => {
  const program = fileURLToPath(new URL(`../../src/programs/${name}.ts`, import.meta.url))
  const call = (env: NodeJS.ProcessEnv) =>
    promisify(execFile)(process.execPath, [program, ...args], { env: { ...programEnv(), ...env } })
  // Nothing listens on port 1.
  const nowhere = url.replace('5439', '1')
  await expect(call({ DATA_DIR: dataFolder(nowhere) })).rejects.toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /^using the database of .*\nerror: the database cannot be reached: is `npm start` running\?\n$/,
    ),
  })
  const key = randomBytes(32).toString('base64')
  await expect(call({ DATABASE_URL: nowhere, DATA_ENCRYPTION_KEY: key })).rejects.toMatchObject({
    code: 1,
    stderr: 'error: the database cannot be reached: check DATABASE_URL\n',
  })
})

test('`npm run migrate` without the database says in one line what to check', async () => {
  const program = fileURLToPath(new URL('../../src/programs/migrate.ts', import.meta.url))
  for (const name of ['DATABASE_URL', 'DATABASE_OWNER_URL'])
    await expect(
      promisify(execFile)(process.execPath, [program], {
        env: { ...programEnv(), [name]: url.replace('5439', '1') },
      }),
    ).rejects.toMatchObject({
      code: 1,
      stderr: `error: the database cannot be reached: check ${name} (connect ECONNREFUSED 127.0.0.1:1)\n`,
    })
})

test('`npm run set-plan` moves an organization of the running stack to another plan, and sets its limits', async () => {
  const running = await testContext()
  try {
    const { identities } = await withPeople(running.context)
    const { DATABASE_URL: _, DATA_ENCRYPTION_KEY: __, ...env } = process.env
    const program = fileURLToPath(new URL('../../src/programs/set-plan.ts', import.meta.url))
    const dataDir = dataFolder(running.context.config.database.url)
    // An operator can also set limits where owners may not.
    const key = { DATA_ENCRYPTION_KEY: testKey.toString('base64') }
    const options = { env: { ...env, ...key, DATA_DIR: dataDir, QUOTA_OVERRIDES: 'operator' } }
    const setPlan = (...args: string[]) =>
      promisify(execFile)(process.execPath, [program, identities.organization_id, ...args], options)
    const { stdout, stderr } = await setPlan('free', 'memory_mb=1024', 'monthly_spend=7')
    expect(JSON.parse(stdout)).toMatchObject({
      plan: 'free',
      overrides: { memory_mb: 1024, monthly_spend: 7 },
      effective: { memory_mb: 1024 },
    })
    expect(stderr).toContain('the database of')
    expect(JSON.parse((await setPlan('pro', 'memory_mb=plan')).stdout).overrides).toEqual({
      monthly_spend: 7,
    })
    for (const [args, code, said] of [
      [['free', 'memory_mb=25601'], 1, 'at most 25600'],
      [['free', 'memory_mb=0'], 2, 'memory_mb'],
      [['free', 'memory_mb'], 2, 'is not an override'],
      [['free', 'memory=1'], 2, 'memory'],
      [['free', 'storage_mb=1', 'storage_mb=2'], 2, '`storage_mb` is given more than once'],
      [['gold'], 1, 'gold'],
      [[], 2, 'usage'],
    ] as const)
      await expect(setPlan(...args)).rejects.toMatchObject({
        code,
        stdout: '',
        stderr: expect.stringContaining(said),
      })
    await setPlan('free')
    expect(readFileSync(join(dataDir, 'logs', 'tool.log'), 'utf8')).toContain('"msg":"quota updated"')
    expect(await readQuota(running.context.db, identities.organization_id)).toMatchObject({ plan: 'free' })
  } finally {
    await running.close()
  }
})
