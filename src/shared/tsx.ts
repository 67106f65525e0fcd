import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire, registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'

/*
 * Node reads TypeScript, but no JSX. This module lets Node import the `.tsx` files of `src`. Import it before them, and
 * them with `import()`. In `dist` they are JavaScript, and nothing is registered.
 */

const require = createRequire(import.meta.url)
const options = {
  configFile: false,
  swcrc: false,
  module: { type: 'es6' },
  jsc: {
    target: 'es2024',
    parser: { syntax: 'typescript', tsx: true },
    transform: { verbatimModuleSyntax: true, react: { runtime: 'automatic', importSource: 'preact' } },
  },
} as const satisfies import('@swc/core').Options
const kept = fileURLToPath(new URL('../../node_modules/.cache/tsx/', import.meta.url))

if (import.meta.url.endsWith('.ts'))
  registerHooks({
    load: (url, context, next) =>
      url.endsWith('.tsx')
        ? { format: 'module', source: javaScriptOf(fileURLToPath(url)), shortCircuit: true }
        : next(url, context),
  })

/**
 * The JavaScript of each file is kept below its hash, so that a process loads the compiler (40 MB) only after a change.
 */
function javaScriptOf(path: string): string {
  const text = readFileSync(path, 'utf8')
  const { version } = require('@swc/core/package.json') as { version: string }
  const file = `${kept}${hashOf(path)}.js`
  const first = `// ${hashOf(JSON.stringify([version, options, text]))}\n`
  try {
    const found = readFileSync(file, 'utf8')
    if (found.startsWith(first)) return found
  } catch {
    // Not compiled yet.
  }
  const { transformSync } = require('@swc/core') as typeof import('@swc/core')
  const made = first + transformSync(text, { ...options, filename: path }).code
  keep(file, made)
  return made
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** If the folder cannot be written, the next process compiles again. */
function keep(file: string, text: string): void {
  const own = `${file}.${process.pid}`
  try {
    mkdirSync(kept, { recursive: true })
    writeFileSync(own, text)
    renameSync(own, file)
  } catch {
    return
  }
}
