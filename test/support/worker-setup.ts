import { registerHooks } from 'node:module'

/*
 * Jest's worker loads this file before its first test file. A worker runs its test files in plain Node, with one module
 * graph for all of them, so `@jest/globals` is our own module there.
 */

const globals = new URL('jest-globals.ts', import.meta.url).href

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === '@jest/globals' ? { url: globals, shortCircuit: true } : next(specifier, context),
})

process.on('exit', (code) => console.error(`DEBUG worker exit ${code}`))
process.on('unhandledRejection', (error) => console.error('DEBUG unhandled', error))
