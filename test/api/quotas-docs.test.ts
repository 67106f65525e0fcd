import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { planLimits } from '../../src/contract/plan-limits.ts'
import { asAdmin } from '../support/postgres.ts'
import { shownOutputs } from '../support/shell-blocks.ts'
import { createTestDatabase } from '../support/stack.ts'
import { readDocsPage } from './docs-page.ts'

const page = 'docs/reference/quotas.md'

test('the page’s commands do what it says', async () => {
  expect(await readDocsPage(page)).toEqual(['', ...shownOutputs(page)])
})

test('the page names the limit of each table of the database', async () => {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
  const section = text.slice(text.indexOf('### What bounds each table'))
  const said = [...section.matchAll(/^\| `(\w+)` +\| .*\w/gm)].map(([, name]) => name)
  const database = await createTestDatabase()
  try {
    const tables: string[] = []
    await asAdmin(database.adminUrl, async (client) => {
      const { rows } = await client.query<{ name: string }>(
        "select table_name as name from information_schema.tables where table_schema = 'public'",
      )
      tables.push(...rows.map(({ name }) => name))
    })
    expect(new Set(said)).toEqual(new Set(tables))
  } finally {
    await database.drop()
  }
})

test('its table shows the limits of the plans', () => {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
  const rows = [...text.matchAll(/^\| `(\w+)` +\| ([\d,]+) +\| ([\d,]+) +\| ([\d,]+) +\|/gm)]
  const said = rows.map(([, name, ...values]) => [
    name,
    values.map((value) => Number(value.replaceAll(',', ''))),
  ])
  const { free, pro, enterprise } = planLimits
  const names = Object.keys(free) as (keyof typeof free)[]
  expect(said).toEqual(names.map((name) => [name, [free[name], pro[name], enterprise[name]]]))
})
