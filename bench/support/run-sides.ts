import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Client } from '@temporalio/client'
import type { Context as ActivityContext } from '@temporalio/activity'
import {
  bundleWorkflowCode,
  DefaultLogger,
  NativeConnection,
  Runtime,
  Worker,
  type ActivityInterceptors,
} from '@temporalio/worker'
import { isIssuedCall } from '../../src/activities/attempt.ts'
import { createEngineActivities } from '../../src/activities/engine.ts'
import { createPolicyInterceptor } from '../../src/activities/policy-interceptor.ts'
import { readConfig } from '../../src/shared/config.ts'
import { createContext } from '../../src/programs/create-context.ts'
import type { Context } from '../../src/governance/context.ts'
import type { Caller } from '../../src/governance/access/identity.ts'
import { createWorkflowEngine, type WorkflowEngine } from '../../src/governance/delivery/workflow-engine.ts'
import { temporalSender } from '../../src/governance/delivery/relay.ts'
import { startRunner } from '../../src/governance/lanes/runner.ts'
import { acceptRun } from '../../src/governance/runs/start/accept.ts'
import { createWorkflow } from '../../src/governance/workflows/workflows.ts'
import { hasSearchAttributes, createTemporalClient } from '../../src/shared/temporal.ts'
import { startGuard } from '../../src/stack/guard.ts'
import { startTemporal } from '../../src/stack/temporal.ts'
import { workerTuning } from '../../src/programs/worker.ts'
import { workflowBundlePath } from '../../src/programs/workflow-bundle.ts'
import { newCaller } from './caller.ts'
import type { BenchPostgres } from './postgres.ts'

/** Each call of this function starts one run, and resolves when Temporal reports the end of this run. */
export type Start = () => Promise<void>

/**
 * Is called when a run has reached a moment, such as `memory_get begins`. For a bare run, `runId` is the id of its
 * workflow.
 */
export type Note = (runId: string, moment: string) => void

export interface Sides {
  /** Returns a function that starts a governed run with this many steps in sequence. */
  governed(steps: number): Promise<Start>
  bare(steps: number): Start
  /** Returns a function that starts a bare run whose steps are local activities. */
  bareLocal(steps: number): Start
  /** Sets the milliseconds that the body of each activity waits, on both sides. */
  setBodyMilliseconds(milliseconds: number): void
  /** From now on, `note` is called for moments of runs. */
  setNote(note: Note): void
  readonly context: Context
  /**
   * Returns the owner of the organization. `governed` must have been called before, because it creates the
   * organization.
   */
  caller(): Caller
}

/**
 * Runs `work` with both sides in this process, on one Temporal server. Each side has one worker with the product's
 * settings. The activities of both sides have the same body.
 */
export async function withSides(
  postgres: BenchPostgres,
  work: (sides: Sides) => Promise<void>,
): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('WARN'), shutdownSignals: [] })
  const dataDir = mkdtempSync(join(tmpdir(), 'countersign-bench-'))
  const guard = startGuard(dataDir, { remove: true })
  const temporal = await startTemporal({ dataDir, port: 0, uiPort: 0 })
  const config = readConfig({
    DATABASE_URL: postgres.appUrl,
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: temporal.namespace,
    DATA_ENCRYPTION_KEY: Buffer.alloc(32).toString('base64'),
    LOG_LEVEL: 'warn',
  })
  const context = createContext(config, 'worker')
  const client = createTemporalClient(config.temporal)
  const connection = await NativeConnection.connect({ address: temporal.address })
  const body = new Body()
  const starts = watchStarts(body.noted)
  const workers = await createWorkers(context, connection, body)
  const running = workers.map((worker) => worker.run())
  const attributes = () => hasSearchAttributes(client, context.log)
  const relay = startRunner(context, [
    temporalSender(context, starts.watch(createWorkflowEngine(client)), attributes),
  ])
  context.onOutbox = () => relay.kick('temporal')
  try {
    await work(sidesOf(context, client, starts.of, body))
  } finally {
    for (const worker of workers) worker.shutdown()
    await Promise.all(running)
    await relay.stop()
    await client.connection.close()
    await connection.close()
    await context.close()
    await temporal.stop()
    await guard.close()
  }
}

/** The body of every activity on both sides. `noted` calls the `note` that is set at that time. */
class Body {
  milliseconds = 0
  note: Note = () => {}
  readonly noted: Note = (runId, moment) => this.note(runId, moment)

