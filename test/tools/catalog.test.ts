import { describe, expect, test } from '@jest/globals'
import { z } from 'zod'
import { bodiesOf } from '../../src/tools/bodies.ts'
import { catalog, getTool, type ToolName, facts } from '../../src/tools/index.ts'
import { maxMemoryValueLength } from '../../src/tools/memory/tools.ts'
import { diffOf, fieldsOf, mostOfPreview, titleOf } from '../../src/tools/kit/preview.ts'
import { serviceOf, type ToolDeclaration } from '../../src/tools/kit/tool.ts'
import { parseParams } from '../../src/contract/tool-params.ts'
import { destinationParam, withLinked } from '../../src/policy/tool-facts.ts'
import type { JsonObject } from '../../src/policy/types.ts'

const tools: readonly [string, ToolDeclaration][] = Object.entries(catalog)

describe('the catalogue', () => {
  test.each(tools)('%s has exactly the functions that its declaration needs', async (name, tool) => {
    const { repeat, ownService, precondition, constraints } = tool
    const isFound = repeat === 'findable' || ownService !== undefined
    const hasReaders = Object.values(constraints.allowed_domains ?? {}).includes('audience')
    const needed = [
      'body',
      ...(isFound ? ['find'] : []),
      ...(precondition === undefined ? [] : ['state']),
      ...(hasReaders ? ['audience'] : []),
    ]
    expect(Object.keys((await bodiesOf(name)) ?? {})).toEqual(needed)
  })

  test('has no tool with a precondition that is `keyed`', () => {
    const declaring = tools.filter(([, { precondition }]) => precondition !== undefined)
    expect(declaring.map(([, { repeat }]) => repeat)).not.toContain('keyed')
  })

  test.each(['nothing', 'constructor', '__proto__'])('has no functions for %s', async (name) => {
    expect(await bodiesOf(name)).toBeUndefined()
  })

  test.each(tools)('%s: each limit reads parameters that the tool has', (_, tool) => {
    const has = Object.keys(tool.params.shape)
    for (const params of Object.values(tool.constraints))
      for (const param of Object.keys(params)) expect(has).toContain(param)
  })

  test.each(tools)('%s: `read_only` limits what changes something, and sizes limit reads', (_, tool) => {
    const limits = Object.keys(tool.constraints)
    expect(limits.includes('read_only')).toBe(tool.sideEffect !== 'read')
    expect(limits.includes('max_response_size_kb')).toBe(tool.sideEffect === 'read')
  })

  test.each(tools)('%s: what it has done can be taken back as its side effect says', (_, tool) => {
    const reversible = { read: 'yes', write: 'by hand', egress: 'no' } as const
    expect(tool.reversible).toBe(reversible[tool.sideEffect])
  })

  test('has the time limits of the slow services', () => {
    // A search asks for three pages, each for 30 s.
    expect([getTool('web_search'), getTool('llm_generate')].map((tool) => tool?.timeoutSeconds)).toEqual([
      90, 300,
    ])
  })

  test.each(tools)('%s: approvers see a title of its own if it changes something', (_, tool) => {
    expect(tool.preview !== undefined).toBe(tool.sideEffect !== 'read')
  })

  test.each(tools)('%s: only reads may be repeated freely', (_, tool) => {
    expect(tool.repeat === 'free').toBe(tool.sideEffect === 'read')
  })

  test.each(tools)('%s refuses a parameter it does not have', (_, tool) => {
    const result = tool.params.safeParse({ nonsense: 1 })
    expect(result.error?.issues.map((issue) => issue.code)).toContain('unrecognized_keys')
  })

  test.each(tools)('%s: rules know which parameters can hold several values', (name, tool) => {
    const single = ['string', 'integer', 'number', 'boolean']
    for (const [param, schema] of Object.entries(
      z.toJSONSchema(tool.params, { io: 'input' }).properties ?? {},
    )) {
      const isSingle = typeof schema === 'object' && single.includes(String(schema.type))
      expect([param, facts.mayHoldSeveral(name, param)]).toEqual([param, !isSingle])
    }
    expect([facts.mayHoldSeveral(name, '*'), facts.mayHoldSeveral('Bash', 'command')]).toEqual([true, true])
  })

  test.each(tools)('%s publishes its parameters as JSON Schema', (_, tool) => {
    const schema = z.toJSONSchema(tool.params, { io: 'input' })
    expect(schema).toMatchObject({ type: 'object', additionalProperties: false })
    for (const property of Object.values(schema.properties ?? {})) {
      expect(property).not.toEqual({})
    }
  })

  test.each(tools)('%s publishes the form of its output as JSON Schema', (_, tool) => {
    const schema = z.toJSONSchema(tool.output)
    expect(schema).toMatchObject({ type: 'object', additionalProperties: false })
    const shape: Readonly<Record<string, unknown>> = tool.output.shape
    const fields = Object.entries(shape).filter(
      ([, each]) => !(each as z.ZodType).safeParse(undefined).success,
    )
    expect(schema.required).toEqual(fields.map(([field]) => field))
  })

  test.each(['nothing', 'constructor', '__proto__', 'toString', ''])('getTool(%j) is undefined', (name) => {
    expect(getTool(name)).toBeUndefined()
  })
})

