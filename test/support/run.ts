import { spawn } from 'node:child_process'
import { chmodSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { forgetProcess, recordProcess } from '../../src/stack/guard.ts'
import { countResults, type Counts } from './counts.ts'
import { guardedFolder, startTestPostgres } from './postgres.ts'

/*
 * `npm test [-- Jest's arguments]`: one PostgreSQL for all test files, then Jest: first unit and database tests, two
 * files at a time, and beside them test/adapters, which mostly wait; then test/e2e one file at a time, since those start
 * whole stacks and kill parts of them, and beside it what mostly waits too: test/e2e/commit-points for dead processes
 * to be missed, test/clients for its programs. Ends with the line `N passed, N failed`, and with 1 unless something passed
 * and nothing failed.
 *
 * Every folder that a test makes lies in one run folder, because TMPDIR points there, or is a database's (postgres.ts). However this process ends, the
 * folder's guard then ends Jest and removes it; each server that a test starts has a guard of its own.
 */

interface Phase {
  readonly name: string
  readonly args: readonly string[]
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const jest = join(root, 'node_modules', 'jest', 'bin', 'jest.js')

const endWithParent = new URL('end-with-parent.ts', import.meta.url).href

/** One after the other; the phases of one entry run side by side. */
const phases: readonly (readonly Phase[])[] = [
  [
    { name: 'unit', args: ['--testPathIgnorePatterns=/test/(e2e|clients|adapters)/', '--maxWorkers=2'] },
    { name: 'adapters', args: ['--testPathIgnorePatterns=/test/(?!adapters/)', '--runInBand'] },
  ],
  [
    { name: 'e2e', args: ['--testPathIgnorePatterns=/test/(?!e2e/)|commit-points', '--runInBand'] },
    { name: 'crashes', args: ['--testPathIgnorePatterns=/test/(?!e2e/commit-points)', '--runInBand'] },
    { name: 'clients', args: ['--testPathIgnorePatterns=/test/(?!clients/)', '--runInBand'] },
  ],
]

const { dataDir: runDir, guard } = guardedFolder()
// Where PostgreSQL runs as another account than root's, that account has to pass through.
chmodSync(runDir, 0o711)
process.env['TMPDIR'] = runDir
// Every Node program that a test starts would compile the same modules anew. Not in TMPDIR, so that the next run has it.
process.env['NODE_COMPILE_CACHE'] ??= join(root, 'node_modules', '.cache', 'compiled')

/** A test that never ends fails the run instead of holding it up for ever. */
const longest = 60 * 60_000

const running = new Set<number>()
let interrupted: string | undefined
function interrupt(by: string): void {
  interrupted = by
  for (const leader of running) endGroup(leader, 'SIGTERM')
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt)
setTimeout(() => interrupt(`its time limit of ${longest / 60_000} minutes`), longest).unref()

/** Jest leads a process group of its own, so that its workers go with it. */
function endGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-leader, signal)
  } catch {
    // nobody is left in it
  }
}

/** What Jest says of our own file of results, and of the phase to which the caller's patterns do not belong. */
const ofNoUse = /^Test results written to: |^No tests found, exiting with code 0$/

/** Jest writes to a pipe, and could not tell that a terminal is behind it. */
const colours = process.stderr.isTTY ? { FORCE_COLOR: '1' } : {}

async function runPhase({ name, args }: Phase, env: NodeJS.ProcessEnv): Promise<Counts> {
  const results = join(runDir, `${name}.json`)
  const child = spawn(
    process.execPath,
    [
      ...[
        '--disable-warning=ExperimentalWarning',
        '--experimental-vm-modules',
        `--import=${endWithParent}`,
        jest,
      ],
      // The caller's patterns must not follow an option that takes a list, or they would be read as part of it.
      ...[...args, `--outputFile=${results}`, '--passWithNoTests', '--json', ...process.argv.slice(2)],
    ],
    // With --json its report goes to standard error.
    { cwd: root, env: { ...colours, ...env }, detached: true, stdio: ['ignore', 'inherit', 'pipe'] },
  )
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (!ofNoUse.test(line)) process.stderr.write(`${line}\n`)
  })
  const { pid } = child
  if (pid === undefined) return countResults(null, 1)
  running.add(pid)
  // One process can be recorded. Those beside it end by themselves with this one (end-with-parent.ts).
  if (name !== 'clients') recordProcess(runDir, 'stack', pid)
  const code = await new Promise<number>((resolve) => {
    child.once('error', () => resolve(1))
    child.once('close', (exit) => resolve(exit ?? 1))
  })
  endGroup(pid, 'SIGKILL')
  running.delete(pid)
  forgetProcess(runDir, 'stack', pid)
  return countResults(read(results), code)
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

async function runAll(): Promise<Counts> {
  const total = { passed: 0, failed: 0 }
  const postgres = await startTestPostgres()
  try {
    const env = { ...process.env, TEST_POSTGRES_ADMIN_URL: postgres.adminUrl }
    for (const beside of phases) {
      if (interrupted !== undefined) break
      for (const counts of await Promise.all(beside.map((phase) => runPhase(phase, env)))) {
        total.passed += counts.passed
        total.failed += counts.failed
      }
    }
  } finally {
    await postgres.stop()
  }
  return total
}

let total: Counts = { passed: 0, failed: 1 }
try {
  total = await runAll()
} catch (error) {
  process.stderr.write(`error: ${(error as Error).message}\n`)
}
await guard.close()
if (total.passed + total.failed === 0) process.stderr.write('no test ran\n')
if (interrupted !== undefined) process.stderr.write(`interrupted by ${interrupted}\n`)
process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`)
process.exit(total.failed === 0 && total.passed > 0 && interrupted === undefined ? 0 : 1)
