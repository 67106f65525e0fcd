import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, test } from '@jest/globals'
import { identify, isRunning } from '../../src/stack/process-identity.ts'

describe('process identity', () => {
  test('names this process with its command line, the same every time', () => {
    const me = identify(process.pid)
    expect(me?.command).toContain(process.argv[1] ?? 'no file')
    expect(identify(process.pid)).toEqual(me)
  })

  test('a process that has ended has none', async () => {
    const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], {
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    const found = identify(child.pid ?? 0)
    if (found === null) throw new Error('the child is not there')
    expect(isRunning(found)).toBe(true)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(identify(found.pid)).toBeNull()
    expect(isRunning(found)).toBe(false)
  })

  test.each([
    ['another start time', { startedAt: '1' }],
    ['another boot', { boot: 'earlier' }],
  ])('%s makes the same pid another process', (_, change) => {
    const me = identify(process.pid)
    if (me === null) throw new Error('this process is not there')
    expect(isRunning({ ...me, ...change })).toBe(false)
  })
})
