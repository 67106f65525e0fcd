import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from '@jest/globals'
import { testContext, testKey, withPeople } from '../governance/support.ts'
import { readQuota } from '../../src/governance/limits/quota.ts'
import { checkSettings } from '../../src/programs/check-settings.ts'
import { toolEnvironment } from '../../src/programs/operator-program.ts'
import { loadSecrets } from '../../src/stack/secrets.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { programEnv } from '../support/program-env.ts'
import { selfSigned } from '../support/self-signed.ts'

const own = {
  DATABASE_URL: 'postgres://db/countersign',
  DATA_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
}
const programAt = (name: string): string =>
  fileURLToPath(new URL(`../../src/programs/${name}.ts`, import.meta.url))
/** Runs a program to its end, or fails with its exit code and its output. */
const execute = (name: string, args: readonly string[], env: NodeJS.ProcessEnv) =>
  promisify(execFile)(process.execPath, [programAt(name), ...args], { env: { ...programEnv(), ...env } })
const checkConfig = (env: NodeJS.ProcessEnv, { options = [] as string[], cwd = '.' } = {}) =>
  spawnSync(process.execPath, [...options, programAt('check-config')], {
    encoding: 'utf8',
    cwd,
    env: { ...programEnv(), ...env },
  })

describe('checkSettings', () => {
  test('reports everything that is wrong at once, each in one line', () => {
    const { wrong } = checkSettings({
      PORT: 'abc',
      METRICS_PORT: '70000',
      APP_ENV: 'prod',
      SMTP_URL: 'localhost:25',
      PUBLIC_URL: 'countersign.example.com',
      TEMPORAL_ADDRESS: 'temporal.internal',
      DATA_ENCRYPTION_KEY: 'short',
      TLS_CERT_FILE: 'cert.pem',
      FILE_ROOT: '/absent',
    })
    expect(wrong).toEqual([
      'APP_ENV is wrong: `prod` is not one of development, test, staging, production',
      'TEMPORAL_ADDRESS is wrong: write a host and its port, such as `temporal.internal:7233`',
      'PORT is wrong: `abc` is not a whole number from 0 to 65535',
      'METRICS_PORT is wrong: `70000` is not a whole number from 0 to 65535',
      expect.stringMatching(/^PUBLIC_URL is wrong: it must begin with `http:\/\/` or `https:\/\/`/),
      expect.stringMatching(/^SMTP_URL is wrong: it must begin with `smtp:\/\/` or `smtps:\/\/`/),
      'FILE_ROOT `/absent` does not exist: make the folder, or name another one',
      'DATA_ENCRYPTION_KEY must be 32 bytes in base64 (openssl rand -base64 32)',
      'TLS_CERT_FILE and TLS_KEY_FILE belong together: set both, or neither',
    ])
  })

  const repeated = 'hunter2'
  test.each([
    ['a whole number as text', { PORT: '0x50' }, 'PORT'],
    ['a number with a sign', { RECONCILE_SECONDS: '-1' }, 'RECONCILE_SECONDS'],
    ['an unknown word for a flag', { ENABLE_DOCS: 'yes' }, 'ENABLE_DOCS'],
    ['a database of another kind', { ...own, DATABASE_URL: `mysql://root:${repeated}@db/x` }, 'DATABASE_URL'],
    ['a database without its key', { DATABASE_URL: 'postgres://db/x' }, 'DATA_ENCRYPTION_KEY is missing'],
    ['a sender that is no address', { MAIL_FROM: 'Countersign' }, 'MAIL_FROM is not a sender address; set it to'],
    ['a sender with a second line', { MAIL_FROM: `a@b.example\nBcc: ${repeated}@c.example` }, 'MAIL_FROM is not'],
    ['a mail server without a host', { SMTP_URL: 'smtp://' }, 'SMTP_URL is wrong: its host or port cannot be read'],
    ['a port that is none', { SMTP_URL: `smtp://u:${repeated}@h:99999` }, 'SMTP_URL is wrong: its host or port'],
    ['an option that is none', { SMTP_URL: `smtp://u:${repeated}@h?tls=no` }, 'SMTP_URL has an unknown option'],
    ['a database at a port that is none', { ...own, DATABASE_URL: `postgres://u:${repeated}@h:99999/x` }, 'DATABASE_URL is wrong: its port is not a whole number from 1 to 65535'],
    ['a database at a port in words', { ...own, DATABASE_URL: `postgres://u:${repeated}@h:pg/x` }, 'DATABASE_URL is wrong: its port'],
    ['a role that migrates at port 0', { ...own, DATABASE_OWNER_URL: `postgresql://u:${repeated}@[::1]:0/x` }, 'DATABASE_OWNER_URL is wrong: its port'],
    ['Temporal at a port that is none', { TEMPORAL_ADDRESS: 'temporal:99999' }, 'TEMPORAL_ADDRESS is wrong: its port is not a whole number from 1 to 65535'],
    ['a certificate for Temporal without its key', { TEMPORAL_TLS_CERT_FILE: selfSigned.certFile }, 'TEMPORAL_TLS_CERT_FILE and TEMPORAL_TLS_KEY_FILE belong together'],
    ['a key for Temporal without its certificate', { TEMPORAL_TLS_KEY_FILE: selfSigned.keyFile }, 'TEMPORAL_TLS_CERT_FILE and TEMPORAL_TLS_KEY_FILE belong together'],
    ['a certificate for Temporal that is not there', { TEMPORAL_TLS_CERT_FILE: '/absent/cert', TEMPORAL_TLS_KEY_FILE: '/absent/key' }, 'TEMPORAL_TLS_CERT_FILE `/absent/cert` cannot be read (ENOENT)'],
    ['a key for Temporal that is none', { TEMPORAL_TLS_CERT_FILE: selfSigned.certFile, TEMPORAL_TLS_KEY_FILE: selfSigned.certFile }, 'are not a PEM certificate with its key'],
    ['an address with a space', { PUBLIC_URL: 'https://a b' }, 'PUBLIC_URL is wrong: its host or port'],
    ['numbers that are no address', { HOST: '300.1.1.1' }, 'HOST is wrong: write an address or a name of this machine'],
    ['words for a host', { METRICS_HOST: 'any host' }, 'METRICS_HOST is wrong: write an address'],
  ])('refuses %s, says what to change, and repeats no password', (_what, env, line) => {
    const { wrong } = checkSettings(env)
    expect(wrong).toEqual([expect.stringContaining(line)])
    expect(wrong.join()).not.toContain(repeated)
  }) // prettier-ignore

  test.each([
    ['METRICS_PORT', { PORT: '9100', METRICS_PORT: '9100' }, 'PORT'],
    ['METRICS_PORT', { METRICS_PORT: '8080' }, 'PORT'],
    ['METRICS_PORT', { ...own, METRICS_PORT: '8080', HOST: '0.0.0.0' }, 'PORT'],
    ['METRICS_PORT', { METRICS_PORT: '8080', HOST: '::1', METRICS_HOST: '0:0:0:0:0:0:0:1' }, 'PORT'],
    ['METRICS_PORT', { METRICS_PORT: '8080', METRICS_HOST: 'localhost' }, 'PORT'],
    ['WORKER_METRICS_PORT', { METRICS_PORT: '9100', WORKER_METRICS_PORT: '9100' }, 'METRICS_PORT'],
    ['WORKER_METRICS_PORT', { WORKER_METRICS_PORT: '8080' }, 'PORT'],
    ['POSTGRES_PORT', { PORT: '5432', POSTGRES_PORT: '5432' }, 'PORT'],
  ])('refuses a %s that is taken: %j', (name, env: NodeJS.ProcessEnv, other) => {
    const port = env[name]
    expect(checkSettings(env).wrong).toEqual([
      `${other} and ${name} are both ${port}: set ${name} to another port`,
    ])
  })

  test('names each port once that is taken', () => {
    const all = { METRICS_PORT: '8080', WORKER_METRICS_PORT: '8080', POSTGRES_PORT: '8080' }
    expect(checkSettings(all).wrong).toEqual(
      ['METRICS_PORT', 'WORKER_METRICS_PORT', 'POSTGRES_PORT'].map(
        (name) => `PORT and ${name} are both 8080: set ${name} to another port`,
      ),
    )
  })

  const each9100 = { METRICS_PORT: '9100', WORKER_METRICS_PORT: '9100' }
  const databases = [
    'postgres://db/x',
    'postgres://u:a%2Fb@db:5432/x?sslmode=require',
    'postgresql://u:p@[::1]:5432/x',
    'postgres://u:p@[::1]/x',
    'postgresql:///x?host=/var/run/postgresql:5432',
    'socket:/var/run/postgresql?db=x',
    'socket://u:p@/var/run/postgresql?db=x',
  ]
  const hosts = ['localhost', '::', '0.0.0.0', 'api-1.internal', '10.example']
  const temporal = { TEMPORAL_TLS_CERT_FILE: selfSigned.certFile, TEMPORAL_TLS_KEY_FILE: selfSigned.keyFile }
  type Given = [string, Record<string, string>]
  test.each<Given>([
    ...databases.map((url): Given => [`the database at ${url}`, { ...own, DATABASE_URL: url }]),
    ...hosts.map((host): Given => [`the host ${host}`, { HOST: host, METRICS_HOST: host }]),
    ['a certificate for Temporal with its key', temporal],
    ['any free ports', { PORT: '0', METRICS_PORT: '0', WORKER_METRICS_PORT: '0', POSTGRES_PORT: '0' }],
    ['one port on two addresses', { METRICS_PORT: '8080', METRICS_HOST: '10.0.0.9' }],
    ['one port on two kinds of addresses', { METRICS_PORT: '8080', HOST: '0.0.0.0', METRICS_HOST: '::1' }],
    ['one port for API and worker in two places', { ...own, ...each9100 }],
    ['a port of a PostgreSQL that is not started', { ...own, POSTGRES_PORT: '8080' }],
  ])('takes %s', (_what, env) => expect(checkSettings(env).wrong).toEqual([]))

  test('finds nothing in an empty environment', () =>
    expect(checkSettings({})).toEqual({ wrong: [], warnings: [] }))

  test('with a data folder, API and worker are on one machine', () =>
    expect(checkSettings({ ...own, ...each9100, DATA_DIR: '.data' }).wrong).toHaveLength(1))

  test('compares no port that is wrong itself', () =>
    expect(checkSettings({ PORT: 'abc', METRICS_PORT: '8080' }).wrong).toEqual([
      expect.stringContaining('PORT is wrong'),
    ]))

  test('a certificate that cannot be read is told beside other mistakes', () => {
    const { wrong } = checkSettings({
      PORT: 'abc',
      TLS_CERT_FILE: '/absent/cert',
      TLS_KEY_FILE: '/absent/key',
    })
    expect(wrong).toEqual([
      expect.stringContaining('PORT is wrong'),
      'TLS_CERT_FILE `/absent/cert` cannot be read (ENOENT)',
    ])
  })

  describe('of folders', () => {
    let folder: string
    const at = (name: string): string => join(folder, name)
    beforeAll(() => {
      folder = temporaryFolder()
      mkdirSync(at('folder'))
      writeFileSync(at('file'), '')
    })

    test.each([
      ['FILE_ROOT', 'file', 'is a file: name a folder'],
      ['FILE_ROOT', 'absent', 'does not exist'],
      ['LOG_DIR', 'file', 'is a file: name a folder'],
      ['LOG_DIR', 'file/logs', 'is a file: name a folder'],
      ['AUDIT_CHECKPOINT_DIR', 'file', 'is a file: name a folder'],
      ['DATA_DIR', 'file', 'is a file: name a folder'],
    ])('%s refuses %s', (name, place, problem) => {
      expect(checkSettings({ [name]: at(place) }).wrong).toEqual([expect.stringContaining(problem)])
    })

    test('accepts folders, and those that a start would create', () => {
      const env = { FILE_ROOT: at('folder'), LOG_DIR: at('new/logs'), DATA_DIR: at('folder') }
      expect(checkSettings(env).wrong).toEqual([])
    })

    test('refuses a start in a folder in which the data folder cannot be made, without a database of its own', () => {
      expect(checkConfig({ DATA_DIR: '' }, { cwd: '/proc' })).toMatchObject({
        status: 1,
        stderr:
          'error: DATA_DIR `.data`: this user cannot write to `/proc`: change its owner or mode, or name another folder\n',
      })
      // A process of a cluster keeps no files.
      const ended = checkConfig({ ...own, DATA_DIR: '' }, { cwd: '/proc' })
      expect(ended).toMatchObject({ status: 0, stderr: '' })
    })

    test('refuses a folder in which this user, even root, cannot make another', () => {
      expect(checkSettings({ DATA_DIR: '/proc/countersign' }).wrong).toEqual([
        expect.stringContaining('cannot write'),
      ])
    })
  })

  test('names the package for secrets in AWS if it is not installed, and the remedy', async () => {
    const name = '@aws-sdk/client-secrets-manager'
    // The program runs in a process whose resolution does not find the package.
    const hide = `import { registerHooks } from 'node:module'
      registerHooks({ resolve(wanted, context, next) {
        if (wanted === '${name}') throw Object.assign(new Error('absent'), { code: 'ERR_MODULE_NOT_FOUND' })
        return next(wanted, context)
      } })`
    const aws = { SECRETS_BACKEND: 'aws_secrets_manager', AWS_REGION: 'eu-central-1' }
    expect(checkConfig(aws)).toMatchObject({ status: 0, stderr: '' })
    const options = ['--import', `data:text/javascript,${encodeURIComponent(hide)}`]
    const without = checkConfig(aws, { options })
    expect(without.status).toBe(1)
    expect(without.stderr).toContain(
      `error: SECRETS_BACKEND \`aws_secrets_manager\` needs the package ${name}, which is not installed: run \`npm ci --include=optional\`, or set SECRETS_BACKEND=db\n`,
    )
  })

  test('in production warns about servers that are not named, because `npm start` runs its own', () => {
    const warned = (env: NodeJS.ProcessEnv): string[] =>
      checkSettings(env).warnings.filter((line) =>
        /^(?:DATABASE_URL|TEMPORAL_ADDRESS) is not set: /.test(line),
      )
    const production = {
      APP_ENV: 'production',
      ...own,
      SESSION_SECRET_KEY: 'x'.repeat(32),
      TRUSTED_PROXY_HOSTS: '10.0.0.5',
    }
    expect(checkSettings(production).wrong).toEqual([])
    expect(warned(production)).toEqual([expect.stringContaining('TEMPORAL_ADDRESS')])
    expect(warned({ ...production, TEMPORAL_ADDRESS: 'temporal:7233' })).toEqual([])
    expect(warned({ ...production, DATABASE_URL: '' })).toHaveLength(2)
    expect(warned({ APP_ENV: 'staging' })).toEqual([])
  })

  test('in production asks for a session key before anything is started; staging warns', () => {
    const named = expect.stringContaining('SESSION_SECRET_KEY must have at least 32 characters')
    expect(checkSettings({ APP_ENV: 'production' }).wrong).toContainEqual(named)
    expect(checkSettings({ APP_ENV: 'staging' })).toMatchObject({
      wrong: [],
      warnings: expect.arrayContaining([named]),
    })
  })
})

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
  for (const mine of [{ DATA_ENCRYPTION_KEY: 'mine' }, { TEMPORAL_ADDRESS: 'mine:7233' }])
    expect(toolEnvironment({ DATA_DIR: folder, ...mine }, () => undefined)).toMatchObject(mine)
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
  const call = (env: NodeJS.ProcessEnv) => execute(name, args, env)
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
  for (const name of ['DATABASE_URL', 'DATABASE_OWNER_URL'])
    await expect(execute('migrate', [], { [name]: url.replace('5439', '1') })).rejects.toMatchObject({
      code: 1,
      stderr: `error: the database cannot be reached: check ${name} (connect ECONNREFUSED 127.0.0.1:1)\n`,
    })
})

test('`npm run set-plan` moves an organization of the running stack to another plan, and sets its limits', async () => {
  const running = await testContext()
  try {
    const { identities } = await withPeople(running.context)
    const dataDir = dataFolder(running.context.config.database.url)
    // An operator can also set limits where owners may not.
    const key = testKey.toString('base64')
    const env = { DATA_ENCRYPTION_KEY: key, DATA_DIR: dataDir, QUOTA_OVERRIDES: 'operator' }
    const setPlan = (...args: string[]) => execute('set-plan', [identities.organization_id, ...args], env)
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
    expect(await readQuota(running.context, identities.organization_id)).toMatchObject({ plan: 'free' })
  } finally {
    await running.close()
  }
})
