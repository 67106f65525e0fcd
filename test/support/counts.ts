export interface Counts {
  readonly passed: number
  readonly failed: number
}

interface JestResults {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numRuntimeErrorTestSuites: number
}

/**
 * Reads Jest's JSON results. A file that could not run counts as one failed test. Missing results also count as one
 * failed test, and so does an exit code of failure without a failed test.
 */
export function countResults(json: string | null, exitCode: number): Counts {
  let results: JestResults
  try {
    results = JSON.parse(json ?? '') as JestResults
  } catch {
    return { passed: 0, failed: 1 }
  }
  const failed = results.numFailedTests + results.numRuntimeErrorTestSuites
  return { passed: results.numPassedTests, failed: failed === 0 && exitCode !== 0 ? 1 : failed }
}
