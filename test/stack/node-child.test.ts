import { readFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { expect, test } from '@jest/globals'
import { v8Flags } from '../../src/stack/node-child.ts'

const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  scripts: Record<string, string>
}

test.each(['api', 'worker', 'bench'])('`npm run %s` tells V8 what `npm start` tells it', (name) => {
  expect(scripts[name]).toContain(`node ${v8Flags.join(' ')} `)
})

test('this Node knows the flags', () => {
  const ended = spawnSync(process.execPath, [...v8Flags, '--eval', ''], { encoding: 'utf8' })
  expect([ended.status, ended.stderr]).toEqual([0, ''])
})
