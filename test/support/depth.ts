/*
 * `npm run test:deep` sets TEST_DEPTH. Then the test files that import this module use their full counts: of random
 * cases, of minutes, of versions. `npm test` uses small ones.
 */

const isDeep = process.env['TEST_DEPTH'] === 'deep'

/** Returns the second value in `npm run test:deep`, otherwise the first one. */
export const byDepth = <Value>(usual: Value, deep: Value): Value => (isDeep ? deep : usual)
