import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { createEngineActivities } from './activities/engine.ts'
import { createPolicyInterceptor } from './activities/policy-interceptor.ts'
import { createToolActivities } from './activities/tool-activities.ts'
import { readConfig, type Config } from './config.ts'
import { createContext, createProcessLog, type Context } from './context.ts'
import { endAtUncaught, failStart, orFail } from './fail.ts'
import { expireDue } from './governance/approvals/expire.ts'
import { beat, every, leave, prune } from './governance/housekeeping.ts'
import { gatherMoves, recount } from './governance/quotas/storage-counters.ts'
import { removeOldData } from './governance/retention.ts'
import { checkInstallation } from './governance/installation.ts'
import { createMotor } from './governance/motor.ts'
import { reconcile } from './governance/reconcile.ts'
import { startRelay } from './governance/relay.ts'
import { endCancelled } from './governance/runs/end-cancelled.ts'
import { hasSearchAttributes } from './search-attributes.ts'
import { isError, wordsOf, type Log } from './log.ts'
import { exitWithParent, signalReady } from './stack/parent.ts'
import { connectionOptions, createTemporalClient } from './temporal.ts'
import { workflowBundlePath } from './workflow-bundle.ts'

/** A worker: carries runs on, decides and makes their tool calls, delivers the outbox, reconciles. */
export interface RunningWorker {
  stop(): Promise<void>
}

/** Fixed slots and autoscaled pollers: what did best on two cores (docs/benchmarks.md). */
export const workerTuning = {
  maxConcurrentActivityTaskExecutions: 100,
  maxConcurrentWorkflowTaskExecutions: 40,
  workflowTaskPollerBehavior: { type: 'autoscaling' },
  activityTaskPollerBehavior: { type: 'autoscaling' },
  // Some 0.2 MiB each while they wait, and a replay when they are woken after having been forgotten. The SDK's own number
  // follows from V8's limit, which no installation sets for that.
  maxCachedWorkflows: 1_000,
  // How long a run whose worker has died waits for it; the SDKs for Go and Java take the same, this one ten.
  stickyQueueScheduleToStartTimeout: '5s',
} as const

export async function startWorker(config: Config, log?: Log): Promise<RunningWorker> {
  const context = createContext(config, 'worker', log)
  await checkInstallation(context)
  const connection = await connectUntilThere(context)
  const client = createTemporalClient(config.temporal)
  const attributes = () => hasSearchAttributes(client, context.log)
  const worker = await Worker.create({
    connection,
    namespace: config.temporal.namespace,
    taskQueue: config.temporal.taskQueue,
    workflowBundle: { codePath: await workflowBundlePath() },
    activities: { ...createEngineActivities(context), ...createToolActivities() },
    interceptors: { activity: [createPolicyInterceptor(context)] },
    ...workerTuning,
    maxHeartbeatThrottleInterval: `${(config.heartbeatTimeoutSeconds * 1_000) / 3}ms`,
    shutdownGraceTime: '10s',
    shutdownForceTime: '18s',
  })
  const motor = createMotor(client)
  const relay = startRelay(context, motor, attributes)
  const tasks = [
    every(context, 'heartbeat', 5, () => beat(context, 'worker')),
    every(context, 'expiry', 1, () => expireDue(context)),
    every(context, 'reconcile', config.reconcileSeconds, () =>
      reconcile(context, motor, attributes, config.reconcileSeconds),
    ),
    every(context, 'ending cancelled runs', 1, () => endCancelled(context)),
    every(context, 'prune', 600, () => prune(context)),
    every(context, 'retention', 600, () => removeOldData(context)),
    every(context, 'gathering what organizations keep', 2, () => gatherMoves(context)),
    every(context, 'counting what organizations keep', 60, () => recount(context)),
  ]
  const running = worker.run()
  const { address, namespace, taskQueue } = config.temporal
  context.log.info({ address, namespace, task_queue: taskQueue }, 'the worker polls for work')
  return {
    async stop() {
      worker.shutdown()
      await running
      await Promise.all(tasks.map((task) => task.stop()))
      await relay.stop()
      await leave(context).catch(() => {})
      await connection.close()
      await client.connection.close()
      await context.close()
    },
  }
}

/** Temporal may come up after us: a worker waits for it, and says so. */
async function connectUntilThere(context: Context): Promise<NativeConnection> {
  for (;;) {
    try {
      return await NativeConnection.connect(connectionOptions(context.config.temporal))
    } catch (error) {
      context.log.warn({ err: error }, 'Temporal cannot be reached yet, trying again')
      await new Promise((resolve) => setTimeout(resolve, 1_000))
    }
  }
}

/** The SDK's warnings and errors, in our log: its words, the error as every error is logged, and no arguments. */
export function temporalLogger(log: Log): DefaultLogger {
  return new DefaultLogger('WARN', ({ level, message, meta = {} }) => {
    const { error, workflowId, activityType } = meta as Record<string, unknown>
    const about = {
      ...(isError(error) ? { err: error } : {}),
      ...(typeof workflowId === 'string' ? { workflow_id: workflowId } : {}),
      ...(typeof activityType === 'string' ? { activity: activityType } : {}),
    }
    if (level === 'ERROR') log.error(about, `Temporal: ${wordsOf(message)}`)
    else log.warn(about, `Temporal: ${wordsOf(message)}`)
  })
}

async function main(): Promise<void> {
  const config = orFail(() => readConfig())
  const log = createProcessLog(config, 'worker')
  endAtUncaught(log)
  Runtime.install({
    logger: temporalLogger(log),
    // Signals are ours: exitWithParent orders what stops when.
    shutdownSignals: [],
    telemetryOptions: { logging: { forward: {}, filter: 'ERROR' } },
  })
  let worker: RunningWorker | undefined
  // Before it has started: while it waits for Temporal or the database it must not outlive its supervisor either.
  exitWithParent(() => worker?.stop())
  worker = await startWorker(config, log).catch(failStart)
  signalReady()
}

if (import.meta.main) await main()