const mail = { to: 'me', subject: 's', text: 't' }
const many = (count: number) => Array.from({ length: count }, () => 'a@x.com')

const cases: [ToolName, string, JsonObject, boolean][] = [
  ['file_read', 'a path', { path: 'a/b.md' }, true],
  ['file_read', 'no path', {}, false],
  ['file_read', 'an empty path', { path: '' }, false],
  ['file_read', 'a path that is no text', { path: ['a'] }, false],
  ['file_read', 'a path of 4097 characters', { path: 'a'.repeat(4097) }, false],
  ['memory_get', 'a key', { key: 'q3 / größe' }, true],
  ['memory_get', 'an empty key', { key: '' }, false],
  ['memory_get', 'a key with NUL', { key: 'a\0' }, false],
  ['memory_get', 'a key with a line break at its end', { key: 'a\n' }, false],
  ['memory_get', 'a key of 257 characters', { key: 'a'.repeat(257) }, false],
  ['memory_set', 'any JSON', { key: 'k', value: { a: [null, 1, 'x', true] } }, true],
  ['memory_set', 'null', { key: 'k', value: null }, true],
  ['memory_set', 'no value', { key: 'k' }, false],
  ['memory_set', 'what JSON cannot hold', { key: 'k', value: Number.NaN }, false],
  ['memory_set', 'the largest value', { key: 'k', value: 'x'.repeat(maxMemoryValueLength - 2) }, true],
  ['memory_set', 'a larger value', { key: 'k', value: 'x'.repeat(maxMemoryValueLength - 1) }, false],
  ['mail_send', 'the least', mail, true],
  [
    'mail_send',
    'everything',
    { ...mail, html: '<p>', cc: ['a@x.com', 'b@x.com'], bcc: 'a@x.com; b@x.com' },
    true,
  ],
  ['mail_send', 'no recipient', { ...mail, to: '' }, false],
  ['mail_send', 'an empty list', { ...mail, to: [] }, false],
  ['mail_send', 'a list in a list', { ...mail, to: [['a@x.com']] }, false],
  ['mail_send', 'a hundred recipients', { ...mail, to: many(100) }, true],
  ['mail_send', 'a hundred and one', { ...mail, to: many(101) }, false],
  ['mail_send', 'a recipient that is an object', { ...mail, to: { address: 'a@x.com' } }, false],
  ['mail_send', 'a subject of 998 characters', { ...mail, subject: 's'.repeat(998) }, true],
  ['mail_send', 'a subject of 999', { ...mail, subject: 's'.repeat(999) }, false],
  ['mail_send', 'a text from a file', { ...mail, text: { path: '/etc/passwd' } }, false],
  ['mail_send', 'too much text', { ...mail, text: 'x'.repeat(1_000_001) }, false],
  ['mail_send', 'another sender', { ...mail, from: 'a@x.com' }, false],
  ['mail_send', 'attachments', { ...mail, attachments: [] }, false],
]

test.each(cases)('%s accepts or refuses %s', (name, _, params, taken) => {
  expect(parseParams(catalog[name], params).ok).toBe(taken)
})

/** Texts of these parameters cannot be chosen freely: times, ids, ranges and models. */
const bound: { readonly [tool: string]: readonly string[] } = {
  calendar_create_event: ['start'],
  slack_send_message: ['thread_ts'],
  sheets_read: ['range'],
  sheets_append: ['range'],
  llm_generate: ['model'],
}

/** Whether a parameter refuses every text but a few words, e.g. a number or a state. */
const takesNoText = (schema: z.ZodType): boolean =>
  ['text', '1', '1.1', ['text'], [['text']]].every((value) => !schema.safeParse(value).success)

describe('what parameters name', () => {
  test.each(tools.filter(([, tool]) => serviceOf(tool) !== null))(
    '%s: every parameter that takes a text names a place, carries free text, or is known to do neither',
    (name, { params, places = {}, freeTexts = [], people = [] }) => {
      const named = [...Object.keys(places), ...freeTexts, ...people]
      const takingText = Object.entries(params.shape as Readonly<Record<string, z.ZodType>>).flatMap(
        ([param, schema]) => (takesNoText(schema) ? [] : [param]),
      )
      expect(takingText.filter((param) => !named.includes(param))).toEqual(bound[name] ?? [])
    },
  )

  test('no parameter of a tool has the name under which rules see where a call goes', () => {
    expect(tools.filter(([, { params }]) => Object.hasOwn(params.shape, destinationParam))).toEqual([])
  })

  test('is declared of parameters that the tool has', () => {
    for (const [name, { params, ...tool }] of tools) {
      const named = [tool.people ?? [], tool.linked ?? [], Object.keys({ ...tool.places, ...tool.defaults })]
      expect([name, named.flat().filter((param) => !Object.hasOwn(params.shape, param))]).toEqual([name, []])
    }
  })

  const links = ['https://github.com/acme/app/issues/7', 'https://github.com/acme/app/blob/main/src/main.ts']
  test.each(tools)('%s: rules see the parameters that a link can give', (name, { linked = [] }) => {
    const given = links.flatMap((repo) =>
      Object.keys(withLinked(facts.reading(name, 'workflows'), { repo }) as object).filter(
        (param) => param !== 'repo',
      ),
    )
    expect(given.sort()).toEqual([...linked].sort())
  })
})

