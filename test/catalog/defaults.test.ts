import { expect, test } from '@jest/globals'
import { z } from 'zod'
import { catalog } from '../../src/catalog/index.ts'
import { defaultsOf } from '../../src/policy/tool-defaults.ts'

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
const defaultOf = ({ tool, param }: Parameter): unknown =>
  (defaultsOf as Readonly<Record<string, Readonly<Record<string, unknown>>>>)[tool]?.[param]

test.each(parameters.filter(({ description }) => /\bdefault\b/i.test(description)))(
  '$tool $param: rules know the default that its description names',
  (parameter) => {
    expect(defaultOf(parameter) !== undefined).toBe(!unknown.has(`${parameter.tool} ${parameter.param}`))
  },
)

test('every default belongs to a parameter that may be left out and takes it', () => {
  const found = parameters.filter((parameter) => defaultOf(parameter) !== undefined)
  expect(found).toHaveLength(Object.values(defaultsOf).flatMap((each) => Object.keys(each)).length)
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
