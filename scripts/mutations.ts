import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import ts from 'typescript'
import { affectedTests } from '../test/support/affected.ts'
import { guardedFolder, startTestPostgres } from '../test/support/postgres.ts'

/*
 * `node scripts/mutations.ts draw` draws 100 small mistakes in `src` and `adapters/countersign` into mutations.json, always the
 * same ones for one seed. `node scripts/mutations.ts run --as NAME` makes one mistake after another in this checkout and
 * runs the tests that are nearest to it, until one fails. It writes the failed test file, or that none failed, under
 * NAME into mutations.json, and goes on where an earlier run has stopped. So two suites can be compared
 * (CONTRIBUTING.md). A mistake is undone before the next one; use a checkout of its own.
 */

interface Mutation {
  readonly file: string
  /** Number of the line, from 1, when the mistake was drawn. */
  readonly line: number
  /** The whole line. The mistake is made in the line with this text that is nearest to the number. */
  readonly text: string
  readonly column: number
  readonly before: string
  readonly after: string
  /** For each suite, the test file that failed; null if every test passed. */
  readonly caught: Record<string, string | null>
}

type Site = Omit<Mutation, 'caught'>

const root = fileURLToPath(new URL('..', import.meta.url))
const list = fileURLToPath(new URL('mutations.json', import.meta.url))

/** How many test files run in one process, from the nearest on. The last number repeats. */
const batches = [4, 12, 40]
/** Milliseconds for all test files of one mutation. A mistake for which time runs out counts as not caught. */
const patience = 120_000

/** A generator of pseudo-random numbers from 0 to below 1 (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const opposites: Readonly<Record<string, string>> = {
  '===': '!==', '!==': '===', '<': '>=', '>=': '<', '>': '<=', '<=': '>', '&&': '||', '||': '&&',
  ' == ': ' != ', ' != ': ' == ', ' < ': ' >= ', ' >= ': ' < ', ' > ': ' <= ', ' <= ': ' > ',
  ' and ': ' or ', ' or ': ' and ', ' not in ': ' in ', 'if not ': 'if ', 'return True': 'return False', 'return False': 'return True',
} // prettier-ignore

/** The places of a TypeScript file where one changed operator, removed check or swapped branch is a mistake. */
function sitesOfTypeScript(file: string, source: string): Site[] {
  const sites: Site[] = []
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true)
  const lines = source.split('\n')
  const add = (start: number, end: number, after: string): void => {
    const { line, character: column } = tree.getLineAndCharacterOfPosition(start)
    const before = source.slice(start, end)
    if (!before.includes('\n'))
      sites.push({ file, line: line + 1, text: lines[line] ?? '', column, before, after })
  }
  const replace = (node: ts.Node, after: string): void => add(node.getStart(), node.getEnd(), after)
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node)) return
    if (ts.isBinaryExpression(node)) {
      const opposite = opposites[node.operatorToken.getText()]
      if (opposite !== undefined) replace(node.operatorToken, opposite)
    } else if (ts.isIfStatement(node)) {
      if (node.elseStatement === undefined && leaves(node.thenStatement)) replace(node.expression, 'false')
      else replace(node.expression, `!(${node.expression.getText()})`)
    } else if (ts.isConditionalExpression(node)) {
      replace(node.condition, `!(${node.condition.getText()})`)
    } else if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken) {
      replace(node, `(${node.operand.getText()})`)
    } else if (node.kind === ts.SyntaxKind.TrueKeyword || node.kind === ts.SyntaxKind.FalseKeyword) {
      replace(node, node.kind === ts.SyntaxKind.TrueKeyword ? 'false' : 'true')
    }
    ts.forEachChild(node, visit)
  }
  visit(tree)
  return sites
}

/** Whether a statement leaves its function or loop: then the `if` before it is a check. */
function leaves(statement: ts.Statement): boolean {
  const last = ts.isBlock(statement) ? statement.statements.at(-1) : statement
  return (
    last !== undefined &&
    (ts.isReturnStatement(last) ||
      ts.isThrowStatement(last) ||
      ts.isContinueStatement(last) ||
      ts.isBreakStatement(last))
  )
}

/** The same for a Python file, found by words of its lines. */
function sitesOfPython(file: string, source: string): Site[] {
  const words = / (?:==|!=|<=?|>=?|and|or|not in) |if not |return (?:True|False)\b/g
  const code = source.replaceAll(/"""[\s\S]*?"""/g, (text) => text.replaceAll(/[^\n]/g, ' '))
  const original = source.split('\n')
  return code.split('\n').flatMap((line, index) =>
    [...line.replace(/#.*$/, '').matchAll(words)].map((match) => ({
      file,
      line: index + 1,
      text: original[index] ?? '',
      column: match.index,
      before: match[0],
      after: opposites[match[0]] ?? '',
    })),
  )
}

function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.(ts|py)$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.includes('/migrations/'))
    .sort()
}

