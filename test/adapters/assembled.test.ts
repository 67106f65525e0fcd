import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { adapters, assembled } from '../../scripts/adapters.ts'

const folder = new URL('../../adapters/', import.meta.url)

describe.each(adapters)('adapters/%s', (adapter) => {
  test('is assembled from the current parts in adapters/src (npm run adapters)', () => {
    expect(readFileSync(new URL(adapter, folder), 'utf8')).toBe(assembled(adapter))
  })

  test('defines each name once', () => {
    const names = [...assembled(adapter).matchAll(/^(?:def|class) (\w+)/gm)].map((match) => match[1])
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  })
})

test('every part belongs to an adapter, and parts of both programs are in `shared`', () => {
  const [hook = '', gateway = ''] = adapters.map(assembled)
  for (const entry of readdirSync(new URL('src', folder), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith('.py')) continue
    const text = readFileSync(`${entry.parentPath}/${entry.name}`, 'utf8').trimEnd()
    const shared = entry.parentPath.endsWith('shared')
    const found = [hook.includes(text), gateway.includes(text)]
    expect({ part: entry.name, found }).toEqual({
      part: entry.name,
      found: shared
        ? [true, true]
        : [entry.parentPath.endsWith('hook'), entry.parentPath.endsWith('gateway')],
    })
  }
})
