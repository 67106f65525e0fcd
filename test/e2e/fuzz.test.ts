import { spawn } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { Bootstrap } from '../../src/demo/client.ts'
import { planLimits } from '../../src/contract/plan-limits.ts'
import { asAdmin } from '../support/postgres.ts'
import { byDepth } from '../support/depth.ts'
import { stackHome, type StackHome, type StartedStack, startStack } from '../support/start-stack.ts'
import { fileURLToPath } from 'node:url'
import { installPythonPackages } from '../support/python-packages.ts'

const requirements = fileURLToPath(new URL('../fuzz/requirements.txt', import.meta.url))

/** The folder for PYTHONPATH that contains schemathesis. */
const ensureSchemathesis = (): Promise<string> => installPythonPackages(requirements, 'schemathesis')

/*
 * schemathesis makes requests from the published openapi.json: valid ones, and invalid ones of each kind that the
 * schema allows. No answer may be a 500, have an undocumented status, or break its schema. `npm test` sends few
 * requests of one role; FUZZ_EXAMPLES=400 npm run test:deep -- test/e2e/fuzz runs more than 50,000 cases. A failure prints the
 * curl command of its request.
 */

const examples = Number(process.env['FUZZ_EXAMPLES'] ?? byDepth(1, 4))
const seed = Number(process.env['FUZZ_SEED'] ?? 1)
interface Run {
  readonly role: 'owner' | 'admin' | 'member' | 'viewer'
  readonly phases: string
  /** Of `examples`. */
  readonly share: number
}
/** The owner reaches every route, so the systematic phase runs once for the owner. Other roles are refused earlier. */
const runs = byDepth<readonly Run[]>(
  [{ role: 'owner', phases: 'fuzzing', share: 1 }],
  [
    { role: 'owner', phases: 'coverage,fuzzing', share: 1 },
    { role: 'admin', phases: 'fuzzing', share: 0.5 },
    { role: 'member', phases: 'fuzzing', share: 0.5 },
    { role: 'viewer', phases: 'fuzzing', share: 0.5 },
  ],
)

let home: StackHome
let stack: StartedStack
let packages: string

beforeAll(async () => {
  packages = await ensureSchemathesis()
  home = stackHome()
  stack = await startStack({ dataDir: home.dataDir, env: { LOG_LEVEL: 'error' } })
  await keepQuotasOpen(stack.bootstrap<{ database_admin_url: string }>().database_admin_url)
})
afterAll(async () => {
  await stack?.stop()
  await home?.remove()
})

/** A limit for a program that hangs; a busy machine takes several minutes. */
const theirTime = Math.max(900, examples * 15) * 1_000

test.each(runs)('requests with a key of role $role', fuzzWith, theirTime)

async function fuzzWith({ role, phases, share }: Run): Promise<void> {
  const key = stack.bootstrap<Bootstrap>().users[role].api_key
  const { code, output } = await schemathesis([
    ...['run', `${stack.baseUrl}/openapi.json`, '--phases', phases, '--seed', String(seed)],
    ...[
      '--max-examples',
      String(Math.ceil(examples * share)),
      '--no-shrink',
      '--continue-on-failure',
      '--no-color',
    ],
    ...['--warnings', 'off', '--generation-database', 'none', '--header', `Authorization: Bearer ${key}`],
    ...['--checks', checks.join(',')],
    // A stream does not end, so it has no answer to check.
    ...['--exclude-path-regex', 'events$'],
  ])
  if (code !== 0) throw new Error(output.slice(-20_000))
  const cases = Number(/(\d[\d,]*) generated/.exec(output)?.[1]?.replaceAll(',', ''))
  if (process.env['FUZZ_EXAMPLES'] !== undefined) process.stderr.write(`fuzz: ${role}: ${cases} cases\n`)
  // schemathesis would also pass if it ran no tests.
  expect(cases).toBeGreaterThan(100)
  expect((await fetch(`${stack.baseUrl}/health`)).status).toBe(200)
}

/**
 * Whatever quota the fuzzer sets, the highest limits are stored: a refusal because of limits would hide all later
 * checks. `/quota` itself answers normally.
 */
async function keepQuotasOpen(adminUrl: string): Promise<void> {
  const highest = Object.entries(planLimits.enterprise).map(([name, given]) => [name, 100 * given])
  const overrides = JSON.stringify(Object.fromEntries(highest))
  await asAdmin(adminUrl, (client) =>
    client.query(`
      create function quotas_stay_open() returns trigger language plpgsql as $$
      begin
        new.quota_overrides := '${overrides}';
        return new;
      end $$;
      create trigger quotas_stay_open before insert or update on organizations
        for each row execute function quotas_stay_open();
      update organizations set name = name`),
  )
}

const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
]

function schemathesis(args: readonly string[]): Promise<{ code: number | null; output: string }> {
  const child = spawn('python3', ['-m', 'schemathesis.cli', ...args], {
    cwd: home.dataDir,
    env: {
      PATH: process.env['PATH'],
      HOME: home.dataDir,
      PYTHONPATH: packages,
      PYTHONDONTWRITEBYTECODE: '1',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output }))
  })
}
