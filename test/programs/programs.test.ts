import { fork, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { marked, organizationId as chainOwner } from '../governance/audit/chain-fixture.ts'
import { testContext, testKey, withPeople, type TestContext } from '../governance/support.ts'
import { checkpointKeys } from '../../src/governance/audit/checkpoint.ts'
import { chainStart, sealEntry, type ChainPosition } from '../../src/governance/audit/entry.ts'
import { lineOf } from '../../src/governance/audit/verify-entry.ts'
import { measureSlots } from '../../src/programs/worker.ts'
import { workflowBundlePath } from '../../src/programs/workflow-bundle.ts'
import { createMetrics } from '../../src/shared/metrics.ts'
import { projectRoot } from '../../src/shared/project-root.ts'
import { until } from '../stack/until.ts'
import { programEnv } from '../support/program-env.ts'

const programAt = (name: string) => fileURLToPath(new URL(`../../src/programs/${name}.ts`, import.meta.url))
let running: TestContext
let organizationId: string

beforeAll(async () => {
  running = await testContext()
  organizationId = (await withPeople(running.context)).identities.organization_id
})
afterAll(() => running.close())
/** The environment of a program that has the database of these tests. */
const ownEnv = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({
  ...programEnv(),
  DATABASE_URL: running.context.config.database.url,
  DATA_ENCRYPTION_KEY: testKey.toString('base64'),
  ...env,
})

/** Opens the shell, types the lines and closes its input. */
async function shell(
  args: readonly string[],
  lines: readonly string[] = [],
  env: NodeJS.ProcessEnv = { ENABLE_DEVELOPER_ROUTES: 'true' },
) {
  const child = spawn(process.execPath, [programAt('shell'), ...args], { env: ownEnv(env) })
  child.stdin.end(lines.map((line) => `${line}\n`).join(''))
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ])
  return { code, stdout, stderr }
}

const openings = async (): Promise<unknown[]> => {
  const { rows } = await running.context.pool.query(
    `select canonical::jsonb->'metadata' as metadata from audit_events
      where organization_id = $1 and event_type = 'DEVELOPER_SHELL_EXECUTED' order by seq`,
    [organizationId],
  )
  return rows.map((row: { metadata: unknown }) => row.metadata)
}

test('the shell has the context, and its entry is in the audit log before the prompt appears', async () => {
  const before = (await openings()).length
  const { code, stdout } = await shell(
    [organizationId],
    [
      'organizationId',
      `(await sql\`select count(*)::int as n from audit_events where event_type = 'DEVELOPER_SHELL_EXECUTED'\`.execute(db)).rows[0].n + 1000`,
    ],
  )
  expect(code).toBe(0)
  expect(stdout).toContain(`'${organizationId}'`)
  expect(stdout).toContain(String(before + 1_001))
  expect((await openings()).at(-1)).toMatchObject({ mode: 'read' })
})

test('writes only with --write', async () => {
  const rename = (name: string): string =>
    `await db.updateTable('organizations').set({ name: '${name}' }).where('id', '=', organizationId).execute()`
  const nameNow = async () => {
    const own = running.context.db.selectFrom('organizations').select('name').where('id', '=', organizationId)
    return (await own.executeTakeFirstOrThrow()).name
  }
  expect((await shell([organizationId], [rename('Read')])).stdout).toContain('read-only transaction')
  expect(await nameNow()).not.toBe('Read')
  await shell([organizationId, '--write'], [rename('Written')])
  expect(await nameNow()).toBe('Written')
  expect((await openings()).at(-1)).toMatchObject({ mode: 'write' })
})

test.each([
  ['without the setting', () => [organizationId], {}, 1, 'set ENABLE_DEVELOPER_ROUTES=true'],
  ['for an unknown organization', () => ['org_absent'], undefined, 1, 'org_absent'],
  ['without an organization', () => [], undefined, 2, 'usage'],
  ['with an unknown flag', () => [organizationId, '--force'], undefined, 2, 'usage'],
  [
    'in production',
    () => [organizationId],
    { ENABLE_DEVELOPER_ROUTES: 'true', APP_ENV: 'production', SESSION_SECRET_KEY: 's'.repeat(32) },
    1,
    'ENABLE_DEVELOPER_ROUTES must be `false`',
  ],
] as const)('the shell does not open %s', async (_how, args, env, code, said) => {
  const before = await openings()
  const ended = await shell(args(), ['1 + 1'], env)
  expect(ended).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(said) })
  expect(await openings()).toEqual(before)
})

