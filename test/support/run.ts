import { spawn } from 'node:child_process'
import { chmodSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { forgetProcess, recordProcess } from '../../src/stack/guard.ts'
import { watchNpm } from '../../src/stack/parent.ts'
import { importingTests, testFiles } from './affected.ts'
import { countResults, lastLine, type Counts } from './counts.ts'
import { guardedFolder, startTestPostgres } from './postgres.ts'

/*
 * `npm test [-- Jest's arguments]` starts one PostgreSQL for all test files and runs Jest on them, with two workers for
 * each core, so that one can compute while another waits. `npm run test:deep` does the same with what is slow and rarely
 * breaks: the files `*.deep.test.ts`, and the full counts of the files that use depth.ts.
 *
 * The last line is `N passed, N failed`. If tests were skipped, the line also names their number. The exit code is 0
 * only if at least one test passed and no test failed.
 *
 * TMPDIR points to one run folder, so every folder that a test makes is in the run folder. Only databases are elsewhere
 * (postgres.ts). When this process ends in any way, the guard of the run folder ends Jest and removes the folder. Each
 * server that a test starts has a guard of its own.
 */

const root = fileURLToPath(new URL('../..', import.meta.url))
const jest = join(root, 'node_modules', 'jest', 'bin', 'jest.js')

const jestProcess = new URL('jest-process.ts', import.meta.url).href

/** Each worker uses up to a GiB of memory. */
const mostWorkers = 8

const [deep, given] = [
  process.argv[2] === '--deep',
  process.argv.slice(2).filter((each) => each !== '--deep'),
]
const isNamed = given.some((argument) => !argument.startsWith('-'))

function jestArguments(): readonly string[] {
  const workers = `--maxWorkers=${Math.min(mostWorkers, 2 * availableParallelism())}`
  if (deep) return [...(isNamed ? given : ['--runTestsByPath', ...deepFiles(), ...given]), workers]
  // A pattern of the caller that follows an option with a list would be a part of this list.
  return ['--testPathIgnorePatterns=\\.deep\\.test\\.ts$', workers, ...given]
}

/** The test files that do more in `npm run test:deep` than in `npm test`. */
const deepFiles = (): readonly string[] => [
  ...new Set([
    ...testFiles().filter((file) => file.endsWith('.deep.test.ts')),
    ...importingTests('test/support/depth.ts'),
  ]),
]

const { dataDir: runDir, guard } = guardedFolder()
// As root, this program starts PostgreSQL under another account. This account must be able to enter the folder.
chmodSync(runDir, 0o711)
process.env['TMPDIR'] = runDir
if (deep) process.env['TEST_DEPTH'] = 'deep'
// Without this cache, every Node program that a test starts would compile the same modules again. The cache is not in
// TMPDIR, so that the next run can use it too.
process.env['NODE_COMPILE_CACHE'] ??= join(root, 'node_modules', '.cache', 'compiled')

/**
 * A test run that takes longer than this many milliseconds fails. So a test that never ends cannot block the run for
 * ever.
 */
const longest = 60 * 60_000

/** Milliseconds for Jest to end after SIGTERM. After that, it gets SIGKILL. */
const patience = 10_000

let running: number | undefined
let interrupted: string | undefined
function interrupt(by: string): void {
  interrupted ??= by
  endGroup('SIGTERM')
  setTimeout(() => endGroup('SIGKILL'), patience).unref()
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt)
// npm passes some signals on, and dies of the others.
watchNpm(process.env, () => interrupt('the end of npm'))?.unref()
// Whoever read our output may be gone with npm. Then writing has no effect.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
setTimeout(() => interrupt(`its time limit of ${longest / 60_000} minutes`), longest).unref()

/** Sends the signal to Jest and its workers. Jest leads its own process group. */
function endGroup(signal: NodeJS.Signals): void {
  try {
    if (running !== undefined) process.kill(-running, signal)
  } catch {
    // The group is empty.
  }
}

async function runJest(env: NodeJS.ProcessEnv): Promise<Counts> {
  const results = join(runDir, 'results.json')
  const child = spawn(
    process.execPath,
    [
      ...['--disable-warning=ExperimentalWarning', `--import=${jestProcess}`, jest, '--passWithNoTests'],
      ...jestArguments(),
    ],
    {
      cwd: root,
      env: { ...env, TEST_RESULTS: results },
      detached: true,
      stdio: ['ignore', 'inherit', 'inherit'],
    },
  )
  const { pid } = child
  if (pid === undefined) return countResults(null, 1)
  running = pid
  if (interrupted !== undefined) endGroup('SIGTERM')
  recordProcess(runDir, 'stack', pid)
  const code = await new Promise<number>((resolve) => {
    child.once('error', () => resolve(1))
    child.once('close', (exit) => resolve(exit ?? 1))
  })
  endGroup('SIGKILL')
  running = undefined
  forgetProcess(runDir, 'stack', pid)
  const report = read(results)
  // An interruption counts as one failed test. Without a matching file, Jest writes no results.
  if (report === null && (interrupted !== undefined || code === 0))
    return { passed: 0, failed: 0, skipped: 0 }
  return countResults(report, code)
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

async function runAll(): Promise<Counts> {
  const postgres = await startTestPostgres()
  try {
    return await runJest({ ...process.env, TEST_POSTGRES_ADMIN_URL: postgres.adminUrl })
  } finally {
    await postgres.stop()
  }
}

let total: Counts = { passed: 0, failed: 1, skipped: 0 }
try {
  total = await runAll()
} catch (error) {
  process.stderr.write(`error: ${(error as Error).message}\n`)
}
await guard.close()
if (interrupted !== undefined) total = { ...total, failed: total.failed + 1 }
if (total.passed + total.failed === 0) process.stderr.write('no test ran\n')
if (interrupted !== undefined) process.stderr.write(`interrupted by ${interrupted}\n`)
process.stdout.write(`${lastLine(total)}\n`)
process.exit(total.failed === 0 && total.passed > 0 && interrupted === undefined ? 0 : 1)
