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
 * Reads Jest's JSON results: a file that could not run counts as one failed test. So do results that are missing, and
 * an exit code that says failure when the results do not.
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
