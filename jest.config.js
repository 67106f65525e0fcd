export default {
  // Runs the test files of a worker in plain Node with one module graph: a module is evaluated once for each worker, and
  // not once for each of the test files. So test files of a worker share what modules keep (docs/decisions/0275).
  runner: 'jest-light-runner/child-process',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  // Not in TMPDIR, which is a new folder for every `npm test`.
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
  extensionsToTreatAsEsm: ['.ts', '.tsx'],
  moduleFileExtensions: ['ts', 'tsx', 'js', 'json', 'node'],
  testSequencer: '<rootDir>/test/support/sequencer.ts',
  reporters: ['<rootDir>/test/support/progress.ts'],
  setupFiles: ['<rootDir>/test/support/worker-setup.ts'],
}
