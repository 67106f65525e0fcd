import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/* Which test files a change of a file can make fail. Paths are relative to the repository. */

const root = fileURLToPath(new URL('../..', import.meta.url))

/** A test file that only has the name of the changed feature counts as this many imports away. */
const namedOnly = 3

let known: ReadonlyMap<string, readonly string[]> | undefined

/** For each file, the files that import it directly. */
function importers(): ReadonlyMap<string, readonly string[]> {
  if (known !== undefined) return known
  const found = new Map<string, string[]>()
  for (const folder of ['src', 'test', 'scripts', 'bench']) {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true, recursive: true })) {
      if (!entry.isFile() || !/\.tsx?$/.test(entry.name)) continue
      const path = join(entry.parentPath, entry.name)
      for (const [, specifier = ''] of readFileSync(path, 'utf8').matchAll(
        /(?:from|import)\s*\(?\s*'(\.[^']+\.tsx?)'/g,
      )) {
        const imported = resolve(dirname(path), specifier)
        if (existsSync(imported)) found.set(imported, [...(found.get(imported) ?? []), path])
      }
    }
  }
  known = found
  return found
}

export const testFiles = (): readonly string[] =>
  readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.ts'))
    .map((path) => join('test', path))
    .sort()

/** How many imports lie between a file and each test file that imports it. */
function distances(file: string): Map<string, number> {
  const reached = new Map([[join(root, file), 0]])
  for (const [path, distance] of reached) {
    for (const importer of importers().get(path) ?? []) {
      if (!reached.has(importer)) reached.set(importer, distance + 1)
    }
  }
  return new Map(
    [...reached]
      .filter(([path]) => path.endsWith('.test.ts'))
      .map(([path, distance]) => [relative(root, path), distance]),
  )
}

/** The test files that import a file, directly or through other files. */
export const importingTests = (file: string): readonly string[] => [...distances(file).keys()]

/** The names by which tests call the feature of a file: its own, and that of its folder. */
const namesOf = (file: string): readonly string[] =>
  [basename(file).replace(/\.\w+$/, ''), basename(dirname(file))].filter(
    (name) => name !== 'index' && name !== 'src',
  )

/** Returns the test files that import the file or name its feature, the nearest ones first. */
export function affectedTests(file: string): readonly string[] {
  const near = distances(file)
  const [own = '', folder = ''] = namesOf(file)
  for (const test of testFiles()) {
    const parts = test.split('/')
    const name = basename(test, '.test.ts')
    if (name === own) near.set(test, 0)
    else if (name === folder || parts.includes(folder) || name.includes(own))
      near.set(test, Math.min(near.get(test) ?? Infinity, namedOnly))
    else if (file.endsWith('.py') && test.startsWith('test/adapters/')) near.set(test, namedOnly + 1)
  }
  const folders = file.split('/').slice(1)
  /** How many folders below `test` and `src` have the same name, from the top. */
  const together = (test: string): number =>
    test
      .split('/')
      .slice(1)
      .findIndex((part, at) => part !== folders[at])
  return [...near].sort(([a, one], [b, two]) => one - two || together(b) - together(a)).map(([test]) => test)
}
