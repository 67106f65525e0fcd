import { writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AggregatedResult, Reporter, Test, TestContext, TestResult } from '@jest/reporters'
import { recordDurations, secondsOf } from './durations.ts'
import { planned } from './sequencer.ts'

/*
 * The reporter of `npm test`. Every few seconds it writes one line: how much is done, how long the rest takes, and
 * what is running. It writes a failure at once, and at the end the slowest test files. The counts go to the
 * file TEST_RESULTS, for run.ts.
 */

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Milliseconds between two lines. */
const pace = 5_000
const slowest = 10
/** If no test file ends for so many seconds, one of them hangs: the run fails and names the files that run. */
const silence = 1_200

const secondsSince = (at: number): number => (performance.now() - at) / 1000
/** `75` is `1:15`. */
const minutes = (seconds: number): string =>
  `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`
const fileOf = (path: string): string => relative(root, path)
const nameOf = (path: string): string =>
  fileOf(path)
    .replace(/^test\//, '')
    .replace(/\.test\.ts$/, '')
const write = (line: string): void => void process.stderr.write(`${line}\n`)

export default class Progress implements Pick<
  Reporter,
  'onRunStart' | 'onTestFileStart' | 'onTestFileResult' | 'onRunComplete'
> {
  private readonly startedAt = performance.now()
  /** The test files that run now, with their start in milliseconds. */
  private readonly running = new Map<string, number>()
  private readonly took: [file: string, seconds: number][] = []
  private passed = 0
  private failed = 0
  /** Seconds that the ended files took in an earlier run. */
  private done = 0
  private endedAt = performance.now()
  private ticking: NodeJS.Timeout | undefined

  onRunStart(): void {
    // This timer also keeps Jest alive while it waits for workers that end slowly.
    this.ticking = setInterval(() => {
      this.line()
      if (secondsSince(this.endedAt) < silence) return
      write(`no test file has ended for ${minutes(silence)}: look for what the running ones wait for`)
      process.exit(1)
    }, pace)
  }

  onTestFileStart({ path }: Test): void {
    this.running.set(path, performance.now())
  }

  onTestFileResult({ path }: Test, result: TestResult): void {
    const seconds = secondsSince(this.running.get(path) ?? performance.now())
    this.running.delete(path)
    this.took.push([fileOf(path), seconds])
    this.done += secondsOf(fileOf(path))
    this.endedAt = performance.now()
    this.passed += result.numPassingTests
    this.failed += result.numFailingTests + (result.testExecError == null ? 0 : 1)
    if (result.failureMessage) write(`FAIL ${nameOf(path)}\n${result.failureMessage}`)
  }

  onRunComplete(_: ReadonlySet<TestContext>, results: AggregatedResult): void {
    clearInterval(this.ticking)
    this.line()
    const { numPassedTests, numFailedTests, numPendingTests, numRuntimeErrorTestSuites } = results
    const counts = { numPassedTests, numFailedTests, numPendingTests, numRuntimeErrorTestSuites }
    writeFileSync(process.env['TEST_RESULTS'] ?? '/dev/null', JSON.stringify(counts))
    if (process.env['RECORD_DURATIONS'] === '1') recordDurations(this.took)
    if (this.took.length <= slowest) return
    write('the slowest test files:')
    for (const [file, seconds] of this.took.toSorted(([, a], [, b]) => b - a).slice(0, slowest))
      write(`${seconds.toFixed(1).padStart(7)} s  ${nameOf(file)}`)
  }

  private line(): void {
    const passedSeconds = secondsSince(this.startedAt)
    const expected = planned.reduce((sum, { path }) => sum + secondsOf(fileOf(path)), 0)
    const begun = [...this.running].map(([path, at]) => Math.min(secondsSince(at), secondsOf(fileOf(path))))
    const share = (this.done + begun.reduce((sum, seconds) => sum + seconds, 0)) / expected
    const left = share > 0.02 ? `, about ${minutes((passedSeconds / share) * (1 - share))} left` : ''
    const running = [...this.running.keys()].map(nameOf).join(', ')
    const failures = this.failed > 0 ? `, ${this.failed} failed` : ''
    write(
      `${minutes(passedSeconds)} ${this.took.length} of ${planned.length} files, ${this.passed} tests passed${failures}${left}${running === '' ? '' : `: ${running}`}`,
    )
  }
}
