import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { expect, test } from '@jest/globals'

/* The picture of the folders of src/governance in ARCHITECTURE.md, compared with the imports of the code. */

const root = join(import.meta.dirname, '../..')
const governance = join(root, 'src/governance')
const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
const files = readdirSync(governance, { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.ts'),
)

/** The folder of a file, such as `audit` or `runs/end`; null for a loose file. */
function folderOf(file: string): string | null {
  const [first = '', second = '', third] = file.split('/')
  if (second === '') return null
  return third === undefined ? first : `${first}/${second}`
}

/** The folders that each folder imports from. */
function importsOfFolders(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  for (const file of files) {
    const folder = folderOf(file)
    if (folder === null) continue
    const targets = found.get(folder) ?? new Set<string>()
    found.set(folder, targets)
    const text = readFileSync(join(governance, file), 'utf8')
    for (const [, path = ''] of text.matchAll(/ from '(\.[^']+)'/g)) {
      const target = relative(governance, resolve(dirname(join(governance, file)), path))
      const to = target.startsWith('..') ? null : folderOf(target)
      if (to !== null && to !== folder) targets.add(to)
    }
  }
  return found
}

/** The direct imports that no chain of other imports implies, as lines `from --> to`. */
function shortest(imports: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const reaches = (from: string, to: string): boolean =>
    [...(imports.get(from) ?? [])].some((next) => next === to || reaches(next, to))
  return [...imports].flatMap(([from, targets]) =>
    [...targets]
      .filter((to) => ![...targets].some((other) => other !== to && reaches(other, to)))
      .map((to) => `${from} --> ${to}`),
  )
}

/** The arrows of the picture, with the folders' full names. */
function drawn(): string[] {
  const picture = /flowchart TD\n([\s\S]*?)```/.exec(page)?.[1] ?? ''
  const names = new Map(
    [...picture.matchAll(/(\w+)\[([\w/]+)\]/g)].map(([, short = '', full = '']) => [short, full] as const),
  )
  const named = (short: string): string => names.get(short) ?? short
  return [...picture.matchAll(/(\w+)(?:\[[\w/]+\])? --> (\w+)/g)].map(
    ([, from = '', to = '']) => `${named(from)} --> ${named(to)}`,
  )
}

test('the picture of the governance folders has every import, and no other arrow', () => {
  expect(drawn().toSorted()).toEqual(shortest(importsOfFolders()).toSorted())
})

test('the six loose files of src/governance are named', () => {
  const loose = files.filter((file) => folderOf(file) === null)
  expect(loose).toHaveLength(6)
  for (const file of loose) expect(page).toContain(`\`${file}\``)
})
