import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { pageOf, readCursor } from '../../src/governance/page.ts'

const same = (text: string): string => text

test('walking the pages by their cursors returns every row once, in order', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 1, max: 10 }), (count, limit) => {
      const rows = Array.from({ length: count }, (_, index) => `id_${String(index).padStart(3, '0')}`)
      const seen: string[] = []
      let cursor: string | null = null
      do {
        const after: string = readCursor(cursor, /^id_\d{3}$/) ?? ''
        const rest = rows.filter((row) => row > after).slice(0, limit + 1)
        const page = pageOf(rest, limit, same, same)
        expect(page.data.length).toBeLessThanOrEqual(limit)
        seen.push(...page.data)
        cursor = page.next_cursor
      } while (cursor !== null)
      expect(seen).toEqual(rows)
    }),
  )
})

test('an invalid cursor is refused before the database is asked', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.base64String()), (text) => {
      try {
        expect(readCursor(text, /^id_\d{3}$/)).toMatch(/^id_/)
      } catch (error) {
        expect(error).toMatchObject({ code: 'validation_error', details: [{ path: 'cursor' }] })
      }
    }),
  )
})
