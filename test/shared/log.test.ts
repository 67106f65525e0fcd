import pg from 'pg'
import { spawn, spawnSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { ActivityFailure, ApplicationFailure, RetryState } from '@temporalio/common'
import { pino } from 'pino'
import { z } from 'zod'
import { testContext, type TestContext } from '../governance/support.ts'
import { ApiError } from '../../src/api/errors.ts'
import { DomainError } from '../../src/governance/errors.ts'
import { temporalLogger } from '../../src/programs/worker.ts'
import { forPeople, logFile, lostLines } from '../../src/shared/log-file.ts'
import { createLog, type Log, createSparseLog } from '../../src/shared/log.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'

/* The log shows enough of an error to find its place, and none of the values it contains. */

const secret = 'planted7f3a'
let running: TestContext
let folder: string
let log: Log
beforeAll(async () => {
  running = await testContext()
  folder = mkdtempSync(join(tmpdir(), 'countersign-log-'))
  log = createLog({ level: 'debug', process: 'test', processId: 'p', folder })
})
afterAll(async () => {
  await running.close()
  rmSync(folder, { recursive: true })
})

const lines = (): string[] => readFileSync(join(folder, 'test.log'), 'utf8').trimEnd().split('\n')
const lastLine = () => JSON.parse(lines().at(-1) as string)
/** The beginning of each line that contains the secret, so that a failure shows the line. */
const leaks = (): string[] =>
  lines()
    .filter((line) => line.includes(secret))
    .map((line) => line.slice(Math.max(0, line.indexOf(secret) - 200), line.indexOf(secret) + 100))

/** Logs an error in every possible way, and returns the line written for `{ err }`. */
function logged(error: unknown) {
  truncateSync(join(folder, 'test.log'))
  log.info({ failure: error, cause: error, anything: error }, 'under other names')
  log.info(error as Error)
  log.info(error as Error, 'with words')
  // The types do not permit this call.
  Reflect.apply(log.info, log, ['in words: %s %o', error, error])
  log.info({ err: error })
  log.info({ err: error }, 'as usual')
  expect(leaks()).toEqual([])
  return lastLine().err
}

async function thrownBy(work: () => unknown): Promise<unknown> {
  try {
    await work()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

describe('of PostgreSQL', () => {
  const statements: [what: string, sql: string, code: string, message: string][] = [
    ['a value that is not a number', `select $1::text::integer`, '22P02', 'invalid input syntax for type integer …'],
    ['a value that is not JSON', `select $1::text::json`, '22P02', 'invalid input syntax for type json'],
    ['a value that is not a time', `select $1::text::timestamptz`, '22007', 'invalid input syntax for type timestamp with time zone …'],
    ['the message of a trigger', `do $x$ begin raise exception 'no "${secret}" here' using detail = '${secret}', hint = '${secret}'; end $x$`, 'P0001', 'no …'],
    ['a table named like a value', `select * from "${secret}"`, '42P01', 'relation …'],
  ] // prettier-ignore
  test.each(statements)('%s', async (_, sql, code, message) => {
    const values = sql.includes('$1') ? [secret] : []
    const error = await thrownBy(() => running.context.pool.query(sql, values))
    expect(error).toBeInstanceOf(pg.DatabaseError)
    // The error itself contains the secret; otherwise this would prove nothing.
    expect(`${JSON.stringify(error)} ${(error as Error).message} ${sql}`).toContain(secret)
    expect(logged(error)).toMatchObject({ name: 'DatabaseError', code, message })
  })

  test('rows that break a rule: the table and the rule are named, the row is not', async () => {
    const { pool } = running.context
    await pool.query(`insert into users (id, email) values ('usr_1', $1)`, [`${secret}@acme.test`])
    const twice = await thrownBy(() =>
      pool.query(`insert into users (id, email) values ('usr_1', $1)`, [`${secret}@acme.test`]),
    )
    expect(logged(twice)).toMatchObject({ code: '23505', table: 'users', constraint: 'users_pkey' })
    const none = await thrownBy(() => pool.query(`insert into users (id, email) values ($1, null)`, [secret]))
    expect((none as pg.DatabaseError).detail).toContain(secret)
    expect(logged(none)).toMatchObject({ code: '23502', message: 'null value in column …' })
  })
})

const withSecret = (error: Error, more: object = {}): Error => Object.assign(error, { query: secret, parameters: [secret], where: secret, hint: secret, ...more }) // prettier-ignore

describe('of others', () => {
  test.each<[string, () => unknown, object]>([
    ['an error of our own', () => new DomainError('not_found', `no rule \`${secret}\``, [{ path: secret, message: secret }]), { name: 'DomainError', code: 'not_found', message: 'no rule …' }],
    ['an error of the API', () => new ApiError('bad_request', `\`${secret}\` is odd`), { name: 'ApiError', code: 'bad_request' }],
    ['a plain error', () => withSecret(new Error(`no room for ${secret}`)), { name: 'Error' }],
    ['a name that is a sentence', () => Object.assign(new Error('m'), { name: `${secret} and more`, code: `${secret} and more` }), { name: 'Error' }],
    ['a message of several lines', () => new Error(`a\n    at ${secret} (/a/${secret}.ts:1:1)\nb`), { name: 'Error' }],
    ['a message changed later', () => Object.assign(new Error(`${secret}\n at ${secret}`), { message: 'x' }), { name: 'Error' }],
    ['a property that throws', () => Object.defineProperty(new Error(secret), 'code', { get: () => { throw new Error(secret) } }), { name: 'Error' }],
    ['a file', () => thrownBy(() => readFileSync(`/no/such/${secret}`)), { name: 'Error', code: 'ENOENT', message: 'open ENOENT' }],
    ['a server', () => thrownBy(() => fetch('http://127.0.0.1:1/')), { name: 'TypeError', message: 'fetch failed' }],
    ['JSON', () => thrownBy(() => JSON.parse(`{"a": ${secret}}`)), { name: 'SyntaxError' }],
    ['a number', () => thrownBy(() => BigInt(secret)), { name: 'SyntaxError' }],
    ['an address', () => thrownBy(() => new URL(secret)), { name: 'TypeError', code: 'ERR_INVALID_URL' }],
    ['a programming error', () => thrownBy(() => (undefined as unknown as string[]).length), { name: 'TypeError', message: 'Cannot read properties of undefined' }],
    ['a property of a string', () => thrownBy(() => Object.defineProperty(secret as unknown as object, 'x', {})), { name: 'TypeError' }],
    ['a schema', () => z.strictObject({ a: z.enum(['x']) }).safeParse({ [secret]: 1, a: secret }).error, { name: 'ZodError', issues: ['invalid_value', 'unrecognized_keys'] }],
    ['Temporal', () => new ActivityFailure(secret, 'mail_send', '1', RetryState.TIMEOUT, secret, ApplicationFailure.create({ message: secret, type: 'refused', details: [secret] })), { name: 'ActivityFailure', cause: { name: 'ApplicationFailure', type: 'refused' } }],
    ['several', () => new AggregateError([new Error(secret), withSecret(new TypeError(secret))], secret), { name: 'AggregateError', errors: [{ name: 'Error' }, { name: 'TypeError' }] }],
    ['nested causes', () => new Error(secret, { cause: new DomainError('conflict', `a \`${secret}\``) }), { cause: { code: 'conflict', message: 'a …' } }],
  ])('%s', async (_, make, expected) => {
    expect(logged(await make())).toMatchObject(expected)
  }) // prettier-ignore

  test.each([[{ detail: secret }], [secret], [null]])('a value that is not an error', (thrown: unknown) => {
    truncateSync(join(folder, 'test.log'))
    log.info({ err: thrown }, 'thrown')
    expect(leaks()).toEqual([])
    expect(lastLine().err).toEqual({ name: typeof thrown })
  })

  test('a cause that refers to itself comes to an end', () => {
    const error = new Error(secret)
    error.cause = error
    expect(logged(error).cause.cause).toBeDefined()
  })

  test('the place is shown', () => {
    expect(logged(new Error(secret)).stack).toContain('log.test.ts')
  })

  test('a database that cannot be reached is described in the driver’s words', () => {
    expect(logged(new Error('Connection terminated unexpectedly')).message).toBe(
      'Connection terminated unexpectedly',
    )
  })
})

test('messages of Temporal’s client are logged in the same way', () => {
  const error = new ActivityFailure(secret, 'mail_send', '1', RetryState.TIMEOUT, secret, new Error(secret))
  temporalLogger(log).warn(`Activity failed: "${secret}"`, { error, args: [secret], workflowId: 'run_1' })
  expect(leaks()).toEqual([])
  expect(lastLine()).toMatchObject({
    msg: 'Temporal: Activity failed …',
    workflow_id: 'run_1',
    err: { name: 'ActivityFailure', cause: { name: 'Error' } },
  })
})

test('a workflow that fails as its run ended is not logged, and any other is', () => {
  const failed = (message: string) =>
    temporalLogger(log).warn('Workflow failed', { error: new Error(message), workflowId: 'run_2' })
  failed('boom')
  expect(lastLine()).toMatchObject({ msg: 'Temporal: Workflow failed', workflow_id: 'run_2' })
  log.info('a line after it')
  for (const message of ['failed', 'denied: step a', 'cancelled']) failed(message)
  expect(lastLine()).toMatchObject({ msg: 'a line after it' })
})

test.each(['a full disk', 'a reader that has gone'])(
  '%s behind stderr loses lines, counts them, and does not end the process',
  async (where) => {
    // Only Linux has a device that is always full.
    if (where === 'a full disk' && !existsSync('/dev/full')) return
    const module = (name: string) => JSON.stringify(new URL(`../../src/${name}.ts`, import.meta.url).href)
    const program = `
    import { createLog } from ${module('shared/log')}
    import { lostLines } from ${module('shared/log-file')}
    const log = createLog({ level: 'info', process: 'api', processId: 'p', folder: null })
    const write = () => (lostLines.terminal < 3 ? (log.error('x'), setTimeout(write, 5)) : console.log('3 lost'))
    write()`
    const full = where === 'a full disk' ? openSync('/dev/full', 'w') : ('pipe' as const)
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', full],
    })
    child.stderr?.destroy()
    let output = ''
    child.stdout?.on('data', (data) => (output += String(data)))
    await new Promise((ended) => child.once('close', ended))
    if (typeof full === 'number') closeSync(full)
    expect(output).toBe('3 lost\n')
  },
)

const throwing = ['throw', 'void Promise.reject']
test.each(throwing)('an uncaught error ends the process without showing its values: %s', (how) => {
  const module = (name: string) => JSON.stringify(new URL(`../../src/${name}.ts`, import.meta.url).href)
  const program = `
  import { endAtUncaught } from ${module('programs/fail')}
  import { createLog } from ${module('shared/log')}
  endAtUncaught(createLog({ level: 'info', process: 'api', processId: 'p', folder: null }))
  ${how}(Object.assign(new Error('${secret}'), { detail: '${secret}' }))`
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
  })
  expect(status).toBe(1)
  expect(stderr).not.toContain(secret)
  expect(stderr).toContain('the process ends because of an uncaught error')
})

