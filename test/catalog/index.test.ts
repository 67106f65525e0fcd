import { describe, expect, test } from '@jest/globals'
import { z } from 'zod'
import { executors } from '../../src/activities/tools/index.ts'
import { catalog, getTool } from '../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'
import { catalogueNames } from '../../src/policy/tool-names.ts'
import { mayHoldSeveral, toolParams } from '../../src/policy/tool-params.ts'
import { toolSideEffects } from '../../src/policy/tool-side-effects.ts'

const tools = Object.entries(catalog)

describe('the catalogue', () => {
  // The whole catalogue: side effect, labels, repetition, risk, categories and integration of each tool.
  const both = ['internal', 'untrusted']
  const declared: [string, string, string[], string, string, string[], string][] = [
    ['file_read', 'read', ['internal'], 'free', 'medium', [], 'installation'],
    ['memory_get', 'read', [], 'free', 'medium', [], 'none'],
    ['memory_set', 'write', [], 'transactional', 'low', [], 'none'],
    ['mail_send', 'egress', [], 'unsafe', 'high', ['external_comm'], 'installation'],
    ['calendar_create_event', 'egress', [], 'findable', 'high', ['external_comm'], 'google'],
    ['slack_send_message', 'egress', [], 'findable', 'high', ['external_comm'], 'slack'],
    ['slack_create_channel', 'write', [], 'findable', 'medium', ['permission_changes'], 'slack'],
    ['github_search_code', 'read', ['internal'], 'free', 'medium', [], 'github'],
    ['github_get_file', 'read', ['internal'], 'free', 'medium', [], 'github'],
    ['github_list_issues', 'read', both, 'free', 'medium', [], 'github'],
    ['github_get_issue', 'read', both, 'free', 'medium', [], 'github'],
    ['github_list_pull_requests', 'read', both, 'free', 'medium', [], 'github'],
    ['github_create_issue', 'write', [], 'findable', 'medium', ['public_writes'], 'github'],
    ['github_comment', 'egress', [], 'findable', 'medium', ['public_writes'], 'github'],
    ['jira_search', 'read', ['internal'], 'free', 'medium', [], 'jira'],
    ['jira_get_issue', 'read', ['internal'], 'free', 'medium', [], 'jira'],
    ['jira_create_issue', 'write', [], 'findable', 'medium', [], 'jira'],
    ['jira_comment', 'egress', [], 'findable', 'medium', [], 'jira'],
    ['trello_list_cards', 'read', ['internal'], 'free', 'medium', [], 'trello'],
    ['trello_get_card', 'read', ['internal'], 'free', 'medium', [], 'trello'],
    ['trello_create_card', 'write', [], 'findable', 'medium', [], 'trello'],
    ['trello_comment', 'egress', [], 'findable', 'medium', [], 'trello'],
    ['docs_read', 'read', ['internal'], 'free', 'medium', [], 'google'],
    ['docs_create', 'write', [], 'findable', 'medium', ['public_writes'], 'google'],
    ['sheets_read', 'read', ['internal'], 'free', 'medium', [], 'google'],
    ['sheets_append', 'write', [], 'findable', 'medium', ['public_writes'], 'google'],
    ['drive_search', 'read', ['internal'], 'free', 'medium', [], 'google'],
    ['web_search', 'read', ['untrusted'], 'free', 'low', [], 'search'],
    ['llm_generate', 'read', [], 'free', 'low', [], 'llm'],
  ]
  test.each(declared)('%s', (name, sideEffect, outputLabels, repeat, risk, categories, connection) => {
    expect(getTool(name)).toMatchObject({
      name,
      sideEffect,
      outputLabels,
      repeat,
      risk,
      categories,
      connection,
    })
  })

  test('has each of them, and no other', () => {
    expect(Object.keys(catalog).sort()).toEqual(declared.map(([name]) => name).sort())
    expect(Object.keys(catalog)).toEqual([...catalogueNames])
  })

  test('has the side effects that rules are checked with', () => {
    const own = Object.fromEntries(tools.map(([name, { sideEffect }]) => [name, sideEffect]))
    expect(toolSideEffects).toEqual(own)
  })

  test('has an executor exactly where it says so', () => {
    const declaring = tools.filter(([, { hasExecutor }]) => hasExecutor).map(([name]) => name)
    expect(declaring.sort()).toEqual(Object.keys(executors).sort())
  })

  test.each(tools)('%s: each limit reads parameters that the tool has', (_, tool: ToolDeclaration) => {
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

  test.each(tools)('%s is declared under its own name', (name, tool) => expect(tool.name).toBe(name))

  test.each(tools)('%s: only reads may be repeated freely', (_, tool) => {
    expect(tool.repeat === 'free').toBe(tool.sideEffect === 'read')
  })

  test.each(tools)('%s refuses a parameter it does not have', (_, tool) => {
    const result = tool.params.safeParse({ nonsense: 1 })
    expect(result.error?.issues.map((issue) => issue.code)).toContain('unrecognized_keys')
  })

  test.each(tools)('%s has the parameters that rules may name for it', (name, tool) => {
    expect(Object.keys(toolParams).sort()).toEqual(Object.keys(catalog).sort())
    expect([...(toolParams[name as keyof typeof toolParams] ?? [])].sort()).toEqual(
      Object.keys(tool.params.shape).sort(),
    )
  })

  test.each(tools)('%s: rules know which parameters can hold several values', (name, tool) => {
    const single = ['string', 'integer', 'number', 'boolean']
    for (const [param, schema] of Object.entries(
      z.toJSONSchema(tool.params, { io: 'input' }).properties ?? {},
    )) {
      const isSingle = typeof schema === 'object' && single.includes(String(schema.type))
      expect([param, mayHoldSeveral(name, param)]).toEqual([param, !isSingle])
    }
    expect([mayHoldSeveral(name, '*'), mayHoldSeveral('Bash', 'command')]).toEqual([true, true])
  })

  test.each(tools)('%s publishes its parameters as JSON Schema', (_, tool) => {
    const schema = z.toJSONSchema(tool.params, { io: 'input' })
    expect(schema).toMatchObject({ type: 'object', additionalProperties: false })
    for (const property of Object.values(schema.properties ?? {})) {
      expect(property).not.toEqual({})
    }
  })

  test.each(tools)('%s publishes the form of its output as JSON Schema', (_, tool: ToolDeclaration) => {
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
