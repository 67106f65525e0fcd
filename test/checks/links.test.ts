import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { findProblems } from '../../scripts/links.ts'

let root: string
const write = (name: string, text: string) => {
  mkdirSync(dirname(join(root, name)), { recursive: true })
  writeFileSync(join(root, name), text)
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'links-'))
  write('docs/decisions/0007-plain-paths.md', '# 7. Plain paths\n')
  write('docs/page.md', '# A page\n\n## What it `does`, and why\n\n## Twice\n\n## Twice\n')
})
afterEach(() => rmSync(root, { recursive: true }))

test('links and citations that exist pass', () => {
  write(
    'README.md',
    'See [a page](docs/page.md#what-it-does-and-why), [twice](docs/page.md#twice-1), [below](#below), ' +
      '[the web](https://example.com/none) and [decision 7](docs/decisions/0007-plain-paths.md).\n\n' +
      '```\n[code](nowhere.md)\n```\n\n`[code](nowhere.md)`\n\n## Below\n',
  )
  write('src/a.ts', '/** See decision 7, docs/decisions/0007 and docs/page.md#twice. */\n')
  expect(findProblems(root, {})).toEqual([])
})

test('each broken link or citation is a problem', () => {
  write('README.md', '[a](docs/none.md)\n[b](docs/page.md#none)\n[c](#none)\n`src/b.ts` `src/a.ts`\n')
  write('src/a.ts', '/** docs/gone.md, docs/page.md#none, decision 8, docs/decisions/0009 */\n')
  const problem = 'the page has no heading with this anchor'
  expect(findProblems(root, {})).toEqual([
    'README.md:1: `docs/none.md` does not exist',
    `README.md:2: \`docs/page.md#none\`: ${problem}`,
    `README.md:3: \`#none\`: ${problem}`,
    'README.md:4: `src/b.ts` does not exist',
    'src/a.ts:1: `docs/gone.md` does not exist',
    `src/a.ts:1: \`docs/page.md#none\`: ${problem}`,
    'src/a.ts:1: `decision 8` is no record of docs/decisions',
    'src/a.ts:1: `decisions/0009` is no record of docs/decisions',
  ])
})

test('citations of absent documents are counted by folder', () => {
  // The text is joined here, so that a search of the repository does not find it.
  write('src/a.ts', ['/** contract', 'section 4; specification, "Limits" */\n'].join(' '))
  expect(findProblems(root, { src: 2 })).toEqual([])
  expect(findProblems(root, { src: 1 })).toHaveLength(3)
})

test('a comment that leaves out its subject is a problem', () => {
  write(
    'src/a.ts',
    ['/** Of', 'the tools. */\n// That', 'of the calendar.\n/** Offers a tool. */\n'].join(' '),
  )
  expect(findProblems(root, {})).toEqual([
    'src/a.ts:1: a comment begins with `Of`: name what it is about',
    'src/a.ts:2: a comment begins with `That`: name what it is about',
  ])
})
