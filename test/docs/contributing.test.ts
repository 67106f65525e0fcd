import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'

/*
 * Follows pages of docs/contributing in a copy of the repository. The copy gets the files and the changes of the pages,
 * and no others. Their types are checked there, and the tests that need no server run.
 */

/** How many files each page makes or changes, but for those that `npm run openapi` writes. */
const pages = { 'add-a-tool': 9, 'add-a-route': 2, 'add-an-object': 10, 'add-a-page': 3 } as const
type PageName = keyof typeof pages
const names = Object.keys(pages) as PageName[]

const root = join(import.meta.dirname, '../..')
const blocksOf = (name: PageName, kind: RegExp): readonly (readonly [file: string, text: string])[] =>
  [...readFileSync(join(root, `docs/contributing/${name}.md`), 'utf8').matchAll(kind)].map(
    ([, file = '', text = '']) => [file, text],
  )
const filesOf = (name: PageName) => blocksOf(name, /^```tsx?\n\/\/ (\S+)\n(.*?)^```$/gms)
const changesOf = (name: PageName) => blocksOf(name, /^```diff\n--- (\S+)\n(.*?)^```$/gms)
const files = names.flatMap(filesOf)
const changes = names.flatMap(changesOf)

let copy: string
beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), 'add-a-tool-'))
  for (const each of ['src', 'test', 'docs', 'package.json', 'tsconfig.json', 'jest.config.js'])
    cpSync(join(root, each), join(copy, each), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  for (const [file, text] of files) {
    mkdirSync(dirname(join(copy, file)), { recursive: true })
    writeFileSync(join(copy, file), text)
  }
  for (const [file, change] of changes) writeFileSync(join(copy, file), changed(file, change))
})
afterAll(() => rmSync(copy, { recursive: true, force: true }))

/**
 * Returns a file after the change. The lines of each part that are not new stand together in the file, once. A part that
 * the file has already is left out.
 */
function changed(file: string, change: string): string {
  return change.split(/^@@\n/m).reduce(
    (text, part) => {
      // Prettier takes the blank of an empty line away.
      const lines = part
        .split('\n')
        .slice(0, -1)
        .map((line) => line || ' ')
      const joined = (marks: string): string =>
        lines.flatMap((line) => (marks.includes(line.charAt(0)) ? [`${line.slice(1)}\n`] : [])).join('')
      if (text.includes(joined('+'))) return text
      const pieces = text.split(joined(' '))
      if (pieces.length !== 2)
        throw new Error(`${file} has ${pieces.length - 1} places for the change:\n${part}`)
      return pieces.join(joined(' +'))
    },
    readFileSync(join(copy, file), 'utf8'),
  )
}

/** Runs a program of the copy. Returns what it says if it fails, and null if it succeeds. */
const failureOf = (...args: readonly string[]): Promise<string | null> =>
  new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: copy, timeout: 300_000 }, (error, stdout, stderr) =>
      resolve(error === null ? null : stdout + stderr),
    )
  })

test.each(names)('%s has all files', (name) => {
  expect(new Set([...filesOf(name), ...changesOf(name)].map(([file]) => file)).size).toBe(pages[name])
})

test('the files of the pages compile', async () => {
  const config = {
    extends: './tsconfig.json',
    include: [],
    files: [...files, ...changes].map(([file]) => file),
    // In the whole repository, the types of a package bring `dom`.
    compilerOptions: { lib: ['es2024', 'esnext.iterator', 'dom'] },
  }
  writeFileSync(join(copy, 'tsconfig.page.json'), JSON.stringify(config))
  expect(await failureOf('node_modules/@typescript/native/bin/tsc', '-p', 'tsconfig.page.json')).toBeNull()
})

test('the tests of the pages pass, and the tools are declared as others are', async () => {
  const own = files.flatMap(([file]) => (file.endsWith('.test.ts') ? [file] : []))
  const tests = [...own, 'test/tools/catalog.test.ts', 'test/contract/tool-faults.test.ts']
  const jestProgram = ['--import=./test/support/jest-process.ts', 'node_modules/jest/bin/jest.js']
  const options = ['--maxWorkers=1', '--reporters=default', '--runTestsByPath']
  expect(await failureOf(...jestProgram, ...options, ...tests)).toBeNull()
})
