import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import '../../src/shared/tsx.ts'

/*
 * Jest's worker loads this file before its first test file. A worker runs its test files in plain Node, with one module
 * graph for all of them (docs/decisions/0275), so `@jest/globals` is our own module there. Test files may import `.tsx`.
 */

const globals = new URL('jest-globals.ts', import.meta.url).href

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === '@jest/globals' ? { url: globals, shortCircuit: true } : next(specifier, context),
})

/** One byte is added to this file for each module of ours that a worker loads (scripts/evaluations.ts). */
const counted = process.env['EVALUATIONS']
if (counted !== undefined) {
  registerHooks({
    load: (url, context, next) => {
      if (url.startsWith('file:') && !url.includes('/node_modules/')) appendFileSync(counted, '.')
      return next(url, context)
    },
  })
}
