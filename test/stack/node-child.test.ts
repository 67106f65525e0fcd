import { readFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { expect, test } from '@jest/globals'
import { v8Flags } from '../../src/stack/node-child.ts'

const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  scripts: Record<string, string>
}

test.each([
  ['api', v8Flags.api],
  ['worker', v8Flags.worker],
  ['bench', v8Flags.worker],
])('`npm run %s` gives V8 the same options as `npm start`', (name, flags) => {
  expect(scripts[name]).toMatch(new RegExp(`node ${flags.join(' ')} (src|bench)/`))
})

test.each([[v8Flags.api], [v8Flags.worker]])('this Node knows the flags %j', (flags) => {
  const ended = spawnSync(process.execPath, [...flags, '--eval', ''], { encoding: 'utf8' })
  expect([ended.status, ended.stderr]).toEqual([0, ''])
})
