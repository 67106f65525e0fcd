import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { createMetrics } from '../../src/shared/metrics.ts'
import { parse } from 'yaml'

/*
 * The metrics of the code, of docs/operations.md, of the example alerts and of the dashboard are the same.
 * test/e2e/logs.test.ts tests that real processes serve them.
 */

const file = (name: string): string => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8')

/** Names of metrics in a text, without the suffixes of a histogram's series. */
const namesIn = (text: string): string[] =>
  [...new Set(text.match(/\bcountersign_[a-z_]+/g))].map((name) => name.replace(/_(bucket|count|sum)$/, ''))

async function served(): Promise<string[]> {
  const text = await createMetrics('api').text()
  return [...text.matchAll(/^# TYPE (countersign_\w+) /gm)].map(([, name]) => name as string).toSorted()
}

test('docs/operations.md has one line for each metric', async () => {
  const lines = file('operations.md').match(/^\| `countersign_\w+`/gm) ?? []
  expect(lines.flatMap(namesIn).toSorted()).toEqual(await served())
})

test('the section on metrics names no other', async () => {
  const all = new Set(await served())
  const [, section = ''] = file('operations.md').split('\n## Metrics\n')
  expect(namesIn(section).filter((name) => !all.has(name))).toEqual([])
})

test.each(['alerts.yml', 'grafana-dashboard.json'])('every metric of docs/%s exists', async (name) => {
  const all = new Set(await served())
  const named = namesIn(file(name))
  expect(named.length).toBeGreaterThan(8)
  expect(named.filter((each) => !all.has(each))).toEqual([])
})

test('the dashboard shows every metric', async () => {
  const shown = namesIn(file('grafana-dashboard.json'))
  expect((await served()).filter((name) => !shown.includes(name))).toEqual([])
})

test('each alert and each panel has an expression and a text', () => {
  const { groups } = parse(file('alerts.yml')) as { groups: { rules: { expr: string; annotations: { summary: string } }[] }[] } // prettier-ignore
  for (const { expr, annotations } of groups.flatMap(({ rules }) => rules)) {
    expect(expr).toMatch(/\w/)
    expect(annotations.summary).toMatch(/\.$/)
  }
  const { panels } = JSON.parse(file('grafana-dashboard.json')) as { panels: { title: string; targets: { expr: string }[] }[] } // prettier-ignore
  for (const { title, targets } of panels)
    expect([title, targets.map(({ expr }) => expr).join('')]).not.toContain('')
})
