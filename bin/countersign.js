#!/usr/bin/env node
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

/*
 * The command `countersign`. It runs the command line with the Node.js of this package, because older versions of
 * Node.js do not run TypeScript.
 */

const at = (path) => fileURLToPath(new URL(path, import.meta.url))
const own = at('../node_modules/.bin/node')
const child = spawn(
  existsSync(own) ? own : process.execPath,
  [at('../src/cli/main.ts'), ...process.argv.slice(2)],
  {
    stdio: 'inherit',
    env: { NODE_COMPILE_CACHE: at('../node_modules/.cache/compiled'), ...process.env },
  },
)
// A terminal sends Ctrl-C to both. The command line says what becomes of it.
process.on('SIGINT', () => {
  if (!process.stdin.isTTY) child.kill('SIGINT')
})
process.on('SIGTERM', () => child.kill('SIGTERM'))
child.once('error', (error) => {
  process.stderr.write(`error: ${error.message}\n`)
  process.exitCode = 1
})
child.once('exit', (code, signal) => {
  process.exitCode = code ?? 128 + (constants.signals[signal] ?? 0)
  if (signal === null) return
  // Ends by the same signal, so that a shell knows it. The first process of a container does not obey: it has the code.
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
})
