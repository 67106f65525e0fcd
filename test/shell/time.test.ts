import { expect, test } from '@jest/globals'
import { classifyCommand } from '../../src/shell/classify.ts'
import { cpuMilliseconds } from '../policy/cpu-time.ts'
import { hostile } from './hostile.ts'
import { rowsOf } from './rows.ts'

/*
 * 5 ms are the goal, which `npm run bench shell` measures. Here only growth is caught: a reader that takes quadratic time
 * for one of these takes hundreds of milliseconds, whatever else the machine does.
 */
const allowed = 60

test('no text takes long', () => {
  // What is compiled only on the way costs once.
  for (const { command } of rowsOf('corpus')) classifyCommand(command)
  for (const text of Object.values(hostile)) classifyCommand(text)
  for (const [name, text] of Object.entries(hostile)) {
    const times = [1, 2, 3].map(() => cpuMilliseconds(() => classifyCommand(text)))
    expect([name, Math.min(...times) < allowed]).toEqual([name, true])
  }
})
