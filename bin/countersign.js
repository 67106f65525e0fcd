#!/usr/bin/env node
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/*
 * The command `countersign`. It runs a program of src/programs with the Node.js of this package, because older versions
 * of Node.js do not run TypeScript.
 */

const programs = { 'verify-audit': '../src/programs/verify-audit.ts' }

const [name = '', ...args] = process.argv.slice(2)
const program = Object.hasOwn(programs, name) ? programs[name] : undefined
if (program === undefined) {
  process.stderr.write(`usage: countersign ${Object.keys(programs).join('|')} ...\n`)
  process.exit(2)
}
const own = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url))
const { status, error } = spawnSync(
  existsSync(own) ? own : process.execPath,
  [fileURLToPath(new URL(program, import.meta.url)), ...args],
  { stdio: 'inherit' },
)
if (error !== undefined) process.stderr.write(`error: ${error.message}\n`)
process.exitCode = status ?? 1
