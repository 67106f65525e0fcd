import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { classifyCommand } from '../../src/shell/classify.ts'
import type { ShellKind } from '../../src/shell/types.ts'
import { weight } from './rows.ts'
import { sends } from './bash-sends.ts'
import { hides, keeps, scripts } from './bash-others.ts'

/*
 * Compares the reader with the real bash. Each snippet runs in an empty folder, with an empty environment and a PATH
 * of stubs that only record their names. The only real programs in this PATH are the shell and a few wrappers. Each
 * stub represents a class: `curl` sends, `python3` runs code, and `tool` (an unknown program) and `stat` do neither.
 * The reader must have seen every program that bash ran.
 */

const bash = '/bin/bash'

const real = 'env timeout nice nohup xargs find setsid stdbuf cat rev awk sed tar'.split(' ')

const stubs: Readonly<Record<string, ShellKind>> = {
  curl: 'egress',
  python3: 'script',
  tool: 'write',
  stat: 'write',
}

let folder = ''

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'shell-'))
  mkdirSync(join(folder, 'bin'))
  for (const name of Object.keys(stubs)) {
    const file = join(folder, 'bin', name)
    writeFileSync(file, `#!${bash}\nprintf '%s\\n' '${name}' >> "$RAN"\n`)
    chmodSync(file, 0o755)
  }
  for (const name of [...real, 'bash', 'sh']) {
    const from = [`/usr/bin/${name}`, `/bin/${name}`].find((path) => existsSync(path))
    if (from !== undefined) symlinkSync(from, join(folder, 'bin', name))
  }
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The stubs that bash ran, each once. */
function ranBy(snippet: string): string[] {
  const cwd = mkdtempSync(join(folder, 'cwd-'))
  const log = join(folder, 'ran')
  writeFileSync(log, '')
  spawnSync(bash, ['-c', snippet], {
    cwd,
    env: { PATH: join(folder, 'bin'), RAN: log },
    // The last pipe carries no data. It closes when every process that bash started has ended, including those in
    // `>(...)`.
    stdio: ['pipe', 'ignore', 'ignore', 'pipe'],
    input: '',
    timeout: 20_000,
    killSignal: 'SIGKILL',
  })
  return [...new Set(readFileSync(log, 'utf8').split('\n'))].filter((name) => name !== '')
}

// These tests fail on a machine without bash, because only bash shows whether the reader is right.
describe('as bash runs it', () => {
  test.each(sends)('sends: %j', (snippet) => {
    expect(ranBy(snippet)).toContain('curl')
    expect(classifyCommand(snippet).kind).toBe('egress')
  })
  test.each(hides)('hides: %j', (snippet) => {
    expect(ranBy(snippet)).toContain('curl')
    expect(weight[classifyCommand(snippet).kind]).toBeGreaterThanOrEqual(weight.script)
  })
  test.each(keeps)('keeps: %j', (snippet) => {
    expect(ranBy(snippet).filter((name) => stubs[name] !== 'write')).toEqual([])
    expect(classifyCommand(snippet).kind).toBe('write')
  })
  test.each(scripts)('runs code: %j', (snippet) => {
    expect(ranBy(snippet)).toEqual(['python3'])
    expect(classifyCommand(snippet).kind).toBe('script')
  })
  test('the reader puts each stub into the class that it represents', () => {
    for (const [name, kind] of Object.entries(stubs))
      expect([name, weight[classifyCommand(`${name} x`).kind]]).toEqual([name, weight[kind]])
  })
})
