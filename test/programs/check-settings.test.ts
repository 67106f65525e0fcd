import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { checkSettings } from '../../src/programs/check-settings.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { programEnv } from '../support/program-env.ts'
import { selfSigned } from '../support/self-signed.ts'

let folder: string
const key = Buffer.alloc(32, 7).toString('base64')
const own = { DATABASE_URL: 'postgres://db/countersign', DATA_ENCRYPTION_KEY: key }
const at = (name: string): string => join(folder, name)

describe('checkSettings', () => {
  test('finds nothing wrong with an empty environment', () => {
    expect(checkSettings({})).toEqual({ wrong: [], warnings: [] })
  })

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

  test.each([
    ['a whole number as text', { PORT: '0x50' }, 'PORT'],
    ['a number with a sign', { RECONCILE_SECONDS: '-1' }, 'RECONCILE_SECONDS'],
    ['an unknown word for a flag', { ENABLE_DOCS: 'yes' }, 'ENABLE_DOCS'],
    ['a database of another kind', { ...own, DATABASE_URL: 'mysql://root:hunter2@db/x' }, 'DATABASE_URL'],
    ['a database without its key', { DATABASE_URL: 'postgres://db/x' }, 'DATA_ENCRYPTION_KEY is missing'],
  ])('refuses %s and repeats no password', (_what, env, named) => {
    const { wrong } = checkSettings(env)
    expect(wrong).toEqual([expect.stringContaining(named)])
    expect(wrong.join()).not.toContain('hunter2')
  })

  const repeated = 'hunter2'
  test.each([
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
  ])('refuses %s, and says what to change', (_what, env, line) => {
    const { wrong } = checkSettings(env)
    expect(wrong).toEqual([expect.stringContaining(line)])
    expect(wrong.join()).not.toContain(repeated)
  }) // prettier-ignore

  test.each([
    'postgres://db/x',
    'postgres://u:a%2Fb@db:5432/x?sslmode=require',
    'postgresql://u:p@[::1]:5432/x',
    'postgres://u:p@[::1]/x',
    'postgresql:///x?host=/var/run/postgresql:5432',
    'socket:/var/run/postgresql?db=x',
    'socket://u:p@/var/run/postgresql?db=x',
  ])('takes the database at %s', (url) =>
    expect(checkSettings({ ...own, DATABASE_URL: url }).wrong).toEqual([]),
  )

  test('takes a certificate for Temporal with its key', () => {
    const files = { TEMPORAL_TLS_CERT_FILE: selfSigned.certFile, TEMPORAL_TLS_KEY_FILE: selfSigned.keyFile }
    expect(checkSettings(files).wrong).toEqual([])
  })

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
  test.each([
    ['any free ports', { PORT: '0', METRICS_PORT: '0', WORKER_METRICS_PORT: '0', POSTGRES_PORT: '0' }],
    ['one port on two addresses', { METRICS_PORT: '8080', METRICS_HOST: '10.0.0.9' }],
    ['one port on two kinds of addresses', { METRICS_PORT: '8080', HOST: '0.0.0.0', METRICS_HOST: '::1' }],
    ['one port for API and worker in two places', { ...own, ...each9100 }],
    ['a port of a PostgreSQL that is not started', { ...own, POSTGRES_PORT: '8080' }],
  ])('takes %s', (_what, env) => expect(checkSettings(env).wrong).toEqual([]))

  test('with a data folder, API and worker are on one machine', () =>
    expect(checkSettings({ ...own, ...each9100, DATA_DIR: '.data' }).wrong).toHaveLength(1))

  test('compares no port that is wrong itself', () =>
    expect(checkSettings({ PORT: 'abc', METRICS_PORT: '8080' }).wrong).toEqual([
      expect.stringContaining('PORT is wrong'),
    ]))

  test.each(['localhost', '::', '0.0.0.0', 'api-1.internal', '10.example'])('takes %s to listen on', (host) =>
    expect(checkSettings({ HOST: host, METRICS_HOST: host }).wrong).toEqual([]),
  )

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
    beforeEach(() => {
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
      const program = fileURLToPath(new URL('../../src/programs/check-config.ts', import.meta.url))
      const check = (env: NodeJS.ProcessEnv) =>
        spawnSync(process.execPath, [program], {
          encoding: 'utf8',
          cwd: '/proc',
          env: { ...programEnv(), ...env },
        })
      expect(check({ DATA_DIR: '' })).toMatchObject({
        status: 1,
        stderr:
          'error: DATA_DIR `.data`: this user cannot write to `/proc`: change its owner or mode, or name another folder\n',
      })
      // A process of a cluster keeps no files.
      expect(check({ ...own, DATA_DIR: '' })).toMatchObject({ status: 0, stderr: '' })
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
    const program = fileURLToPath(new URL('../../src/programs/check-config.ts', import.meta.url))
    const check = (...more: string[]) =>
      spawnSync(process.execPath, [...more, program], {
        encoding: 'utf8',
        env: { ...programEnv(), SECRETS_BACKEND: 'aws_secrets_manager', AWS_REGION: 'eu-central-1' },
      })
    expect(check()).toMatchObject({ status: 0, stderr: '' })
    const without = check('--import', `data:text/javascript,${encodeURIComponent(hide)}`)
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