describe('a log file', () => {
  test('is readable only by its owner, is appended to, and is set aside once it is too large', () => {
    const folder = join(temporaryFolder(), 'logs')
    const path = join(folder, 'api.log')
    const write = (line: string) => logFile(folder, 'api', 10).write(line)
    write('one\n')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    write('two-two-two\n')
    expect(readFileSync(path, 'utf8')).toBe('one\ntwo-two-two\n')
    write('three\n')
    expect(readFileSync(path, 'utf8')).toBe('three\n')
    expect(readFileSync(`${path}.1`, 'utf8')).toBe('one\ntwo-two-two\n')
  })

  test('a line that cannot be written is counted, and later ones are written again', () => {
    const folder = temporaryFolder()
    const file = logFile(folder, 'api', 3)
    const before = lostLines.file
    file.write('1234\n')
    // The next line cannot rename the full file, because a folder that is not empty has the new name.
    mkdirSync(join(folder, 'api.log.1', 'x'), { recursive: true })
    file.write('5678\n')
    expect(lostLines.file).toBe(before + 1)
    rmSync(join(folder, 'api.log.1'), { recursive: true })
    file.write('9\n')
    expect(lostLines.file).toBe(before + 1)
    expect(readFileSync(join(folder, 'api.log'), 'utf8')).toBe('9\n')
  })

  test('two processes that share a file set it aside once', () => {
    const folder = temporaryFolder()
    const [one, other] = [logFile(folder, 'tool', 3), logFile(folder, 'tool', 3)]
    for (const line of ['one 1\n', 'one 2\n']) one.write(line)
    for (const line of ['other 1\n', 'other 2\n']) other.write(line)
    const text = (name: string) => readFileSync(join(folder, name), 'utf8')
    expect([text('tool.log'), text('tool.log.1')]).toEqual(['one 2\nother 2\n', 'one 1\nother 1\n'])
  })

  test('logging continues in the new file', () => {
    const folder = temporaryFolder()
    const file = logFile(folder, 'worker', 3)
    for (const line of ['1234\n', '5678\n', '9\n']) file.write(line)
    expect(readFileSync(join(folder, 'worker.log'), 'utf8')).toBe('9\n')
    expect(readFileSync(join(folder, 'worker.log.1'), 'utf8')).toBe('5678\n')
  })
})

