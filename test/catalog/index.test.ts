import { describe, expect, test } from '@jest/globals'
import { z } from 'zod'
import { executors } from '../../src/activities/tools/index.ts'
import { catalog, getTool } from '../../src/catalog/index.ts'
import { toolParams } from '../../src/policy/tool-params.ts'

const tools = Object.entries(catalog)

describe('the catalogue', () => {
  // contract section 9; the specification's labels
  const declared: [string, string, string[], string, string, string[]][] = [
    ['file_read', 'read', ['internal'], 'free', 'medium', []],
    ['memory_get', 'read', [], 'free', 'medium', []],
    ['memory_set', 'write', [], 'transactional', 'low', []],
    ['mail_send', 'egress', [], 'unsafe', 'high', ['external_comm']],
  ]
  test.each(declared)('%s', (name, sideEffect, outputLabels, repeat, risk, categories) => {
    expect(getTool(name)).toMatchObject({ name, sideEffect, outputLabels, repeat, risk, categories })
  })

  test.each(tools)('%s is declared under its own name and has a body', (name, tool) => {
    expect(tool.name).toBe(name)
    expect(Object.keys(executors)).toContain(name)
  })

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

  test.each(tools)('%s publishes its parameters as JSON Schema', (_, tool) => {
    const schema = z.toJSONSchema(tool.params, { io: 'input' })
    expect(schema).toMatchObject({ type: 'object', additionalProperties: false })
    for (const property of Object.values(schema.properties ?? {})) {
      expect(property).not.toEqual({})
    }
  })

  test.each(['nothing', 'constructor', '__proto__', 'toString', ''])('getTool(%j) is undefined', (name) => {
    expect(getTool(name)).toBeUndefined()
  })
})