test.each([
  ['is told to stop', (child: ChildProcess) => child.kill('SIGTERM')],
  ['has lost its supervisor', (child: ChildProcess) => child.disconnect()],
])('a worker that waits for Temporal at its start ends when it %s', async (_, end) => {
  // Nothing listens at this address.
  const env = ownEnv({ APP_ENV: 'test', TEMPORAL_ADDRESS: '127.0.0.1:1' })
  const child = fork(programAt('worker'), [], { env, execArgv: [], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (data: string) => (output += data))
  try {
    const exited = new Promise((resolve) => child.once('exit', resolve))
    await until('it says that it waits', () => output.includes('Temporal cannot be reached yet'))
    end(child)
    expect(await exited).toBe(0)
  } finally {
    child.kill('SIGKILL')
  }
})

test('calls, local activities and workflows have slots of their own', async () => {
  const metrics = createMetrics('worker')
  const slots = {
    maxConcurrentActivityTaskExecutions: 10,
    maxConcurrentLocalActivityExecutions: 50,
    maxConcurrentWorkflowTaskExecutions: 20,
  }
  const status = {
    numInFlightActivities: 15,
    numInFlightNonLocalActivities: 3,
    numInFlightLocalActivities: 12,
    numInFlightWorkflowActivations: 21,
    numCachedWorkflows: 7,
  }
  measureSlots(metrics, slots, status)
  const { values } = await metrics.workerSlots.get()
  expect(values.map(({ labels, value }) => [labels['kind'], labels['state'], value])).toEqual([
    ['activity', 'used', 3],
    ['activity', 'free', 7],
    ['local_activity', 'used', 12],
    ['local_activity', 'free', 38],
    ['workflow', 'used', 21],
    ['workflow', 'free', 0],
  ])
})

describe('the bundle of the workflow code', () => {
  const root = join(import.meta.dirname, '..', '..')
  const bundle = async (): Promise<string> => readFileSync(await workflowBundlePath(), 'utf8')

  test('a worker loads the workflow code once, for all runs', async () => {
    const [, body = ''] =
      /preloadModules = function preloadModules\(\) \{(.*?)\n\}/s.exec(await bundle()) ?? []
    expect(body.match(/src\/workflows\/[\w-]+\.ts/g)).toEqual(
      expect.arrayContaining(['src/workflows/no-stacks.ts', 'src/workflows/index.ts']),
    )
  })

  test('no module of the workflow code has state, because all runs share it', async () => {
    const modules = [...(await bundle()).matchAll(/^\/\*\*\*\/ "\.\/(src\/[^"]+\.ts)"/gm)].map(
      ([, path]) => path ?? '',
    )
    expect(modules.length).toBeGreaterThan(5)
    const state =
      /^(?:export )?(?:let|var) .*|^(?:export )?const \w+\b(?!: Readonly)[^=\n]*= (?:new (?:Map|Set|WeakMap|WeakSet)\b|\[\]).*/gm
    for (const path of modules) {
      const found = readFileSync(join(root, path), 'utf8').match(state)
      expect([path, found]).toEqual([path, null])
    }
  })
})

const keys = checkpointKeys([randomBytes(32)])
const verifierKey = keys.verifierKey(chainOwner)
const entries = 60_000
let folder: string
let head: ChainPosition = chainStart
/** A checkpoint of the entries in the first half of the file. */
let middle: string
const at = (name: string) => join(folder, name)

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'verify-audit-'))
  // The file is larger than the memory that the program gets below.
  let lines = ''
  for (let seq = 1; seq <= entries; seq += 1) {
    const entry = sealEntry(chainOwner, head, 1, new Date(0), marked('x'.repeat(600)))
    head = { seq, hash: entry.hash }
    lines += `${lineOf(entry)}\n`
    if (seq === entries / 2) middle = keys.sign({ organizationId: chainOwner, ...head })
    if (seq % 1_000 !== 0) continue
    appendFileSync(at('good'), lines)
    lines = ''
  }
  const checkpoint = keys.sign({ organizationId: chainOwner, ...head })
  appendFileSync(at('good'), `${JSON.stringify({ checkpoint, verifier_key: verifierKey })}\n`)
  writeFileSync(at('middle.note'), middle)
  const text = readFileSync(at('good'), 'utf8')
  writeFileSync(at('cut'), text.slice(0, 100_000))
  writeFileSync(at('edited'), text.slice(0, 100_000).replace('"ok"', '"no"'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function run(args: readonly string[], command = ['src/programs/verify-audit.ts']) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...command, ...args], {
    cwd: projectRoot(),
    encoding: 'utf8',
    // Nothing of the service is there: no database, no keys.
    env: { PATH: process.env['PATH'], NODE_OPTIONS: '--max-old-space-size=32' },
  })
  return { status, stdout, stderr }
}

