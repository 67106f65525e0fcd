export interface Counts {
  readonly passed: number
  readonly failed: number
  /** Tests that this machine cannot run, or that the caller's arguments left out. */
  readonly skipped: number
}

interface JestResults {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numRuntimeErrorTestSuites: number
}

/**
 * Reads Jest's JSON results. A test file that could not run counts as one failed test. Missing results count as one
 * failed test. If no test failed but the exit code is not 0, this counts as one failed test too.
 */
export function countResults(json: string | null, exitCode: number): Counts {
  let results: JestResults
  try {
    results = JSON.parse(json ?? '') as JestResults
  } catch {
    return { passed: 0, failed: 1, skipped: 0 }
  }
  const failed = results.numFailedTests + results.numRuntimeErrorTestSuites
  return {
    passed: results.numPassedTests,
    failed: failed === 0 && exitCode !== 0 ? 1 : failed,
    skipped: results.numPendingTests,
  }
}

/** Returns the last line of `npm test`. The line names skipped tests only if there are any. */
export const lastLine = ({ passed, failed, skipped }: Counts): string =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