describe('for people', () => {
  const line = (entry: object) => forPeople(JSON.stringify({ time: 0, process: 'worker', ...entry }))

  test('information is left out; a warning or an error is one line with the reason', () => {
    expect(line({ level: 30, msg: 'the API answers' })).toBeNull()
    expect(line({ level: 40, msg: 'trying again', err: 'refused' })).toMatch(
      /^\d\d:\d\d:\d\d worker warning: trying again: refused\n$/,
    )
    expect(line({ level: 50, msg: 'a request failed', failure: 'a\n  b\u001b[31m', stack: 'at x' })).toMatch(
      /worker error: a request failed: a \| b \[31m\n$/,
    )
    expect(line({ level: 50, msg: 'm', err: { type: 'Error', message: 'why', stack: 's' } })).toMatch(
      /: m: why\n$/,
    )
  })
})

function started() {
  const lines: Record<string, unknown>[] = []
  const log = pino({ base: null, timestamp: false }, { write: (line) => void lines.push(JSON.parse(line)) })
  let now = 0
  const sparse = createSparseLog(log, () => now)
  return { lines, sparse, pass: (milliseconds: number) => (now += milliseconds) }
}

test('the first line of a kind is written at once, then one in ten seconds that tells how many are missing', () => {
  const { lines, sparse, pass } = started()
  for (let n = 0; n < 5; n += 1) sparse.warn('outage', { n }, 'away')
  pass(9_999)
  sparse.warn('outage', { n: 5 }, 'away')
  pass(1)
  sparse.warn('outage', { n: 6 }, 'away')
  expect(lines).toEqual([
    { level: 40, n: 0, msg: 'away' },
    { level: 40, n: 6, left_out: 5, msg: 'away' },
  ])
})

test('kinds do not share their seconds', () => {
  const { lines, sparse } = started()
  for (const kind of ['a', 'b', 'a']) sparse.info(kind, { kind }, 'refused')
  expect(lines.map(({ kind }) => kind)).toEqual(['a', 'b'])
})

test('a thousand kinds are remembered, not more', () => {
  const { lines, sparse } = started()
  for (let n = 0; n < 1_001; n += 1) sparse.info(`kind ${n}`, {}, 'refused')
  sparse.info('kind 0', {}, 'refused')
  expect(lines.length).toBe(1_002)
})
