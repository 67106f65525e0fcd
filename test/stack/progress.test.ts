import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { createSteps } from '../../src/stack/progress.ts'

afterEach(() => {
  jest.useRealTimers()
})

describe('progress', () => {
  test('a slow step is announced after a second, repeated later, and closed with its duration', async () => {
    jest.useFakeTimers()
    const lines: string[] = []
    const work = Promise.withResolvers<string>()
    const done = createSteps((line) => lines.push(line))('Temporal', () => work.promise)
    jest.advanceTimersByTime(999)
    expect(lines).toEqual([])
    jest.advanceTimersByTime(1)
    expect(lines).toEqual(['Temporal ... (1.0 s)'])
    jest.advanceTimersByTime(15_000)
    expect(lines.at(-1)).toBe('Temporal ... (16.0 s)')
    work.resolve('result')
    await expect(done).resolves.toBe('result')
    expect(lines.at(-1)).toBe('Temporal: done (16.0 s)')
    jest.advanceTimersByTime(60_000)
    expect(lines).toHaveLength(3)
  })

  test('a failed step is not called done', async () => {
    const lines: string[] = []
    const step = createSteps((line) => lines.push(line))
    await expect(step('PostgreSQL', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(lines).toEqual([])
  })
})