  readonly run = async (): Promise<unknown> => {
    if (this.milliseconds > 0) await delay(this.milliseconds)
    return { output: { key: 'k', value: null } }
  }
}

/** Creates a worker of the product, and a worker for bare workflows. */
async function createWorkers(
  context: Context,
  connection: NativeConnection,
  { noted, run }: Body,
): Promise<Worker[]> {
  const { namespace, taskQueue } = context.config.temporal
  const common = { ...workerTuning, connection, namespace }
  return Promise.all([
    Worker.create({
      ...common,
      taskQueue,
      workflowBundle: { codePath: await workflowBundlePath() },
      activities: {
        ...createEngineActivities(context),
        memory_get: async (call: unknown) => {
          if (!isIssuedCall(call)) return false
          const { runId } = call.call
          noted(runId, 'body begins')
          const result = await run()
          noted(runId, 'body ends')
          return result
        },
      },
      interceptors: {
        activity: [noting(noted), createPolicyInterceptor(context)],
      },
    }),
    Worker.create({
      ...common,
      taskQueue: 'bare',
      workflowBundle: await bundleWorkflowCode({
        workflowsPath: fileURLToPath(new URL('./bare-workflow.ts', import.meta.url)),
      }),
      activities: { memory_get: run },
      interceptors: { activity: [noting(noted)] },
    }),
  ])
}

function sidesOf(
  context: Context,
  client: Client,
  started: (runId: string) => Promise<void>,
  body: Body,
): Sides {
  let caller: Caller | null = null
  return {
    context,
    caller: () => caller as Caller,
    setNote: (note) => {
      body.note = note
    },
    async governed(steps) {
      caller ??= await newCaller(context)
      return governed(context, client, caller, started, steps, body.noted)
    },
    bare: (steps) => () => bare(client, 'bareRun', steps),
    bareLocal: (steps) => () => bare(client, 'bareLocalRun', steps),
    setBodyMilliseconds: (milliseconds) => {
      body.milliseconds = milliseconds
    },
  }
}

async function bare(client: Client, workflow: string, steps: number): Promise<void> {
  await client.workflow.execute(workflow, {
    taskQueue: 'bare',
    workflowId: crypto.randomUUID(),
    args: [steps],
  })
}

/**
 * Tells the benchmark when the relay has started the workflow of a run. The benchmark asks Temporal for the result only
 * after this moment, so one request is enough.
 */
function watchStarts(note: Note) {
  const runs = new Map<string, PromiseWithResolvers<void>>()
  const entry = (runId: string): PromiseWithResolvers<void> => {
    const known = runs.get(runId) ?? Promise.withResolvers<void>()
    runs.set(runId, known)
    return known
  }
  return {
    of: (runId: string) => entry(runId).promise,
    watch: (motor: WorkflowEngine): WorkflowEngine => ({
      ...motor,
      async start(request) {
        note(request.input.runId, 'start asked')
        await motor.start(request)
        note(request.input.runId, 'start answered')
        entry(request.input.runId).resolve()
      },
    }),
  }
}

/** Notes when each activity of a run begins and ends in its worker. */
const noting =
  (note: Note) =>
  ({ info }: ActivityContext): ActivityInterceptors => ({
    inbound: {
      async execute(input, next) {
        const runId = info.workflowExecution?.workflowId ?? ''
        note(runId, `${info.activityType} begins`)
        try {
          return await next(input)
        } finally {
          note(runId, `${info.activityType} ends`)
        }
      },
    },
  })

async function governed(
  context: Context,
  client: Client,
  owner: Caller,
  started: (runId: string) => Promise<void>,
  steps: number,
  note: Note,
): Promise<Start> {
  const { id } = await createWorkflow(context, owner, {
    name: `bench ${crypto.randomUUID()}`,
    description: '',
    definition: {
      steps: Array.from({ length: steps }, (_, index) => ({
        id: `s${index}`,
        tool: 'memory_get',
        params: { key: 'k' },
        ...(index === 0 ? {} : { depends_on: [`s${index - 1}`] }),
      })),
    },
  })
  return async () => {
    const { runId } = await acceptRun(context, { caller: owner, workflowId: id, inputs: {} })
    note(runId, 'accepted')
    await started(runId)
    await client.workflow.getHandle(runId).result()
    note(runId, 'known ended')
  }
}
