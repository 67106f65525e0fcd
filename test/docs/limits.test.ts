import { expect, test } from '@jest/globals'
import { limitOf, namedLimits } from '../../scripts/limits-numbers.ts'
import { limitsPage } from '../../scripts/limits-page.ts'
import { openApiDocument } from '../../src/api/openapi.ts'
import { routes } from '../../src/api/routes/index.ts'

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
    'workflow_name', 'event_type', 'approval_id', 'cursor',
  ].map((name) => `${name}.maxLength=200`),
  'the row about labels of a value says how long a label is': ['labels', 'add_labels', 'output_labels', 'any_of', 'all_of', 'none_of', 'value', 'input_labels.additionalProperties']
    .map((name) => `${name}.items.maxLength=64`),
  'the row about labels of one condition is about each of its lists': ['all_of.maxItems=100', 'none_of.maxItems=100'],
  'a list cannot have more entries than there are values': ['applies_to.maxItems=2', 'side_effects.maxItems=3', 'events.maxItems=12'],
  'the number of a thing that has a limit of its own': [
    'version.maximum=1000000000', 'after.maximum=999999999', 'item_index.maximum=10000', 'item_indexes.items.maximum=10000',
  ],
  'a host is shorter': ['destination.maxLength=261'],
  'an id or token of the service is shorter': ['files.items.maxLength=100', 'replacement_id.maxLength=200', 'token.maxLength=200'],
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
