import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { catalog } from '../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'

/* docs/reference/plans.md, "Risk", and docs/workflows.md, "Runs that wait before they start", agree with the catalogue. */

const page = readFileSync(new URL('../../docs/reference/plans.md', import.meta.url), 'utf8')
const settings = readFileSync(new URL('../../docs/workflows.md', import.meta.url), 'utf8')
const tools = Object.values(catalog) as ToolDeclaration[]

test('the table of risks names tools at their own risk', () => {
  const rows = [...page.matchAll(/^\| `(low|medium|high)` +\| ([^|]*)\|$/gm)]
  const said = rows.flatMap(([, risk, cell = '']) =>
    [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => [name, risk]),
  )
  const risks = Object.fromEntries(tools.map(({ name, risk }) => [name, risk]))
  expect(said.map(([name]) => [name, risks[name ?? '']])).toEqual(said)
  expect(said.length).toBeGreaterThan(5)
})

test('docs/workflows.md names every category that tools of the catalogue have', () => {
  const categories = new Set(tools.flatMap((tool) => [...tool.categories]))
  const named = [...settings.matchAll(/^\| `require_approval_for_\w+` .*`(\w+)` +\|$/gm)].map(
    ([, name]) => name,
  )
  expect(new Set(named)).toEqual(categories)
})
