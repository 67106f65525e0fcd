import { closeSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { projectRoot } from '../../src/shared/project-root.ts'
import { programFile, serverLog, writeFileAtomic } from '../../src/stack/files.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { until } from './until.ts'

describe('files', () => {
  test('an atomic write sets the requested mode, whatever existed before, and leaves no draft', () => {
    const folder = temporaryFolder()
    const path = join(folder, 'secret')
    writeFileSync(path, 'old', { mode: 0o644 })
    writeFileAtomic(path, 'new', 0o600)
    expect(readFileSync(path, 'utf8')).toBe('new')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(folder)).toEqual(['secret'])
  })

  test('programs are found beside the sources and beside the build', () => {
    expect(existsSync(join(projectRoot(), 'temporal-dev.yml'))).toBe(true)
    expect(programFile('./worker', 'file:///app/src/main.ts')).toBe('/app/src/worker.ts')
    expect(programFile('./worker', 'file:///app/dist/main.js')).toBe('/app/dist/worker.js')
  })
})

describe('the log of a server', () => {
  test('is set aside and emptied while the server goes on writing to it', async () => {
    const folder = join(temporaryFolder(), 'logs')
    const { path, file, from, stop } = serverLog(folder, 'postgres', { limit: 100, every: 5 })
    expect([from, statSync(path).mode & 0o777]).toEqual([0, 0o600])
    writeSync(file, 'x'.repeat(101))
    await until('it is set aside', () => existsSync(`${path}.1`) && statSync(path).size === 0)
    writeSync(file, 'next\n')
    expect(readFileSync(path, 'utf8')).toBe('next\n')
    expect(readFileSync(`${path}.1`, 'utf8')).toBe('x'.repeat(101))
    stop()
    closeSync(file)
  })

  test('of the last start is set aside at the next one if it is too large', () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'temporal.log'), 'old'.repeat(50))
    const { path, file, from, stop } = serverLog(folder, 'temporal', { limit: 100 })
    expect([from, readFileSync(`${path}.1`, 'utf8')]).toEqual([0, 'old'.repeat(50)])
    stop()
    closeSync(file)
  })
})
