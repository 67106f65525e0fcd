import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { Counter, Gauge, Histogram } from 'prom-client'
import { parse } from 'yaml'
import { limitOf, namedLimits } from '../../scripts/limits-numbers.ts'
import { limitsPage } from '../../scripts/limits-page.ts'
import { openApiDocument } from '../../src/api/openapi.ts'
import { routes } from '../../src/api/routes/index.ts'
import { createMetrics } from '../../src/shared/metrics.ts'

/* docs/reference/limits.md names every limit that the forms of requests have. */

interface Schema {
  readonly $ref?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly additionalProperties?: Schema | boolean
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
}
interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: Schema }[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }
}
const document = openApiDocument(routes) as {
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

interface Found {
  /** Field, keyword and number, as the page notes them. */
  readonly limit: string
  readonly at: string
}

/** All limits of a schema, with those of the schemas that it refers to. */
function limitsIn(schema: Schema, path: readonly string[], seen: Set<string>): Found[] {
  const name = schema.$ref?.split('/').at(-1)
  if (name !== undefined) {
    if (seen.has(name)) return []
    seen.add(name)
    return limitsIn(document.components.schemas[name] as Schema, [name], seen)
  }
  const own = Object.entries(schema).flatMap(([keyword, number]) =>
    ['maxItems', 'maxLength', 'maximum', 'maxProperties'].includes(keyword)
      ? [{ limit: limitOf([...path, keyword], number as number), at: path.join('.') }]
      : [],
  )
  const { additionalProperties: others } = schema
  const inner: [string[], Schema][] = [
    ...Object.entries(schema.properties ?? {}).map(([key, each]): [string[], Schema] => [[key], each]),
    ...(schema.items === undefined ? [] : [[['items'], schema.items] as [string[], Schema]]),
    ...(typeof others === 'object' ? [[['additionalProperties'], others] as [string[], Schema]] : []),
    ...[schema.anyOf, schema.oneOf, schema.allOf]
      .flatMap((each) => each ?? [])
      .map((each): [string[], Schema] => [[], each]),
  ]
  return [...own, ...inner.flatMap(([more, each]) => limitsIn(each, [...path, ...more], seen))]
}

function requestLimits(): readonly Found[] {
  const seen = new Set<string>()
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { parameters = [], requestBody }]) => {
      const route = `${method.toUpperCase()} ${path}`
      return [
        ...parameters.flatMap(({ name, schema }) => limitsIn(schema, [route, name], seen)),
        ...Object.values(requestBody?.content ?? {}).flatMap(({ schema }) => limitsIn(schema, [route], seen)),
      ]
    }),
  )
}

/** Limits that need no line on the page. */
const needNoLine: Readonly<Record<string, readonly string[]>> = {
  'the row about filters names all texts in the query': [
    'organization_id', 'requested_by', 'requester_email', 'rule_id', 'run_id', 'session_id', 'user_id', 'workflow_id',
    'workflow_name', 'event_type', 'approval_id', 'cursor', 'search', 'decided_by', 'group', 'recipient',
  ].map((name) => `${name}.maxLength=200`),
  'the row about labels of a value says how long a label is': ['labels', 'add_labels', 'output_labels', 'restricted_labels', 'any_of', 'all_of', 'none_of', 'value', 'input_labels.additionalProperties']
    .map((name) => `${name}.items.maxLength=64`),
  'the row about labels of one condition is about each of its lists': ['all_of.maxItems=100', 'none_of.maxItems=100'],
  'the row about labels of a value is about those of a tried call': ['labels.maxItems=100'],
  'a list cannot have more entries than there are values': ['applies_to.maxItems=2', 'side_effects.maxItems=3', 'events.maxItems=13'],
  'the number of a thing that has a limit of its own': [
    'version.maximum=1000000000', 'after.maximum=999999999', 'before.maximum=999999999', 'beyond.maximum=999999999', 'item_index.maximum=10000', 'item_indexes.items.maximum=10000',
  ],
  'a cursor of the memory holds a key': ['cursor.maxLength=2000'],
  'a host is shorter': ['destination.maxLength=261'],
  'an id or token of the service is shorter': ['files.items.maxLength=100', 'run_ids.items.maxLength=100', 'workflow_id.maxLength=100', 'requested_by.maxLength=100', 'replacement_id.maxLength=200', 'token.maxLength=200', 'service_account.maxLength=100'],
  'the name of a tool is shorter': ['tool.maxLength=100'],
  'the name of a parameter is shorter': ['approver_may_edit.items.maxLength=200'],
  'a code of a terminal is shorter': ['code.maxLength=100'],
  'a definition has no more steps, and no longer ids': ['from.maxItems=100', 'from.items.maxLength=100'],
} // prettier-ignore

test('every limit of a request has a line, or a reason to have none', async () => {
  await limitsPage()
  const exempt = new Set(Object.values(needNoLine).flat())
  const found = requestLimits().filter(({ limit }) => !limit.endsWith(`=${Number.MAX_SAFE_INTEGER}`))
  expect(found.length).toBeGreaterThan(200)
  expect(found.filter(({ limit }) => !namedLimits.has(limit) && !exempt.has(limit))).toEqual([])
  const limits = new Set(found.map(({ limit }) => limit))
  expect([...exempt].filter((each) => !limits.has(each))).toEqual([])
})

test('the page names limits that no form of a request has', async () => {
  const page = await limitsPage()
  for (const line of [
    /connections of an organization.*\| 2,000 /,
    /unknown outcomes that one request resolves.*16 MiB/,
    /files of a run.*\| 20, with 8 MiB /,
    /failed items .*\| 20 /,
    /`web_search` .*\| 3, and 50 /,
    /answer of a search service.*\| 4 MiB /,
    /answer of a language model.*\| 8 MiB /,
    /attendees of an event .*\| 200 /,
    /`Idempotency-Key` .*kept for 24 hours/,
  ])
    expect(page).toMatch(line)
})

/*
 * The metrics of the code, of docs/monitoring.md, of the example alerts and of the dashboard are the same.
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

test('docs/monitoring.md has one line for each metric', async () => {
  const lines = file('monitoring.md').match(/^\| `countersign_\w+`/gm) ?? []
  expect(lines.flatMap(namesIn).toSorted()).toEqual(await served())
})

test('the section on metrics names no other', async () => {
  const all = new Set(await served())
  const [, section = ''] = file('monitoring.md').split('\n## Metrics\n')
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
