import { describe, expect, test } from '@jest/globals'
import { z } from 'zod'
import { issuesOf } from '../../src/governance/validation.ts'

const detailsOf = (schema: z.ZodType, value: unknown) => issuesOf(schema.safeParse(value).error?.issues ?? [])

describe('issuesOf', () => {
  test('names every wrong and every unknown field by its path', () => {
    const schema = z.strictObject({ a: z.string(), b: z.array(z.strictObject({ c: z.int() })) })
    expect(detailsOf(schema, { b: [{ c: 1.5, d: 1 }], e: 1, f: 2 })).toEqual([
      { path: 'a', message: 'is missing' },
      { path: 'b.0.c', message: expect.stringContaining('int') },
      { path: 'b.0.d', message: 'unknown field' },
      { path: 'e', message: 'unknown field' },
      { path: 'f', message: 'unknown field' },
    ])
  })

  test('of a union it tells what is wrong in the branch that was meant', () => {
    const schema = z.union([z.string(), z.strictObject({ a: z.int() })])
    expect(detailsOf(schema, { a: 'x' })).toEqual([{ path: 'a', message: expect.stringContaining('number') }])
    expect(detailsOf(schema, 7)).toEqual([{ path: '', message: 'has no form that is accepted' }])
  })

  test('speaks plainly, and not without end', () => {
    const details = detailsOf(z.array(z.string()), Array(1000).fill(1))
    expect(details).toHaveLength(100)
    for (const { message } of details) expect(message).toMatch(/^[a-z]/)
  })
})
