import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { hookFile } from '../test/adapters/adapter-files.ts'
import { selfSigned } from '../test/support/self-signed.ts'
import { machine, median, say } from './support/report.ts'

// The path of the real interpreter. `python3` on PATH may be a launcher, whose start takes ten times as long as the
// start of the interpreter.
const python = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
  encoding: 'utf8',
}).trim()
const rounds = 60
const allowed = JSON.stringify({
  decision: 'allow',
  reason: 'no rule matched',
  decision_id: 'dec_1',
  labels: [],
})
const event = JSON.stringify({
  session_id: 'bench',
  hook_event_name: 'PreToolUse',
  tool_name: 'Bash',
  tool_input: { command: 'ls -l' },
  tool_use_id: 'toolu_1',
})

/**
 * Compares the time of one hook call with the time of a start of Python that runs nothing. Each measurement runs a
 * whole process. A server replaces the service and allows every call immediately, because other benchmarks measure the
 * service. The benchmark fails if the hook does not allow a call.
 */
export async function run(): Promise<void> {
  const version = execFileSync(python, ['--version'], { encoding: 'utf8' }).trim()
  say(`hook: whole processes, medians of ${rounds} interleaved rounds; ${version}, ${machine()}`)
  let asked = 0
  const answer: RequestListener = (request, response) => {
    request.resume().once('end', () => {
      asked += 1
      response.setHeader('Content-Type', 'application/json').end(allowed)
    })
  }
  const pair = { key: readFileSync(selfSigned.keyFile), cert: readFileSync(selfSigned.certFile) }
  const [plain, sealed] = [createHttpServer(answer), createHttpsServer(pair, answer)]
  const ports = [await portOf(plain), await portOf(sealed)]
  const pre = ['-I', '-S', hookFile, 'pre', '--dialect', 'claude']
  const env = { PATH: process.env['PATH'], SERVICE_API_KEY: 'csk_bench', SSL_CERT_FILE: selfSigned.certFile }
  const sides = [
    () => milliseconds(['-I', '-S', '-c', 'pass'], env),
    () => milliseconds(pre, { ...env, SERVICE_API_URL: `http://127.0.0.1:${ports[0]}` }),
    () => milliseconds(pre, { ...env, SERVICE_API_URL: `https://localhost:${ports[1]}` }),
  ]
  const times: number[][] = sides.map(() => [])
  for (let round = 0; round < rounds; round += 1) {
    for (const [side, measure] of sides.entries()) times[side]?.push(await measure())
  }
  if (asked !== 2 * rounds) throw new Error(`${asked} calls were asked about, expected ${2 * rounds}`)
  const [bare = 0, http = 0, tls = 0] = times.map((each) => median(each))
  for (const [what, taken, goal] of [
    ['http', http, 4],
    ['TLS', tls, 8],
  ] as const) {
    const ratio = taken / bare
    const verdict = ratio <= goal ? 'holds' : 'MISSED'
    say(
      `  over ${what}: ${taken.toFixed(1)} ms against ${bare.toFixed(1)} ms of \`python3 -I -S -c pass\`, ` +
        `${ratio.toFixed(2)} x (goal at most ${goal} x: ${verdict})`,
    )
  }
  for (const server of [plain, sealed]) {
    server.closeAllConnections()
    server.close()
  }
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function milliseconds(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const began = performance.now()
  const child = spawn(python, [...args], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.on('data', (data: Buffer) => (said += data.toString()))
  child.stdin.on('error', () => {
    // Without the hook, Python does not read its standard input, so writing to it can fail.
  })
  child.stdin.end(event)
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0 || said !== '') throw new Error(`exit code ${code}: ${said}`)
  return performance.now() - began
}