/** Takes one place from each folder in turn, so that a large folder does not hide the small ones. */
function draw(seed: number, count: number): Mutation[] {
  const random = randomNumbers(seed)
  const folders = new Map<string, Site[]>()
  for (const file of [...filesBelow('src'), ...filesBelow('adapters/countersign')]) {
    const source = readFileSync(join(root, file), 'utf8')
    const sites = file.endsWith('.py') ? sitesOfPython(file, source) : sitesOfTypeScript(file, source)
    const folder = file.split('/').slice(0, 3).filter((part) => !/\.(ts|py)$/.test(part)).join('/') // prettier-ignore
    folders.set(folder, [...(folders.get(folder) ?? []), ...sites])
  }
  const drawn: Mutation[] = []
  while (drawn.length < count) {
    for (const sites of folders.values()) {
      const [site] = sites.splice(Math.floor(random() * sites.length), 1)
      if (site !== undefined && drawn.length < count) drawn.push({ ...site, caught: {} })
    }
  }
  return drawn
}

/** Returns the file with the mistake; null if its line is no longer there. */
function mutated(source: string, { line, text, column, before, after }: Mutation): string | null {
  const lines = source.split('\n')
  const nearest = lines
    .flatMap((each, index) => (each === text ? [index] : []))
    .sort((a, b) => Math.abs(a + 1 - line) - Math.abs(b + 1 - line))[0]
  if (nearest === undefined || !text.startsWith(before, column)) return null
  lines[nearest] = text.slice(0, column) + after + text.slice(column + before.length)
  return lines.join('\n')
}

const jest = join(root, 'node_modules', 'jest', 'bin', 'jest.js')
const jestProcess = new URL('../test/support/jest-process.ts', import.meta.url).href

/** Runs the test files. Returns the first one that failed; null if all passed. A run out of time is a failure of `late`. */
async function runTests(
  files: readonly string[],
  env: NodeJS.ProcessEnv,
  until: number,
): Promise<string | null> {
  const { dataDir: folder, guard } = guardedFolder()
  // PostgreSQL runs under another account if this program runs as root.
  chmodSync(folder, 0o711)
  const report = join(folder, 'report.json')
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', `--import=${jestProcess}`, jest, '--maxWorkers=2', '--json', `--outputFile=${report}`, '--runTestsByPath', ...files],
    { cwd: root, env: { ...env, TMPDIR: folder }, stdio: 'ignore', detached: true },
  ) // prettier-ignore
  const ended = Promise.withResolvers<number>()
  child.once('close', (code) => ended.resolve(code ?? 1))
  const end = (): void => {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  }
  const timer = setTimeout(end, Math.max(0, until - Date.now()))
  const code = await ended.promise
  clearTimeout(timer)
  try {
    interface Report {
      testResults: { name: string; status: string }[]
    }
    const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report
    const failed = testResults.find(({ status }) => status === 'failed')
    return failed === undefined ? null : relative(root, failed.name)
  } catch {
    return Date.now() >= until ? null : `exit ${code}`
  } finally {
    // Servers of killed tests end first.
    await guard.close()
  }
}

async function catchOf(mutation: Mutation, env: NodeJS.ProcessEnv): Promise<string | null> {
  const tests = [...affectedTests(mutation.file)]
  const until = Date.now() + patience
  for (let batch = 0; tests.length > 0 && Date.now() < until; batch += 1) {
    const files = tests.splice(0, batches[batch] ?? batches.at(-1))
    const failed = await runTests(files, env, until)
    if (failed !== null) return failed
  }
  return null
}

/** Writes a file. The adapters are assembled again if it is one of their parts. */
function place(file: string, content: string): void {
  writeFileSync(join(root, file), content)
  if (file.endsWith('.py'))
    execFileSync(process.execPath, [join(root, 'scripts', 'adapters.ts')], { stdio: 'ignore' })
}

async function run(name: string): Promise<void> {
  const mutations = JSON.parse(readFileSync(list, 'utf8')) as Mutation[]
  const postgres = await startTestPostgres()
  const env = { ...process.env, TEST_POSTGRES_ADMIN_URL: postgres.adminUrl }
  try {
    for (const [index, mutation] of mutations.entries()) {
      if (name in mutation.caught) continue
      const path = join(root, mutation.file)
      const source = readFileSync(path, 'utf8')
      const changed = mutated(source, mutation)
      if (changed === null) throw new Error(`${mutation.file} no longer has the line ${mutation.text.trim()}`)
      place(mutation.file, changed)
      try {
        mutation.caught[name] = await catchOf(mutation, env)
      } finally {
        place(mutation.file, source)
      }
      writeFileSync(list, `${JSON.stringify(mutations, null, 2)}\n`)
      process.stdout.write(
        `${index + 1} ${mutation.file}:${mutation.line} ${mutation.caught[name] ?? 'not caught'}\n`,
      )
    }
  } finally {
    await postgres.stop()
  }
  const caught = mutations.filter((mutation) => mutation.caught[name] !== null).length
  process.stdout.write(`${caught} of ${mutations.length} caught\n`)
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: '35' },
    count: { type: 'string', default: '100' },
    as: { type: 'string', default: 'now' },
  },
})
if (positionals[0] === 'draw') {
  writeFileSync(list, `${JSON.stringify(draw(Number(values.seed), Number(values.count)), null, 2)}\n`)
} else {
  await run(values.as)
}
