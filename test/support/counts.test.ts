import { describe, expect, test } from '@jest/globals'
import { countResults } from './counts.ts'

const results = (passed: number, failed: number, broken: number) =>
  JSON.stringify({ numPassedTests: passed, numFailedTests: failed, numRuntimeErrorTestSuites: broken })

describe('the last line of `npm test`', () => {
  test.each([
    ['all well', results(3, 0, 0), 0, { passed: 3, failed: 0 }],
    ['a failed test', results(3, 1, 0), 1, { passed: 3, failed: 1 }],
    ['a file that could not run', results(3, 1, 2), 1, { passed: 3, failed: 3 }],
    ['an exit code without a failed test', results(3, 0, 0), 1, { passed: 3, failed: 1 }],
    ['nothing ran', results(0, 0, 0), 0, { passed: 0, failed: 0 }],
    ['no results', null, 0, { passed: 0, failed: 1 }],
    ['results that broke off', '{"numPassedTests": 3', 0, { passed: 0, failed: 1 }],
  ])('%s', (_name, json, code, expected) => {
    expect(countResults(json, code)).toEqual(expected)
  })
})
