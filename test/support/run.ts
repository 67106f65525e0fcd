import { spawn } from 'node:child_process'
import { chmodSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { forgetProcess, recordProcess } from '../../src/stack/guard.ts'
import { watchNpm } from '../../src/stack/parent.ts'
import { countResults, lastLine, type Counts } from './counts.ts'
import { guardedFolder, startTestPostgres } from './postgres.ts'

/*
 * `npm test [-- Jest's arguments]` starts one PostgreSQL for all test files. After that, it runs Jest in three lanes at
 * the same time, so that one lane can compute while another lane waits.
 *
 * 1. The unit and database tests run two files at a time.
 * 2. The tests in test/e2e run one file at a time, because they start whole stacks and kill parts of them. The kills at
 *    commit points come first, because they mostly wait until dead processes are noticed.
 * 3. The tests in test/adapters and test/clients wait for other programs. Two files of test/e2e run here too, so that
 *    the three lanes take about the same time.
 *
 * The last line is `N passed, N failed`. If tests were skipped, the line also names their number. The exit code is 0
 * only if at least one test passed and no test failed.
 *
 * TMPDIR points to one run folder, so every folder that a test makes is in the run folder. Only databases are elsewhere
 * (postgres.ts). When this process ends in any way, the guard of the run folder ends Jest and removes the folder. Each
 * server that a test starts has a guard of its own.
 */

interface Phase {
  readonly name: string
  readonly args: readonly string[]
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const jest = join(root, 'node_modules', 'jest', 'bin', 'jest.js')

const endWithParent = new URL('end-with-parent.ts', import.meta.url).href

/** The lanes run side by side. The phases of a lane run one after the other. */
const lanes: readonly (readonly Phase[])[] = [
  [{ name: 'unit', args: ['--testPathIgnorePatterns=/test/(e2e|clients|adapters)/', '--maxWorkers=2'] }],
  [
    { name: 'crashes', args: ['--testPathIgnorePatterns=/test/(?!e2e/commit-points)', '--runInBand'] },
    {
      name: 'e2e',
      args: [
        '--testPathIgnorePatterns=/test/(?!e2e/)|/e2e/(commit-points|fuzz|many-processes)',
        '--runInBand',
      ],
    },
  ],
  [
    {
      name: 'adapters',
      args: ['--testPathIgnorePatterns=/test/(?!adapters/|e2e/(fuzz|many-processes))', '--runInBand'],
    },
    { name: 'clients', args: ['--testPathIgnorePatterns=/test/(?!clients/)', '--runInBand'] },
  ],
]

const { dataDir: runDir, guard } = guardedFolder()
// As root, this program starts PostgreSQL under another account. This account must be able to enter the folder.
chmodSync(runDir, 0o711)
process.env['TMPDIR'] = runDir
// Without this cache, every Node program that a test starts would compile the same modules again. The cache is not in
// TMPDIR, so that the next run can use it too.
process.env['NODE_COMPILE_CACHE'] ??= join(root, 'node_modules', '.cache', 'compiled')

/**
 * A test run that takes longer than this many milliseconds fails. So a test that never ends cannot block the run for
 * ever.
 */
const longest = 60 * 60_000

/** Milliseconds for the processes of a phase to end after SIGTERM. After that, they get SIGKILL. */
const patience = 10_000

const running = new Set<number>()
let interrupted: string | undefined
function interrupt(by: string): void {
  interrupted ??= by
  for (const leader of running) endGroup(leader, 'SIGTERM')
  setTimeout(() => {
    for (const leader of running) endGroup(leader, 'SIGKILL')
  }, patience).unref()
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt)
// npm passes some signals on, and dies of the others.
watchNpm(process.env, () => interrupt('the end of npm'))?.unref()
// Whoever read our output may be gone with npm. Then writing has no effect.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
setTimeout(() => interrupt(`its time limit of ${longest / 60_000} minutes`), longest).unref()

/** Sends the signal to a Jest process and its workers. Each Jest process leads its own process group. */
function endGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-leader, signal)
  } catch {
    // The group is empty.
  }
}

/**
 * These messages of Jest are not shown. The first message names our own results file. The second message comes if the
 * caller's patterns match no file of a phase.
 */
const ofNoUse = /^Test results written to: |^No tests found, exiting with code 0$/

/** Jest writes to a pipe and cannot detect the terminal behind the pipe. */
const colours = process.stderr.isTTY ? { FORCE_COLOR: '1' } : {}

async function runPhase({ name, args }: Phase, env: NodeJS.ProcessEnv): Promise<Counts> {
  const results = join(runDir, `${name}.json`)
  const child = spawn(
    process.execPath,
    [
      ...[
        '--disable-warning=ExperimentalWarning',
        
        `--import=${endWithParent}`,
        jest,
      ],
      // The caller's patterns must not follow an option that takes a list. Otherwise Jest would read them as part of
      // this list.
      ...[...args, `--outputFile=${results}`, '--passWithNoTests', '--json', ...process.argv.slice(2)],
    ],
    // With --json, Jest writes its report to standard error.
    { cwd: root, env: { ...colours, ...env }, detached: true, stdio: ['ignore', 'inherit', 'pipe'] },
  )
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (!ofNoUse.test(line)) process.stderr.write(`${line}\n`)
  })
  const { pid } = child
  if (pid === undefined) return countResults(null, 1)
  running.add(pid)
  if (interrupted !== undefined) endGroup(pid, 'SIGTERM')
  // The run folder has only one record for the role `stack`. Each phase except `clients` replaces this record. A Jest
  // process without a record ends by itself when this process ends (end-with-parent.ts).
  if (name !== 'clients') recordProcess(runDir, 'stack', pid)
  const code = await new Promise<number>((resolve) => {
    child.once('error', () => resolve(1))
    child.once('close', (exit) => resolve(exit ?? 1))
  })
  endGroup(pid, 'SIGKILL')
  running.delete(pid)
  forgetProcess(runDir, 'stack', pid)
  const report = read(results)
  // An interruption ends several phases, but counts as one failed test. So an interrupted phase itself counts no test.
  if (report === null && interrupted !== undefined) return { passed: 0, failed: 0, skipped: 0 }
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
  const total = { passed: 0, failed: 0, skipped: 0 }
  const postgres = await startTestPostgres()
  try {
    const env = { ...process.env, TEST_POSTGRES_ADMIN_URL: postgres.adminUrl }
    await Promise.all(
      lanes.map(async (phases) => {
        for (const phase of phases) {
          if (interrupted !== undefined) return
          const counts = await runPhase(phase, env)
          total.passed += counts.passed
          total.failed += counts.failed
          total.skipped += counts.skipped
        }
      }),
    )
  } finally {
    await postgres.stop()
  }
  return total
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
