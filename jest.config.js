export default {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  // Not in TMPDIR, which is a new folder for every `npm test`.
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
  extensionsToTreatAsEsm: ['.ts'],
  moduleFileExtensions: ['ts', 'js', 'json', 'node'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: { target: 'es2024', parser: { syntax: 'typescript' } },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  // Modules of test files that have ended stay in the process: with gigabytes of them each full collection takes seconds.
  workerIdleMemoryLimit: '1GB',
  // For what hangs alone: a loaded machine is several times slower than a free one, and the waits of tests
  // (test/stack/until.ts) give up well before this, with a word on what they waited for.
  testTimeout: 480_000,
}
