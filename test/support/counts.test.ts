import { describe, expect, test } from '@jest/globals'
import { countResults, lastLine } from './counts.ts'

const results = (passed: number, failed: number, broken: number, skipped = 0) =>
  JSON.stringify({
    ...{ numPassedTests: passed, numFailedTests: failed },
    ...{ numPendingTests: skipped, numRuntimeErrorTestSuites: broken },
  })

describe('the last line of `npm test`', () => {
  test.each([
    ['all well', results(3, 0, 0), 0, { passed: 3, failed: 0 }],
    ['a skipped test', results(3, 0, 0, 2), 0, { passed: 3, failed: 0, skipped: 2 }],
    ['a failed test', results(3, 1, 0), 1, { passed: 3, failed: 1 }],
    ['a file that could not run', results(3, 1, 2), 1, { passed: 3, failed: 3 }],
    ['an exit code without a failed test', results(3, 0, 0), 1, { passed: 3, failed: 1 }],
    ['nothing ran', results(0, 0, 0), 0, { passed: 0, failed: 0 }],
    ['no results', null, 0, { passed: 0, failed: 1 }],
    ['results that broke off', '{"numPassedTests": 3', 0, { passed: 0, failed: 1 }],
  ])('%s', (_name, json, code, expected) => {
    expect(countResults(json, code)).toEqual({ skipped: 0, ...expected })
  })

  test('says what was skipped', () => {
    expect(lastLine({ passed: 3, failed: 0, skipped: 0 })).toBe('3 passed, 0 failed')
    expect(lastLine({ passed: 3, failed: 1, skipped: 2 })).toBe('3 passed, 1 failed, 2 skipped')
  })
})
