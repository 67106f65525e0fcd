import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { catalog } from '../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'

/* docs/workflows.md, "Runs that wait before they start": what it says of the catalogue. */

const page = readFileSync(new URL('../../docs/workflows.md', import.meta.url), 'utf8')
const tools = Object.values(catalog) as ToolDeclaration[]

test('the table of risks names every tool of the catalogue at its risk', () => {
  const rows = [...page.matchAll(/^\| `(low|medium|high)` +\| ([^|]*)\|$/gm)]
  const said = rows.flatMap(([, risk, cell = '']) =>
    [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => [name, risk]),
  )
  expect(Object.fromEntries(said)).toEqual(Object.fromEntries(tools.map(({ name, risk }) => [name, risk])))
})

test('no tool has a category of which it says that none has it', () => {
  const categories = new Set(tools.flatMap((tool) => [...tool.categories]))
  expect([...categories]).toEqual(['external_comm'])
})
