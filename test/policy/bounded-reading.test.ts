import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { z } from 'zod'
import { readAs } from '../../src/policy/issues.ts'

const make = () => ({
  entries: z.array(z.union([z.int().min(0), z.string().max(3)])).max(1_000),
  unchecked: z.strictObject({ list: z.array(z.strictObject({ n: z.int() })).optional() }),
  changed: z.array(z.string().transform((text) => text.length)).min(1),
})

describe('a schema with bounded reading', () => {
  test('accepts and refuses the same values as before, with the same first mistakes', () => {
    const [bounded, plain] = [make(), make()]
    const entry = fc.oneof(fc.integer({ min: -3, max: 300 }), fc.string({ maxLength: 5 }), fc.constant(null))
    const value = fc.oneof(
      fc.array(entry, { maxLength: 300, size: 'max' }),
      fc.array(fc.nat(), { minLength: 90, maxLength: 1_100, size: 'max' }),
      fc.array(fc.string({ maxLength: 4 }), { minLength: 90, maxLength: 300, size: 'max' }),
      fc.record({
        list: fc.array(fc.record({ n: fc.oneof(fc.integer(), entry) }), { maxLength: 300, size: 'max' }),
      }),
    )
    fc.assert(
      fc.property(value, (given) => {
        for (const name of ['entries', 'unchecked', 'changed'] as const) {
          const read = readAs<unknown>(bounded[name], given)
          const whole = plain[name].safeParse(given)
          expect(read.ok).toBe(whole.success)
          if (read.ok) expect(read.value).toEqual(whole.data)
          else
            expect(read.issues.map(({ path }) => path)).toEqual(
              whole.error?.issues.slice(0, read.issues.length).map(({ path }) => path.join('.')),
            )
        }
      }),
    )
  })

  test('stops reading a list at its hundredth mistake, every time', () => {
    let looks = 0
    const entry = z.string().refine(() => ((looks += 1), false), 'is wrong')
    const lists = z.strictObject({ lists: z.array(z.array(entry)) })
    const given = { lists: Array.from({ length: 500 }, () => Array.from({ length: 300 }, () => 'a')) }
    for (let times = 1; times <= 5; times += 1) {
      const read = readAs(lists, given)
      expect(read.ok ? [] : read.issues).toHaveLength(100)
      expect(looks).toBe(100 * times)
    }
  })

  test('reports more mistakes than the stack could hold', () => {
    const lists = z.array(z.array(z.string().min(1, 'is empty')))
    const given = Array.from({ length: 4_000 }, () => Array.from({ length: 90 }, () => ''))
    expect(readAs(lists, given)).toMatchObject({ ok: false, issues: { length: 100 } })
  })

  test('checks nothing else about a text that is too long', () => {
    const text = z
      .string()
      .max(3)
      .refine(() => {
        throw new Error('was asked')
      })
      .optional()
    expect(readAs(z.array(text), ['long'])).toEqual({
      ok: false,
      issues: [{ path: '0', message: 'must have at most 3 characters' }],
    })
  })

  test('shortens long names, paths and messages', () => {
    const name = 'k'.repeat(3_000)
    const schema = z.record(
      z.string(),
      z.custom(() => false, { message: 'm'.repeat(3_000) }),
    )
    expect(readAs(schema, { [name]: 1 })).toEqual({
      ok: false,
      issues: [{ path: `${'k'.repeat(100)}…`, message: `${'m'.repeat(1_000)}…` }],
    })
    const unknown = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`k${n}`, 0]))
    expect(readAs(z.strictObject({}), unknown)).toMatchObject({ ok: false, issues: { length: 100 } })
  })
})
