import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'

const folder = join(import.meta.dirname, '../../docs/decisions')
const records = readdirSync(folder).filter((name) => /^\d{4}-/.test(name))

test.each(records)('%s has a numbered title and at most 150 words', (name) => {
  const text = readFileSync(join(folder, name), 'utf8')
  expect(text).toMatch(new RegExp(`^# ${Number(name.slice(0, 4))}\\. `))
  const words = text
    .replaceAll(/\]\([^)]*\)/g, ']')
    .split(/\s+/)
    .filter(Boolean)
  expect(words.length).toBeLessThanOrEqual(150)
})

test('the index has one line for each record, with its title', () => {
  const index = readFileSync(join(folder, 'README.md'), 'utf8')
  const lines = [...index.matchAll(/^\| (\d+) +\| \[(.*)\]\((.*)\) +\|$/gm)].map(
    ([, number, title, file]) => [`# ${number}. ${title}`, file],
  )
  const wanted = records.map((name) => [readFileSync(join(folder, name), 'utf8').split('\n')[0], name])
  expect(lines).toEqual(wanted)
})
