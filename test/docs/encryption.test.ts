import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { sealedColumns } from '../../src/governance/sealing/columns.ts'

test('docs/encryption.md names every column with sealed values', () => {
  const page = readFileSync(new URL('../../docs/encryption.md', import.meta.url), 'utf8')
  const named = [...page.matchAll(/`(\w+\.\w+)`/g)].map(([, name = '']) => name)
  const columns = sealedColumns.map(({ table, column }) => `${table}.${column}`)
  expect(columns.filter((name) => !named.includes(name))).toEqual([])
})
