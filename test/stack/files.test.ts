import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { projectRoot } from '../../src/project-root.ts'
import { programFile, rotateLog, writeFileAtomic } from '../../src/stack/files.ts'
import { temporaryFolder } from './temporary-folder.ts'

describe('files', () => {
  test('an atomic write gives the mode asked for, whatever was there before, and leaves no draft', () => {
    const folder = temporaryFolder()
    const path = join(folder, 'secret')
    writeFileSync(path, 'old', { mode: 0o644 })
    writeFileAtomic(path, 'new', 0o600)
    expect(readFileSync(path, 'utf8')).toBe('new')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(folder)).toEqual(['secret'])
  })

  test('a log is set aside only once it is over the limit', () => {
    const path = join(temporaryFolder(), 'x.log')
    writeFileSync(path, '12345')
    rotateLog(path, 5)
    expect(existsSync(`${path}.1`)).toBe(false)
    rotateLog(path, 4)
    expect(existsSync(path)).toBe(false)
    expect(readFileSync(`${path}.1`, 'utf8')).toBe('12345')
  })

  test('programs are found beside sources and beside the build', () => {
    expect(existsSync(join(projectRoot(), 'temporal-dev.yml'))).toBe(true)
    expect(programFile('./worker', 'file:///app/src/main.ts')).toBe('/app/src/worker.ts')
    expect(programFile('./worker', 'file:///app/dist/main.js')).toBe('/app/dist/worker.js')
  })
})
