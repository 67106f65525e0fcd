import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { Counter, Gauge, Histogram } from 'prom-client'
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

interface Query {
  readonly expr: string
  /** Texts in which `{{label}}` or `$labels.label` stands for the label of a series. */
  readonly texts: readonly string[]
}

/** The alerts and the panels, with their PromQL. */
function queries(): readonly Query[] {
  const { groups } = parse(file('alerts.yml')) as { groups: { rules: { expr: string; annotations: Record<string, string> }[] }[] } // prettier-ignore
  const { panels } = JSON.parse(file('grafana-dashboard.json')) as { panels: { targets: { expr: string; legendFormat?: string }[] }[] } // prettier-ignore
  return [
    ...groups.flatMap(({ rules }) => rules).map(({ expr, annotations }) => ({ expr, texts: Object.values(annotations) })),
    ...panels.flatMap(({ targets }) => targets).map(({ expr, legendFormat = '' }) => ({ expr, texts: [legendFormat] })),
  ] // prettier-ignore
}

/** The labels of each series. Prometheus adds `job` and `instance`, and the process adds `process`. */
function labelsOfSeries(): ReadonlyMap<string, readonly string[]> {
  const added = ['job', 'instance', 'process']
  const found = Object.values(createMetrics('api')).flatMap((metric): [string, string[]][] => {
    if (!(metric instanceof Counter || metric instanceof Gauge || metric instanceof Histogram)) return []
    const { name, labelNames } = metric as unknown as { name: string; labelNames: string[] }
    const labels = [...labelNames, ...added]
    if (!(metric instanceof Histogram)) return [[name, labels]]
    return [[`${name}_bucket`, [...labels, 'le']], [`${name}_sum`, labels], [`${name}_count`, labels]]
  }) // prettier-ignore
  return new Map([['up', ['job', 'instance']], ...found])
}

/** The text of the brackets that open at `start`. */
function bracketed(text: string, start: number): string {
  let depth = 0
  for (let at = start; at < text.length; at += 1) {
    if (text[at] === '(') depth += 1
    else if (text[at] === ')' && (depth -= 1) === 0) return text.slice(start, at + 1)
  }
  throw new Error(`brackets are missing in ${text}`)
}

const names = (list: string): string[] => list.split(',').map((each) => each.trim())

/** The labels that an expression groups or filters a series by, as `series: label`. */
function labelsUsed(expr: string): string[] {
  const series = (part: string): string[] => part.match(/\b(?:countersign_[a-z_]+|up)\b/g) ?? []
  const filtered = [...expr.matchAll(/\b(countersign_[a-z_]+|up)\{([^}]*)\}/g)].flatMap(
    ([, name, filters = '']) =>
      [...filters.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) => `${name}: ${label}`),
  )
  const grouped = [...expr.matchAll(/\bby \(([^)]*)\) (?=\()/g)].flatMap((group) =>
    series(bracketed(expr, group.index + group[0].length)).flatMap((name) =>
      names(group[1] ?? '').map((label) => `${name}: ${label}`),
    ),
  )
  return [...filtered, ...grouped]
}

test('every label that an expression groups or filters by is a label of its metric', () => {
  const labels = labelsOfSeries()
  const has = (used: string): boolean => {
    const [name = '', label = ''] = used.split(': ')
    return labels.get(name)?.includes(label) === true
  }
  const used = queries().flatMap(({ expr }) => labelsUsed(expr))
  expect(used.length).toBeGreaterThan(40)
  expect(used.filter((each) => !has(each))).toEqual([])
  // The functions above read `by`, and no other way to choose labels.
  expect(
    queries().filter(({ expr }) => /\b(without|on|ignoring|group_left|group_right)\b|by\(/.test(expr)),
  ).toEqual([])
})

test('a text shows only labels that the series of its expression have', () => {
  const labels = labelsOfSeries()
  const wrong = queries().flatMap(({ expr, texts }) => {
    const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) => names(list))
    const isAggregated = /\b(sum|min|max)\b/.test(expr)
    const [name = ''] = expr.match(/\b(?:countersign_[a-z_]+|up)\b/) ?? []
    const has = isAggregated ? grouped : (labels.get(name) ?? [])
    return texts
      .flatMap((text) =>
        [...text.matchAll(/\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}/g)].map(([, label = '']) => label),
      )
      .filter((label) => !has.includes(label))
      .map((label) => `${expr}: ${label}`)
  })
  expect(wrong).toEqual([])
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
