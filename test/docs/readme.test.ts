import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { ruleInput } from '../../src/policy/rule.ts'
import { readEnvironment } from '../../src/shared/environment.ts'

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

test('docs/configuration.md shows the default of each variable', () => {
  const rows = [...read('docs/configuration.md').matchAll(/^\| (`[^|]*) \| ([^|]*) \|/gm)]
  const defaults = Object.entries(readEnvironment({}).values).filter(
    ([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && value !== '',
  )
  expect(defaults.length).toBeGreaterThan(20)
  const isShown = ([name, value]: readonly [string, unknown]) =>
    rows.some(
      ([, names = '', shown = '']) => names.includes(`\`${name}\``) && shown.includes(`\`${String(value)}\``),
    )
  expect(defaults.filter((each) => !isShown(each))).toEqual([])
})

test('the rule of the README is a rule, and that of the tutorial', () => {
  const [, shown = ''] = /```json\n(.*?)```/s.exec(readme) ?? []
  const [, saved = ''] = /\/rules".*?-d '(.*?)'/s.exec(read('docs/tutorial.md')) ?? []
  expect(ruleInput.parse(JSON.parse(shown))).toEqual(ruleInput.parse(JSON.parse(saved)))
})

test('every command `npm run` of the pages exists', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  const names = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
  const pages = [
    'README.md',
    'CONTRIBUTING.md',
    ...names.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
  ]
  const named = pages.flatMap((page) =>
    [...read(page).matchAll(/\bnpm run ([a-z][a-z:-]*)/g)].map(([, name = '']) => name),
  )
  expect(new Set(named).size).toBeGreaterThan(15)
  expect(named.filter((name) => !Object.hasOwn(scripts, name))).toEqual([])
})
