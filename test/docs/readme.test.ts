import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const readme = read('README.md')

test('the README has at most 130 lines', () => {
  expect(readme.split('\n').length).toBeLessThanOrEqual(131)
})

test("the README shows each step of the demo's output", () => {
  const titles = [...read('src/demo/story.ts').matchAll(/tell\.step\('(.*)'\)/g)].map(([, title]) => title)
  const shown = [...readme.matchAll(/^\d+\. (.*)$/gm)].map(([, title]) => title)
  expect(shown).toEqual(titles)
})

test('docs/configuration.md has every variable that the programs read', () => {
  const found = [...read('src/shared/environment.ts').matchAll(/^ +([A-Z][A-Z_]+): /gm)]
  const variables = new Set(found.map(([, name]) => name))
  const cells = [...read('docs/configuration.md').matchAll(/^\| (`[^|]*) \|/gm)].map(([, cell = '']) => cell)
  const listed = cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name))
  expect(new Set(listed)).toEqual(variables)
})
