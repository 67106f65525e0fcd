import { expect, test } from '@jest/globals'
import { classifyCommand } from '../../src/shell/classify.ts'
import { cpuMilliseconds } from '../policy/cpu-time.ts'
import { hostile } from './hostile.ts'
import { rowsOf } from './rows.ts'

/*
 * The goal is 5 ms, which `npm run bench shell` measures. This test only finds quadratic growth. One of these texts
 * would then take hundreds of milliseconds, whatever else the machine does.
 */
const allowed = 60

test('no text takes long', () => {
  // Code that is compiled on first use must not be measured.
  for (const { command } of rowsOf('corpus')) classifyCommand(command)
  for (const text of Object.values(hostile)) classifyCommand(text)
  for (const [name, text] of Object.entries(hostile)) {
    const times = [1, 2, 3].map(() => cpuMilliseconds(() => classifyCommand(text)))
    expect([name, Math.min(...times) < allowed]).toEqual([name, true])
  }
})
