import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { hookFile } from './run-hook.ts'

/* The adapters' own tests, with every Python of this machine that they promise to run on. */

const folder = fileURLToPath(new URL('../../adapters/tests', import.meta.url))
const versions = ['python3', 'python3.8', 'python3.9', 'python3.10', 'python3.11', 'python3.12', 'python3.13']

/** The program behind a name, which may be a launcher that finds none of that version. */
function real(name: string): string | undefined {
  const { stdout, status } = spawnSync(name, ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}
const pythons = [...new Set(versions.flatMap((name) => real(name) ?? []))]

test('there is one', () => {
  expect(pythons).not.toEqual([])
})

describe.each(pythons)('%s', (program) => {
  test('its tests pass, without a warning', () => {
    const args = ['-B', '-W', 'error', '-m', 'unittest', 'discover', '-q', folder]
    const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' })
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringMatching(/Ran \d\d+ tests[^]*\nOK/) })
  })

  test('a call that cannot be checked is blocked', () => {
    const args = ['-I', '-S', '-W', 'error', hookFile, 'pre', '--dialect', 'gemini']
    const { status, stdout } = spawnSync(program, args, { input: '{}', env: {}, encoding: 'utf8' })
    expect(status).toBe(2)
    expect(JSON.parse(stdout)).toMatchObject({ decision: 'deny' })
  })
})

