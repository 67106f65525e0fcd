import { expect, test } from '@jest/globals'
import { fieldsOf, typeText } from '../../src/api/schema-text.ts'

test.each([
  [{ type: 'string' }, 'text'],
  [{ type: 'string', format: 'date-time' }, 'date-time'],
  [{ type: ['string', 'null'] }, 'text | null'],
  [{ type: 'array', items: { $ref: '#/components/schemas/Rule' } }, 'list of Rule'],
  [{ type: 'string', enum: ['allow', 'deny'], default: 'deny' }, '"allow" | "deny" (default "deny")'],
  [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'text | null'],
  [{ type: 'object', properties: { a: {}, b: {} } }, '{a, b}'],
  [{ type: 'object' }, 'object'],
  [{}, 'any'],
])('%j is %s', (schema, expected) => {
  expect(typeText(schema)).toBe(expected)
})

test('the fields of a named schema', () => {
  const named = { Rule: { properties: { name: { type: 'string' }, status: {} }, required: ['name'] } }
  expect(fieldsOf({ $ref: '#/components/schemas/Rule' }, named)).toEqual([
    { name: 'name', required: true, type: 'text' },
    { name: 'status', required: false, type: 'any' },
  ])
  expect(fieldsOf({ $ref: '#/components/schemas/Gone' }, named)).toEqual([])
})
