import { readdirSync, readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { parse } from 'yaml'
import { mostYaml } from '../../../src/api/yaml-body.ts'
import { readYaml } from '../../../src/shared/yaml.ts'
import { cpuMilliseconds } from '../../policy/cpu-time.ts'
import { addOrganization } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'

let server: TestServer
beforeAll(async () => void (server = await startTestServer()))
afterAll(() => server?.close())

const key = () => server.identities.users.member.api_key

async function sendYaml(method: string, path: string, text: string, type = 'application/yaml') {
  const response = await fetch(`${server.base}${path}`, {
    method,
    headers: { authorization: `Bearer ${key()}`, 'content-type': type },
    body: text,
  })
  const body = (await response.json()) as Record<string, never> & {
    error?: { message: string; details: { message: string }[] }
  }
  return { status: response.status, body }
}

const weekly = `
$schema: https://countersign.example/workflow-schema
name: Weekly report
slug: weekly-report
description: What the week has brought
if_skipped: skip
inputs:
  to: {type: string, required: true}
steps:
  - id: look
    tool: memory_get
    params:
      key: week          # a comment
  - id: text
    compute:
      lines: |
        Dear all,
        {{ text(look.output.value ?? 'nothing') }}
`

test('a definition is saved as YAML, with its names, and the stored one is JSON without them', async () => {
  const { status, body } = await sendYaml('POST', '/workflows', weekly)
  expect([status, body]).toMatchObject([
    201,
    { name: 'Weekly report', slug: 'weekly-report', description: 'What the week has brought' },
  ])
  expect(body['definition']).toEqual({
    if_skipped: 'skip',
    inputs: { to: { type: 'string', required: true } },
    steps: [
      { id: 'look', tool: 'memory_get', params: { key: 'week' } },
      { id: 'text', compute: { lines: "Dear all,\n{{ text(look.output.value ?? 'nothing') }}\n" } },
    ],
  })
})

describe('the slug names the workflow', () => {
  test('in every path', async () => {
    const found = await server.call(key(), 'GET', '/workflows/weekly-report')
    expect(found.body).toMatchObject({ name: 'Weekly report', version: 1 })
    const changed = await sendYaml('PUT', '/workflows/weekly-report', weekly.replace('Dear all', 'Dear team'))
    expect([changed.status, changed.body]).toMatchObject([200, { version: 2, id: found.body.id }])
    expect((await sendYaml('PUT', '/workflows/weekly-report', weekly.replace('Dear all', 'Dear team'))).body).toMatchObject({ version: 2 }) // prettier-ignore
    const run = await server.call(key(), 'POST', '/workflows/weekly-report/execute?wait=0', {
      inputs: { to: 'a' },
    })
    expect(run).toMatchObject({ status: 202, body: { status: 'queued' } })
  })

  test('once in an organization, and in no other one', async () => {
    const again = await sendYaml('POST', '/workflows', weekly)
    expect([again.status, again.body.error?.message]).toEqual([
      409,
      expect.stringContaining('another workflow has the slug'),
    ])
    const other = await server.call(
      (await addOrganization(server.context)).owner.key,
      'GET',
      '/workflows/weekly-report',
    )
    expect(other.status).toBe(404)
    // Whoever is no member of the other organization does not learn the id either.
    const path = `/workflows/weekly-report?organization_id=${server.identities.organization_id}`
    const stranger = await server.call((await addOrganization(server.context)).owner.key, 'GET', path)
    expect([stranger.status, stranger.text]).toEqual([404, expect.not.stringContaining('wf_')])
  })

  test('until the workflow is deleted, or gets another one', async () => {
    const body = { name: 'a', slug: 'first', definition: { steps: [{ id: 's', compute: { a: 1 } }] } }
    const { body: one } = await server.call(key(), 'POST', '/workflows', body)
    await server.call(key(), 'PUT', '/workflows/first', { slug: 'second' })
    expect((await server.call(key(), 'GET', '/workflows/first')).status).toBe(404)
    expect((await server.call(key(), 'GET', '/workflows/second')).body.id).toBe(one.id)
    await server.call(key(), 'DELETE', '/workflows/second')
    expect((await server.call(key(), 'POST', '/workflows', { ...body, slug: 'second' })).status).toBe(201)
  })

  test.each(['Weekly', 'a_b', 'wf_01', '-a', 'a--b', ''])('%j is none', async (slug) => {
    const body = { name: 'a', slug, definition: { steps: [{ id: 's', compute: { a: 1 } }] } }
    expect((await server.call(key(), 'POST', '/workflows', body)).status).toBe(422)
  })
})

const steps = 'name: a\nsteps:\n'

test.each<[string, string, number, string]>([
  ['a wrong field', `${steps}  - id: a\n    tool: memory_get\n    parms: {}\n`, 422, 'line 5, column 12'],
  [
    'a wrong parameter',
    `${steps}  - id: a\n    tool: memory_get\n    params:\n      kee: x\n`,
    422,
    'line 6, column 12',
  ],
  ['an anchor', `name: &a x\nsteps: []\n`, 400, 'line 1, column'],
  ['an alias', `name: a\nsteps: *b\n`, 400, 'line 2, column'],
  ['a tag', `name: !!str a\nsteps: []\n`, 400, 'line 1, column'],
  ['a name that is no text', `name: a\n1: b\n`, 400, 'line 2, column 1'],
  ['a field twice', `name: a\nname: b\n`, 400, 'line 2, column 1'],
  ['a tabulator', `steps:\n\t- id: a\n`, 400, 'line 2'],
  ['two documents', `name: a\n---\nname: b\n`, 400, 'line'],
  [
    'a large whole number',
    `name: a\nx: 9007199254740992\n`,
    400,
    'line 2, column 4: this is a whole number beyond',
  ],
  ['no number of JSON', `name: a\nsteps: .nan\n`, 400, 'line 2, column 8'],
  ['a template without quotes', `name: a\nsteps:\n  - key: {{input.a}}\n`, 400, 'line 3, column 11: write a template in quotes'], // prettier-ignore
  ['a template with more behind it', `name: {{input.a}} b\n`, 400, 'write a template in quotes'],
  ['a colon in a text', `name: Say: hi\n`, 400, 'line 1, column 7: put a text with `: ` in quotes'],
  ['a line that is indented too far', `name: a\n  slug: b\n`, 400, 'Nested mappings'],
  ['many levels', `a: ${'['.repeat(20_000)}`, 400, 'nested'],
])('%s is refused with its place', async (_, text, status, place) => {
  const answer = await sendYaml('POST', '/workflows', text)
  const { message, details } = answer.body.error ?? { message: '', details: [] }
  expect([answer.status, [message, ...details.map((each) => each.message)].join('\n')]).toEqual([
    status,
    expect.stringContaining(place),
  ])
})

test('YAML is taken for definitions only, and only as its type', async () => {
  const ofAnotherType = await sendYaml('POST', '/workflows', weekly, 'text/plain')
  expect([ofAnotherType.status, ofAnotherType.body.error?.message]).toEqual([
    415,
    expect.stringContaining('`application/yaml`'),
  ])
  const asJson = await sendYaml('POST', '/workflows', weekly, 'application/json')
  expect([asJson.status, asJson.body.error?.message]).toEqual([
    400,
    expect.stringContaining('send YAML as `content-type: application/yaml`'),
  ])
  const elsewhere = await sendYaml('POST', '/workflows/weekly-report/execute', 'inputs: {}')
  expect([elsewhere.status, elsewhere.body.error?.message]).toEqual([
    415,
    expect.not.stringContaining('yaml'),
  ])
  expect((await sendYaml('POST', '/workflows', `name: ${'a'.repeat(300_000)}`)).status).toBe(413)
})

test('names in the body and in the definition must agree', async () => {
  const definition = { name: 'b', steps: [{ id: 's', compute: { a: 1 } }] }
  expect((await server.call(key(), 'POST', '/workflows', { name: 'a', definition })).body.error.details[0]).toEqual({ path: 'definition.name', message: 'says something else than `name`: say it once' }) // prettier-ignore
  expect((await server.call(key(), 'POST', '/workflows', { definition })).status).toBe(201)
  expect((await server.call(key(), 'POST', '/workflows', { definition: { steps: definition.steps } })).body.error.message).toContain('name the workflow') // prettier-ignore
})

describe('the schema for editors', () => {
  let isValid: (definition: unknown) => boolean
  beforeAll(async () => {
    const schema = (await (await fetch(`${server.base}/workflow-schema`)).json()) as object
    isValid = new Ajv2020({ strict: false }).compile(schema)
  })

  test.each([
    [true, { tool: 'mail_send', params: { to: '{{input.to}}', subject: 'a', text: 'b' } }],
    [true, { tool: 'llm_generate', params: { prompt: 'p', max_tokens: '{{input.n}}' } }],
    [true, { compute: { a: 1 } }],
    [false, { tool: 'mail_sent', params: {} }],
    [false, { tool: 'mail_send', params: { to: 'a', subject: 'b', text: 'c', cc_to: 'd' } }],
    [false, { tool: 'llm_generate', params: { prompt: 'p', max_tokens: 'many' } }],
    [false, { compute: 1 }],
  ])('says %s of %j', (expected, step) => {
    expect(isValid({ $schema: 'x', name: 'a', steps: [{ id: 's', ...step }] })).toBe(expected)
  })

  test('takes every sample', () => {
    const folder = new URL('../../../samples/workflows/', import.meta.url)
    const files = readdirSync(folder).filter((name) => /\.(json|yaml)$/.test(name))
    const wrong = files.filter((name) => !isValid(parse(readFileSync(new URL(name, folder), 'utf8'))))
    expect([files.length > 5, wrong]).toEqual([true, []])
  })
})

describe('a draft', () => {
  const send = (path: string, body: object) => server.call(key(), 'POST', `/workflows/${path}`, body)
  const wrong = {
    inputs: { a: { type: 'text' } },
    steps: [
      { id: 'one', tool: 'memory_get', params: { key: '{{nowhere.output.key}}' } },
      { id: 'two', tool: 'memory_get', params: { key: 'k' }, retries: 3 },
      { id: 'three', tool: 'memory_get', params: { key: '{{two.output.x}} {{input.a}}' } },
      { id: 'four', tool: 'no_such_tool', params: {} },
    ],
  }

  test('all mistakes of shape and meaning are named at once, and none about what is unsure', async () => {
    const { status, body } = await send('validate', { definition: wrong })
    expect([status, body.error.details.map(({ path }: { path: string }) => path)]).toEqual([
      422,
      [
        'definition.inputs.a.type',
        'definition.steps.1.retries',
        'definition.steps.0.params.key',
        'definition.steps.3.tool',
      ],
    ])
  })

  test('as YAML, with line and column; and nothing is saved', async () => {
    const { status, body } = await sendYaml(
      'POST',
      '/workflows/validate',
      'steps:\n  - {id: a, tool: nothing}\n',
    )
    expect([status, body.error?.details[0]?.message]).toEqual([
      422,
      expect.stringMatching(/^line 2, column \d+: /),
    ])
    const before = (await server.call(key(), 'GET', '/workflows')).body.data.length
    expect(await sendYaml('POST', '/workflows/validate', weekly)).toMatchObject({
      status: 200,
      body: { valid: true },
    })
    const definition = parse(weekly) as { steps: object[] }
    const draft = { inputs: { to: { type: 'string' } }, steps: definition.steps }
    expect((await send('preview', { definition: draft })).body).toMatchObject({
      verdict: 'allow',
      executable: true,
      unknown_inputs: ['to'],
    })
    expect((await server.call(key(), 'GET', '/workflows')).body.data).toHaveLength(before)
  })
})

// The last one, because connections of the tests' client grow old meanwhile.
test('the worst texts are read in two seconds of processor time, also on a slow machine', () => {
  const many = (piece: string) => piece.repeat(Math.floor(mostYaml / piece.length))
  const names = Array.from({ length: 9_000 }, (_, n) => `k${n}: 1`)
  const texts = [names.join('\n'), `{${names.join(',')}}`, `[${many(',').slice(1)}`, ...['[]', '?\n', '- |\n', '\n', '[', '{a: ', '"', '&a '].map(many)] // prettier-ignore
  for (const text of texts) {
    const read = () => {
      try {
        readYaml(Buffer.from(text.slice(0, mostYaml)))
      } catch {
        // Most of them are no YAML.
      }
    }
    const milliseconds = Math.min(cpuMilliseconds(read), cpuMilliseconds(read))
    expect([text.slice(0, 10), milliseconds < 2_000]).toEqual([text.slice(0, 10), true])
  }
})
