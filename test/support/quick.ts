import { execFileSync, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { affectedTests } from './affected.ts'
import { secondsOf } from './durations.ts'

/*
 * `npm run test:quick [-- REVISION]` runs the tests that are nearest to a change, for use while somebody writes the
 * change: at most two minutes of them on two cores. A file has changed if it differs from the revision, by default from
 * the branch `main`. The change need not be committed. `npm test` runs everything.
 */

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Seconds that the chosen test files may take one after another. Their workers share two cores. */
const budget = 120
/** Longer files are left to `npm test`, unless they have changed. */
const longest = 30

const [revision = 'main'] = process.argv.slice(2)
const git = (...args: string[]): string[] =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8' })
    .split('\n')
    .filter((line) => line !== '')

const changed = [
  ...git('diff', '--name-only', '--diff-filter=d', revision),
  ...git('ls-files', '--others', '--exclude-standard'),
].filter((file) => /\.(ts|py|md|json)$/.test(file))

/** The smallest place that each test file has in the list of a changed file, the nearest ones first. */
const places = new Map<string, number>()
for (const file of changed) {
  for (const [place, test] of affectedTests(file).entries())
    places.set(test, Math.min(place, places.get(test) ?? Infinity))
}
const nearest = [...places].sort(([, a], [, b]) => a - b).map(([test]) => test)

const chosen: string[] = []
let seconds = 0
for (const test of nearest) {
  const more = secondsOf(test)
  if (!changed.includes(test) && (more > longest || seconds + more > budget)) continue
  chosen.push(test)
  seconds += more
}

if (chosen.length < nearest.length)
  process.stderr.write(
    `${nearest.length - chosen.length} other affected test files are left to \`npm test\`\n`,
  )
if (chosen.length === 0) {
  process.stderr.write(`no test is affected by what differs from ${revision}\n`)
} else {
  const run = fileURLToPath(new URL('run.ts', import.meta.url))
  process.exitCode =
    spawnSync(process.execPath, [run, '--runTestsByPath', ...chosen], { cwd: root, stdio: 'inherit' })
      .status ?? 1
}
