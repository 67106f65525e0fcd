import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { forPeople, logFile, lostLines } from '../../src/shared/log-file.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'

describe('a log file', () => {
  test('is readable only by its owner, is appended to, and is set aside once it is too large', () => {
    const folder = join(temporaryFolder(), 'logs')
    const path = join(folder, 'api.log')
    const write = (line: string) => logFile(folder, 'api', 10).write(line)
    write('one\n')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    write('two-two-two\n')
    expect(readFileSync(path, 'utf8')).toBe('one\ntwo-two-two\n')
    write('three\n')
    expect(readFileSync(path, 'utf8')).toBe('three\n')
    expect(readFileSync(`${path}.1`, 'utf8')).toBe('one\ntwo-two-two\n')
  })

  test('a line that cannot be written is counted, and later ones are written again', () => {
    const folder = temporaryFolder()
    const file = logFile(folder, 'api', 3)
    const before = lostLines.file
    file.write('1234\n')
    // The next line cannot rename the full file, because a folder that is not empty has the new name.
    mkdirSync(join(folder, 'api.log.1', 'x'), { recursive: true })
    file.write('5678\n')
    expect(lostLines.file).toBe(before + 1)
    rmSync(join(folder, 'api.log.1'), { recursive: true })
    file.write('9\n')
    expect(lostLines.file).toBe(before + 1)
    expect(readFileSync(join(folder, 'api.log'), 'utf8')).toBe('9\n')
  })

  test('two processes that share a file set it aside once', () => {
    const folder = temporaryFolder()
    const [one, other] = [logFile(folder, 'tool', 3), logFile(folder, 'tool', 3)]
    for (const line of ['one 1\n', 'one 2\n']) one.write(line)
    for (const line of ['other 1\n', 'other 2\n']) other.write(line)
    const text = (name: string) => readFileSync(join(folder, name), 'utf8')
    expect([text('tool.log'), text('tool.log.1')]).toEqual(['one 2\nother 2\n', 'one 1\nother 1\n'])
  })

  test('logging continues in the new file', () => {
    const folder = temporaryFolder()
    const file = logFile(folder, 'worker', 3)
    for (const line of ['1234\n', '5678\n', '9\n']) file.write(line)
    expect(readFileSync(join(folder, 'worker.log'), 'utf8')).toBe('9\n')
    expect(readFileSync(join(folder, 'worker.log.1'), 'utf8')).toBe('5678\n')
  })
})

describe('for people', () => {
  const line = (entry: object) => forPeople(JSON.stringify({ time: 0, process: 'worker', ...entry }))

  test('information is left out; a warning or an error is one line with the reason', () => {
    expect(line({ level: 30, msg: 'the API answers' })).toBeNull()
    expect(line({ level: 40, msg: 'trying again', err: 'refused' })).toMatch(
      /^\d\d:\d\d:\d\d worker warning: trying again: refused\n$/,
    )
    expect(line({ level: 50, msg: 'a request failed', failure: 'a\n  b\u001b[31m', stack: 'at x' })).toMatch(
      /worker error: a request failed: a \| b \[31m\n$/,
    )
    expect(line({ level: 50, msg: 'm', err: { type: 'Error', message: 'why', stack: 's' } })).toMatch(
      /: m: why\n$/,
    )
  })
})