describe('verify-audit', () => {
  test('accepts a file that is larger than its memory', () => {
    expect(readFileSync(at('good')).length).toBeGreaterThan(60 * 1024 * 1024)
    expect(run([at('good'), '--key', verifierKey, '--checkpoint', at('middle.note')])).toEqual({
      status: 0,
      stdout: `valid: ${entries} entries of ${chainOwner}, the last with the hash ${head.hash}; signed by the given key\n`,
      stderr: '',
    })
  })

  test('says that the key in the file must be compared', () => {
    const { status, stdout } = run([at('good')])
    expect(status).toBe(0)
    expect(stdout).toContain(
      `signed by the key in the file, which you must compare with the key of your service: ${verifierKey}\n`,
    )
  })

  test.each([
    ['cut', /^not valid: line \d+ is cut, after entry \d+\n$/],
    ['edited', /^not valid: line 1: entry 1 was changed: its hash is \w{64}, and not \w{64}\n$/],
  ])('names the place at which a file was %s', (name, line) => {
    expect(run([at(name)])).toEqual({ status: 1, stdout: expect.stringMatching(line), stderr: '' })
  })

  test('refuses another key', () => {
    const other = checkpointKeys([randomBytes(32)]).verifierKey(chainOwner)
    expect(run([at('good'), '--key', other])).toEqual({
      status: 1,
      stdout: 'not valid: the checkpoint in the file: no known key has signed the note\n',
      stderr: '',
    })
  })

  test('shows control characters and marks of direction of a file as codes', () => {
    const entry = JSON.stringify({
      seq: 1,
      organization_id: chainOwner,
      prev_hash: '0\u001b[2K\u202e\u0085',
    })
    const raw = entry.replace(/\\u001b/, '\u001b').slice(1)
    const lines = [
      lineOf({
        canonical: JSON.stringify({ seq: '\u202e', organization_id: chainOwner }),
        hash: '0'.repeat(64),
      }),
      `{"hash":"${'\u001b'.repeat(64)}",${raw}`,
      `{"hash":"${hash('sha256', entry)}",${entry.slice(1)}`,
    ]
    for (const line of lines) {
      writeFileSync(at('forged'), `${line}\n`)
      const { status, stdout } = run([at('forged')])
      expect(status).toBe(1)
      expect(stdout).toMatch(/^not valid: line 1[\x20-\x7e]+\n$/)
    }
    expect(run([at('forged')]).stdout).toContain('found 0\\u001b[2K\\u202e\\u0085')
    expect(run([at('\u001bx')]).stderr).toMatch(/^error: [\x20-\x7e]+\\u001bx'\n$/)
  })

  test('ends quietly, with its exit code, if nobody reads its output', async () => {
    const child = spawn(process.execPath, ['src/programs/verify-audit.ts', at('edited')], {
      cwd: projectRoot(),
    })
    child.stdout.destroy()
    let errors = ''
    child.stderr.on('data', (data: Buffer) => (errors += data.toString()))
    const [code] = await once(child, 'close')
    expect([code, errors]).toEqual([1, ''])
  })

  test('takes no checkpoint from a device', () => {
    expect(run([at('edited'), '--checkpoint', '/dev/zero'])).toEqual({
      status: 1,
      stdout: 'not valid: `/dev/zero` is not a regular file\n',
      stderr: '',
    })
  })

  const missing = [[['missing']], [['good', '--checkpoint', 'missing']]]
  test.each(missing)('names a file that is missing: %j', ([file = '', ...more]) => {
    const { status, stdout, stderr } = run([at(file), ...more])
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^error: ENOENT: no such file or directory, .*missing'\n$/)
  })

  const wrongArguments = [[[]], [['a', 'b']], [['a', '--keys', 'b']]]
  test.each(wrongArguments)('shows its usage after the arguments %j', (args) => {
    expect(run(args)).toMatchObject({
      status: 2,
      stdout: '',
      stderr: expect.stringMatching(/^usage: countersign verify-audit FILE/),
    })
  })
})

describe('the command `countersign`', () => {
  test('runs verify-audit, and passes on its arguments and its exit code', () => {
    const args = [at('edited'), '--key', verifierKey]
    expect(run(['verify-audit', ...args], ['bin/countersign.js'])).toEqual(run(args))
  })

  test('is in package.json', () => {
    const { bin } = JSON.parse(readFileSync(join(projectRoot(), 'package.json'), 'utf8'))
    expect(bin).toEqual({ countersign: 'bin/countersign.js' })
  })
})
