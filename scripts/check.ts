import { spawn } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * `npm run check [part...]`: runs the checks of the code that need no running service. Without `part`, runs all of
 * them. Each part is a program, and two programs run at a time. Prints the name and time of each part, and the output
 * of failed parts. Exits with 1 if a part failed, and with 2 if there is no such part.
 */

const root = fileURLToPath(new URL('..', import.meta.url))
const atATime = 2

const node = (script: string): string[] => ['node', join('scripts', script)]

/** The checks and their commands. Slow checks come first. */
const parts: Readonly<Record<string, readonly string[]>> = {
  format: ['prettier', '--check', '--cache', '.'],
  types: ['tsc', '-p', 'tsconfig.json'],
  lint: ['oxlint', '--type-aware', '--deny-warnings'],
  'dead code': ['knip', '--no-config-hints'],
  boundaries: node('boundaries.ts'),
  'openapi.json': node('openapi-check.ts'),
  'lock file': node('lockfile.ts'),
  links: node('links.ts'),
  sql: node('raw-sql.ts'),
}

interface Ended {
  readonly code: number
  readonly output: string
}

function run([program = '', ...args]: readonly string[]): Promise<Ended> {
  const path = [join(root, 'node_modules', '.bin'), process.env['PATH']].join(delimiter)
  const child = spawn(program, args, {
    cwd: root,
    env: { ...process.env, PATH: path, FORCE_COLOR: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return new Promise((resolve) => {
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (output += text))
    }
    child.once('error', (error) => resolve({ code: 1, output: `${program}: ${error.message}\n` }))
    child.once('close', (code) => resolve({ code: code ?? 1, output }))
  })
}

async function check(name: string): Promise<boolean> {
  const began = performance.now()
  const { code, output } = await run(parts[name] ?? [])
  const seconds = ((performance.now() - began) / 1_000).toFixed(1)
  if (code !== 0) process.stdout.write(output)
  process.stdout.write(`${code === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)\n`)
  return code === 0
}

const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => parts[name] === undefined)
if (unknown.length > 0) {
  const names = Object.keys(parts).map((name) => `\`${name}\``)
  process.stderr.write(`no such part: \`${unknown.join('`, `')}\`; there are ${names.join(', ')}\n`)
  process.exit(2)
}
const waiting = wanted.length > 0 ? wanted : Object.keys(parts)
let failed = 0
const lane = async (): Promise<void> => {
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
    if (!(await check(name))) failed += 1
  }
}
await Promise.all(Array.from({ length: atATime }, lane))
process.exitCode = failed === 0 ? 0 : 1
