import { spawnSync } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { folderFiles } from '../../src/shell/tables/interpreters.ts'
import { agentTool, agentToolNames } from '../../src/policy/agent-tools.ts'
import { byDepth } from '../support/depth.ts'
import { hookFile } from './run-hook.ts'

/*
 * Runs the adapters with every supported Python on this machine. In `npm test` their own tests run with the usual Python
 * only, because each of these runs takes some ten seconds.
 */

const folder = fileURLToPath(new URL('../../adapters/tests', import.meta.url))
/** The usual one comes first, and then the versions from the oldest to the newest. */
const names = ['python3', ...Array.from({ length: 8 }, (_, minor) => `python3.${8 + minor}`)]

/**
 * The path of the real interpreter behind a name; undefined if there is none. A launcher on PATH may not find this
 * version of Python.
 */
function real(name: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const script =
    'import os, sys; print(os.path.realpath(sys.executable)); sys.exit(sys.version_info < (3, 8))'
  const { stdout, status } = spawnSync(name, ['-c', script], { env, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}
/** The launchers of pyenv find only the versions that PYENV_VERSION names. */
const everything =
  spawnSync('pyenv', ['versions', '--bare'], { encoding: 'utf8' }).stdout?.trim().split('\n') ?? []
const env = { ...process.env, PYENV_VERSION: everything.join(':') }
const pythons = [...new Set(names.flatMap((name) => [real(name) ?? [], real(name, env) ?? []].flat()))]

test('at least one supported Python is installed', () => {
  expect(pythons).not.toEqual([])
})

test('the hook knows the shells and the other tools that the service knows', () => {
  const script =
    'import json, service_hook; print(json.dumps([service_hook.SHELL_TOOLS, service_hook.OTHER_TOOLS, service_hook.FOLDER_FILES]))'
  const { stdout } = spawnSync('python3', ['-B', '-c', script], { cwd: dirname(hookFile), encoding: 'utf8' })
  const [shells, others, files] = JSON.parse(stdout) as [string[], string[], Record<string, string[]>]
  const isShell = (name: string): boolean => agentTool(name)?.isShell === true
  expect(shells.toSorted()).toEqual(agentToolNames.filter(isShell).toSorted())
  expect(others.toSorted()).toEqual(agentToolNames.filter((name) => !isShell(name)).toSorted())
  expect(files).toEqual(Object.fromEntries(folderFiles))
})

const thorough = byDepth(pythons.slice(0, 1), pythons)

describe.each(thorough)('%s', (program) => {
  test('its tests pass without a warning', () => {
    const args = ['-B', '-W', 'error', '-m', 'unittest', 'discover', '-q', folder]
    const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' })
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: expect.stringMatching(/Ran \d\d+ tests[^]*\nOK/),
    })
  })
})

describe.each(pythons)('%s', (program) => {
  test('a call that cannot be checked is blocked', () => {
    const args = ['-I', '-S', '-W', 'error', hookFile, 'pre', '--dialect', 'gemini']
    const { status, stdout } = spawnSync(program, args, { input: '{}', env: {}, encoding: 'utf8' })
    expect(status).toBe(2)
    expect(JSON.parse(stdout)).toMatchObject({ decision: 'deny' })
  })
})
