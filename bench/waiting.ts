import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { changeGovernance } from '../src/governance/rules/settings.ts'
import { createRule } from '../src/governance/rules/rules.ts'
import { createWorkflowEngine } from '../src/governance/delivery/workflow-engine.ts'
import { temporalSender } from '../src/governance/delivery/relay.ts'
import { startRunner } from '../src/governance/lanes/runner.ts'
import { acceptRun } from '../src/governance/runs/start/accept.ts'
import { createWorkflow } from '../src/governance/workflows/workflows.ts'
import { ruleInput } from '../src/governance/rules/rule-kinds.ts'
import { createContext } from '../src/programs/create-context.ts'
import { readConfig } from '../src/shared/config.ts'
import { hasSearchAttributes } from '../src/shared/temporal.ts'
import { createTemporalClient } from '../src/shared/temporal.ts'
import { startGuard } from '../src/stack/guard.ts'
import { startTemporal } from '../src/stack/temporal.ts'
import type { Caller } from '../src/governance/access/identity.ts'
import type { Context } from '../src/governance/context.ts'
import { newCaller } from './support/caller.ts'
import { heldMemory, probed } from './support/held-memory.ts'
import { withPostgres, type BenchPostgres } from './support/postgres.ts'
import { machine, say } from './support/report.ts'

const mebibyte = 1024 * 1024
/** Number of runs that end before the first measurement, so that the worker has reached its usual size. */
const warmUp = 2_000
const waiting = 1_000
const mostMiB = 20
/** The worker has no work for this many seconds, while its processor time is counted. */
const idleSeconds = 20

/**
 * Measures how much more memory the worker uses if runs wait for a person. Also measures the processor time of the
 * worker while nothing happens.
 */
export async function run(): Promise<void> {
  say(`waiting: ${waiting} runs that wait for an approval; ${machine()}`)
  await withPostgres(measured)
}

async function measured(postgres: BenchPostgres): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'countersign-bench-'))
  const probes = mkdtempSync(join(tmpdir(), 'countersign-probes-'))
  const guard = startGuard(dataDir, { remove: true })
  const temporal = await startTemporal({ dataDir, port: 0, uiPort: 0 })
  const environment = {
    DATABASE_URL: postgres.appUrl,
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: temporal.namespace,
    DATA_ENCRYPTION_KEY: Buffer.alloc(32).toString('base64'),
    LOG_LEVEL: 'warn',
  }
  const config = readConfig(environment)
  const context = createContext(config, 'api')
  const client = createTemporalClient(config.temporal)
  const caller = await newCaller(context)
  const attributes = () => hasSearchAttributes(client, context.log)
  const relay = startRunner(context, [temporalSender(context, createWorkflowEngine(client), attributes)])
  context.onOutbox = () => relay.kick('temporal')
  const flags = ['--max-semi-space-size=16', '--no-allocation-site-pretenuring', 'src/programs/worker.ts']
  const worker = spawn(process.execPath, flags, {
    env: { ...process.env, ...environment, ...probed(probes) },
    stdio: 'inherit',
  })
  try {
    const start = await runOfOneStep(context, caller)
    const pid = worker.pid as number
    await startRuns(start, warmUp)
    await reached(context, 'runs', 'completed', warmUp)
    await holdFirstSteps(context, caller)
    const before = await memoryOf(probes, pid)
    const idleBefore = await idleTime(pid)
    await startRuns(start, waiting)
    await reached(context, 'approvals', 'pending', waiting)
    const after = await memoryOf(probes, pid)
    const idleAfter = await idleTime(pid)
    const more = after.heaps - before.heaps
    const resident = after.resident - before.resident
    say(`  heaps: ${before.heaps.toFixed(1)} and ${after.heaps.toFixed(1)} MiB, ${more.toFixed(1)} more`)
    say(
      `  resident: ${before.resident.toFixed(1)} and ${after.resident.toFixed(1)} MiB, ${resident.toFixed(1)} more`,
    )
    say(`  goal: less than ${mostMiB} MiB more resident: ${resident < mostMiB ? 'holds' : 'MISSED'}`)
    say(`  processor time in ${idleSeconds} idle seconds: ${idleBefore} and ${idleAfter} ms`)
  } finally {
    worker.kill()
    await new Promise((resolve) => worker.once('exit', resolve))
    await relay.stop()
    await client.connection.close()
    await context.close()
    await temporal.stop()
    await guard.close()
    rmSync(probes, { recursive: true, force: true })
  }
}

/** Creates a workflow of one quick step, and returns a function that starts a run of it. */
async function runOfOneStep(context: Context, caller: Caller): Promise<() => Promise<unknown>> {
  const { id } = await createWorkflow(context, caller, {
    name: 'waits',
    description: '',
    definition: { steps: [{ id: 's', tool: 'memory_set', params: { key: 'k', value: 1 } }] },
  })
  return () => acceptRun(context, { caller, workflowId: id, inputs: {} })
}

/** Makes the step of each later run wait for an approval. */
async function holdFirstSteps(context: Context, caller: Caller): Promise<void> {
  await changeGovernance(context, caller, { approvals_enabled: true })
  const rule = { name: 'ask', verdict: 'require_approval', tools: ['memory_set'] }
  await createRule(context, 'rule', caller, ruleInput.parse(rule))
}

async function startRuns(start: () => Promise<unknown>, count: number): Promise<void> {
  for (let begun = 0; begun < count; begun += 50)
    await Promise.all(Array.from({ length: Math.min(50, count - begun) }, start))
}

/** Waits until at least `count` rows of the table have the status. */
async function reached(
  context: Context,
  table: 'runs' | 'approvals',
  status: 'completed' | 'pending',
  count: number,
): Promise<void> {
  for (;;) {
    const row = await context.db
      .selectFrom(table)
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('status', '=', status)
      .executeTakeFirstOrThrow()
    if (row.count >= count) return
    await delay(200)
  }
}

async function memoryOf(probes: string, pid: number): Promise<{ heaps: number; resident: number }> {
  const { main, threads, resident } = await heldMemory(probes, pid)
  const heaps = [main, ...threads].reduce((sum, { used }) => sum + used, 0)
  return { heaps: heaps / mebibyte, resident: resident / mebibyte }
}

/** Measures the milliseconds of processor time that a process uses in `idleSeconds`. */
async function idleTime(pid: number): Promise<number> {
  const ticks = (): number => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return Number(fields[11]) + Number(fields[12])
  }
  const before = ticks()
  await delay(idleSeconds * 1_000)
  return (ticks() - before) * 10
}
