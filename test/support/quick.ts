import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * `npm run test:quick [-- --changedSince=REVISION]` runs the unit tests that a change may have broken. It is made for
 * use while somebody writes the change. By default, a file has changed if it differs from the branch `main`. The change
 * need not be committed. Jest finds the test files that import a changed file, directly or through other files. `npm
 * test` runs everything.
 */

const root = fileURLToPath(new URL('../..', import.meta.url))
const node = ['--disable-warning=ExperimentalWarning', '--experimental-vm-modules']
const jest = [...node, join(root, 'node_modules', 'jest', 'bin', 'jest.js')]
/** Jest follows imports only in these folders. */
const roots = ['src', 'test', 'scripts', 'bench'].flatMap((folder) => ['--roots', join(root, folder)])

/** Matches test files that start programs and test files that are slow on purpose. */
const slow = /^test\/(e2e|clients|adapters|stack|oracles|fuzz)\//
/** A test file that imports one of these modules needs a database or Temporal. */
const servers = new Set(
  ['stack', 'postgres', 'start-stack'].map((name) => join('test', 'support', `${name}.ts`)),
)
const imports = new Map<string, readonly string[]>()

const given = process.argv.slice(2)
const since = given.some((argument) => /^--(changedSince|lastCommit|onlyChanged)/.test(argument))
  ? given
  : ['--changedSince=main', ...given]

const listed = execFileSync(process.execPath, [...jest, '--listTests', ...roots, ...since], {
  cwd: root,
  encoding: 'utf8',
})
const affected = listed.split('\n').filter((line) => line.endsWith('.test.ts'))
const unit = affected.filter(isUnitTest)
const rest = affected.length - unit.length
if (rest > 0)
  process.stderr.write(`${rest} affected test files need servers or programs: \`npm test\` runs them\n`)
if (unit.length === 0) {
  process.stderr.write('no unit test is affected\n')
} else {
  const run = [...jest, '--maxWorkers=2', '--runTestsByPath', ...unit]
  process.exitCode = spawnSync(process.execPath, run, { cwd: root, stdio: 'inherit' }).status ?? 1
}

function isUnitTest(path: string): boolean {
  return !slow.test(relative(root, path)) && !needsServers(path, new Set())
}

function needsServers(path: string, seen: Set<string>): boolean {
  if (seen.has(path)) return false
  seen.add(path)
  return servers.has(relative(root, path)) || importsOf(path).some((each) => needsServers(each, seen))
}

/** Returns the files of the repository that this file imports directly. */
function importsOf(path: string): readonly string[] {
  const known = imports.get(path)
  if (known !== undefined) return known
  const specifiers = readFileSync(path, 'utf8').matchAll(/(?:from|import\()\s*'(\.[^']+\.ts)'/g)
  const found = [...specifiers]
    .map(([, specifier = '']) => resolve(dirname(path), specifier))
    .filter(existsSync)
  imports.set(path, found)
  return found
}
