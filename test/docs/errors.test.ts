import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { statusOf } from '../../src/api/errors.ts'
import { idPrefixes } from '../../src/contract/ids.ts'

const page = readFileSync(new URL('../../docs/reference/errors.md', import.meta.url), 'utf8')

test('docs/reference/errors.md has every code with its status, and no other', () => {
  const rows = [...page.matchAll(/^\| (\d{3}) +\| `(\w+)` +\|/gm)].map(([, status, code]) => [
    code,
    Number(status),
  ])
  expect(Object.fromEntries(rows)).toEqual(statusOf)
})

test('docs/reference/errors.md has the prefix of every id', () => {
  const line = /^- Ids have a prefix(?:.|\n)*?\. /m.exec(page)?.[0] ?? ''
  const named = [...line.matchAll(/`(\w+)_`/g)].map(([, prefix = '']) => prefix)
  expect(named.toSorted()).toEqual(Object.values(idPrefixes).toSorted())
})
