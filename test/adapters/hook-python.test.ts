import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'

/* The Python interpreter that managed settings name must be one that every user can run and only root can change. */

let root: string
beforeEach(() => {
  root = temporaryFolder()
})

const organization = 'org_00000000000000000000000001'
const env = { SERVICE_API_URL: 'http://127.0.0.1:1', SERVICE_ORG_ID: organization }
const install = (...more: string[]): Promise<Ended> => {
  const args = ['install', '--dialect', 'claude', '--managed', '--yes', '--root', root, ...more]
  return runHook({ command: [python, hookFile], args, env })
}
const settings = (): string => join(root, 'etc/claude-code/managed-settings.json')
const named = (): string | undefined => /"command": "(\S+)"/.exec(readFileSync(settings(), 'utf8'))?.[1]

/** Writes a program into the image, in folders that everybody can enter. */
function program(path: string, mode = 0o755): void {
  const file = join(root, path)
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  writeFileSync(file, '')
  chmodSync(file, mode)
}
const link = (path: string, target: string): void => {
  mkdirSync(dirname(join(root, path)), { recursive: true, mode: 0o755 })
  symlinkSync(target, join(root, path))
}
const mode = (path: string, bits: number): void => chmodSync(join(root, path), bits)

describe('names a Python', () => {
  test.each<[string, () => void, string[], string]>([
    ['the system’s own', () => program('usr/bin/python3'), [], '/usr/bin/python3'],
    [
      'prefers the system’s own',
      () => {
        program('usr/local/bin/python3')
        program('usr/bin/python3')
      },
      [],
      '/usr/bin/python3',
    ],
    [
      'uses another if only root can run that one',
      () => {
        program('usr/bin/python3', 0o700)
        program('usr/local/bin/python3')
      },
      [],
      '/usr/local/bin/python3',
    ],
    [
      'follows a link to a place that everybody can enter',
      () => {
        program('opt/python/bin/python3.12')
        link('usr/bin/python3', '../../opt/python/bin/python3.12')
      },
      [],
      '/usr/bin/python3',
    ],
    [
      'uses the one that --python names',
      () => {
        program('usr/bin/python3')
        program('opt/python/bin/python3')
      },
      ['--python', '/opt/python/bin/python3'],
      '/opt/python/bin/python3',
    ],
  ])('%s', async (_name, build, more, path) => {
    build()
    const ended = await install(...more)
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(named()).toBe(path)
    expect(ended.stdout).not.toContain('the image has no')
  })

  test('the image has none yet, and the output says so', async () => {
    const ended = await install()
    expect(named()).toBe('/usr/bin/python3')
    expect(ended.stdout).toContain('next: the image has no /usr/bin/python3 yet')
  })
})

describe('is refused, and nothing is written', () => {
  test.each<[string, () => void, string[], string]>([
    [
      'below a private folder, through links',
      () => {
        program('private/.pyenv/versions/3/bin/python3.13')
        link('private/.pyenv/versions/3/bin/python3', 'python3.13')
        link('usr/bin/python3', '/private/.pyenv/versions/3/bin/python3')
        mode('private', 0o700)
      },
      [],
      '`/usr/bin/python3` (by way of `/private`) cannot be entered by every user',
    ],
    [
      'below a private folder by its own path',
      () => {
        program('usr/bin/python3')
        program('private/bin/python3')
        mode('private', 0o750)
      },
      ['--python', '/private/bin/python3'],
      '(by way of `/private`) cannot be entered by every user',
    ],
    [
      'not executable for everybody',
      () => program('usr/bin/python3', 0o754),
      [],
      '`/usr/bin/python3` cannot be run by every user',
    ],
    [
      'in a folder that anybody may change',
      () => {
        program('opt/bin/python3')
        mode('opt/bin', 0o777)
      },
      ['--python', '/opt/bin/python3'],
      '(by way of `/opt/bin`) can be changed by others than root',
    ],
    [
      'changeable by anybody',
      () => program('usr/bin/python3', 0o775),
      [],
      'can be changed by others than root',
    ],
    ['a folder', () => program('usr/bin/python3/python'), [], 'is no program'],
    ['a link to nothing', () => link('usr/bin/python3', 'python3.12'), [], 'cannot be found'],
    ['a link to itself', () => link('usr/bin/python3', 'python3'), [], 'is a link to itself'],
    ['named by a relative path', () => program('usr/bin/python3'), ['--python', 'python3'], 'absolute path'],
  ])('%s', async (_name, build, more, says) => {
    build()
    const ended = await install(...more)
    expect(ended.stderr).toContain(says)
    expect(ended.stderr).toContain('--python')
    expect(ended.code).toBe(1)
    expect(existsSync(settings())).toBe(false)
    expect(existsSync(join(root, 'opt/countersign'))).toBe(false)
  })
})

test('a user’s own Python must be able to run the hook', async () => {
  const args = ['install', '--dialect', 'claude', '--yes', '--python', '/bin/false']
  const ended = await runHook({ command: [python, hookFile], args, env })
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('`/bin/false` is not Python 3.8') })
})

test('every user can read the written files, whatever root’s umask', async () => {
  program('usr/bin/python3')
  const args = [hookFile, 'install', '--dialect', 'claude', '--managed', '--yes', '--root', root]
  await runHook({ command: ['sh', '-c', 'umask 077; exec "$@"', 'sh', python, ...args], env })
  for (const path of ['etc', 'etc/claude-code', 'opt/countersign'])
    expect([path, statSync(join(root, path)).mode & 0o777]).toEqual([path, 0o755])
  expect(statSync(settings()).mode & 0o777).toBe(0o644)
})