/** Defaults that only the service, the connection or the other parameters know, and those that are nothing at all. */
const unknown = new Set([
  'github_get_file ref',
  'sheets_read range',
  'sheets_append range',
  'llm_generate model',
])

interface Parameter {
  readonly tool: string
  readonly param: string
  readonly description: string
  readonly type: z.ZodType
}
const parameters = Object.entries(catalog).flatMap(([tool, { params }]): Parameter[] =>
  Object.entries(params.shape as Readonly<Record<string, z.ZodType>>).map(([param, type]) => {
    return { tool, param, type, description: type.description ?? '' }
  }),
)
const defaultOf = ({ tool, param }: Parameter): unknown => facts.get(tool)?.defaults?.get(param)

test.each(parameters.filter(({ description }) => /\bdefault\b/i.test(description)))(
  '$tool $param: rules know the default that its description names',
  (parameter) => {
    expect(defaultOf(parameter) !== undefined).toBe(!unknown.has(`${parameter.tool} ${parameter.param}`))
  },
)

test('every default belongs to a parameter that may be left out and takes it', () => {
  const found = parameters.filter((parameter) => defaultOf(parameter) !== undefined)
  expect(found).toHaveLength(facts.tools.flatMap(({ defaults }) => [...(defaults ?? [])]).length)
  for (const parameter of found) {
    const { tool, param, type } = parameter
    const takes = [undefined, defaultOf(parameter)].map((value) => type.safeParse(value).success)
    expect([tool, param, ...takes]).toEqual([tool, param, true, true])
  }
})

test.each(parameters.filter((parameter) => /\bdefault\b.*(?:\d|true|false|`)/i.test(parameter.description)))(
  '$tool $param: its description names the same default',
  (parameter) => {
    const { description } = parameter
    const named = description
      .replaceAll(/[`,]/g, '')
      .split(/\bdefault\b:? /i)
      .at(-1)
    expect(named?.replace(/\.$/, '')).toBe(String(defaultOf(parameter)))
  },
)

describe('fields', () => {
  test.each([
    ['plain text', 'plain text'],
    [7, '7'],
    [false, 'false'],
    [null, 'null'],
    [['a', 1, true], 'a, 1, true'],
    [[['a'], ['b']], '[\n  [\n    "a"\n  ],\n  [\n    "b"\n  ]\n]'],
    [{ a: 1 }, '{\n  "a": 1\n}'],
  ])('%j is shown as %j', (value, shown) => {
    expect(fieldsOf({ name: value })).toEqual([{ name: 'name', value: shown }])
  })

  test('leave out what was not given', () => {
    expect(fieldsOf({ a: undefined, b: 1 })).toEqual([{ name: 'b', value: '1' }])
  })

  test('are cut, and say how much is missing', () => {
    const [field] = fieldsOf({ text: 'x'.repeat(mostOfPreview.value + 5) })
    expect(field?.value).toBe(`${'x'.repeat(mostOfPreview.value)}… (5 more characters)`)
    expect(fieldsOf({ list: Array.from({ length: mostOfPreview.items + 2 }, () => 1) })[0]?.value).toMatch(
      /1… \(2 more\)$/,
    )
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`n${index}`, index]))
    expect(fieldsOf(many)).toHaveLength(mostOfPreview.fields)
    expect(fieldsOf({ emoji: `${'x'.repeat(mostOfPreview.value - 1)}😀` })[0]?.value.isWellFormed()).toBe(
      true,
    )
  })
})

test('a title is one line, and short', () => {
  expect(titleOf(' Send\n\na  mail ')).toBe('Send a mail')
  expect(titleOf('x'.repeat(1_000))).toBe(`${'x'.repeat(mostOfPreview.title)}… (800 more characters)`)
})

describe('a diff', () => {
  test('of short texts has both whole', () => {
    expect(diffOf('old', 'new')).toEqual({ before: 'old', after: 'new', skipped: 0 })
    expect(diffOf(null, 'new')).toEqual({ before: null, after: 'new', skipped: 0 })
  })

  test('of long texts shows their first difference', () => {
    const same = 'same '.repeat(10_000)
    const { before, after, skipped } = diffOf(`${same}old end`, `${same}new end`)
    expect(skipped).toBeGreaterThan(40_000)
    expect(before).toMatch(/same old end$/)
    expect(after).toMatch(/same new end$/)
    expect(same.length - skipped).toBe(before!.length - 'old end'.length)
  })

  test('is cut', () => {
    const { before, after } = diffOf('a'.repeat(1_000_000), 'b'.repeat(1_000_000))
    for (const side of [before!, after]) {
      expect(side.length).toBeLessThan(mostOfPreview.side + 50)
      expect(side).toMatch(/more characters\)$/)
    }
  })
})
