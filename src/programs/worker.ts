import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { slackSender } from '../activities/notify/chat.ts'
import { createEngineActivities } from '../activities/engine.ts'
import { callSlots } from '../governance/limits/shares.ts'
import { createPolicyInterceptor } from '../activities/policy-interceptor.ts'
import { createToolActivities } from '../activities/attempt.ts'
import { isEndMessage } from '../contract/messages.ts'
import type { Config } from '../shared/config.ts'
import { readProcessConfig } from './check-settings.ts'
import { createContext, createProcessLog, createMailer } from './create-context.ts'
import type { Context } from '../governance/context.ts'
import { endAtUncaught, failStart, orFail } from './fail.ts'
import { expireDue } from '../governance/approvals/expire.ts'
import { clockSender, every } from '../governance/lanes/clock.ts'
import { clock } from '../governance/lanes/lanes.ts'
import { startRunner } from '../governance/lanes/runner.ts'
import { beat, leave, prune } from '../governance/upkeep/housekeeping.ts'
import { countSegments } from '../governance/audit/list.ts'
import { gatherMoves, recount } from '../governance/limits/storage-counters.ts'
import { removeSecrets } from '../governance/connections/secret-removals.ts'
import { webhookSender } from '../governance/webhooks/deliver.ts'
import { fanOut } from '../governance/webhooks/fan-out.ts'
import { removeOldDeliveries } from '../governance/webhooks/upkeep.ts'
import { removeOldFirings } from '../governance/triggers/firings.ts'
import { removeOldReruns } from '../governance/runs/start/reruns.ts'
import { rerunSender } from '../governance/runs/start/rerun-turns.ts'
import { triggerSender } from '../governance/triggers/schedule.ts'
import { longestWaitsTeller } from '../governance/upkeep/state-metrics.ts'
import { removeOldData } from '../governance/upkeep/retention.ts'
import { checkInstallation } from '../governance/upkeep/installation.ts'
import { planNotifications } from '../governance/notifications/plan.ts'
import { planMail } from '../governance/notifications/plan-mail.ts'
import { mailSender } from '../governance/notifications/send-mail.ts'
import { planSlack } from '../governance/notifications/plan-slack.ts'
import { createWorkflowEngine, type WorkflowEngine } from '../governance/delivery/workflow-engine.ts'
import { reconcile } from '../governance/delivery/reconciler.ts'
import { temporalSender, type AttributesCheck } from '../governance/delivery/relay.ts'
import { endCancelled, FailedRuns } from '../governance/runs/end/end-cancelled.ts'
import { hasSearchAttributes, connectionOptions, createTemporalClient } from '../shared/temporal.ts'
import { isError, wordsOf, type Log } from '../shared/log.ts'
import { serveMetrics } from '../api/http-server.ts'
import { exitWithParent, signalReady } from '../stack/parent.ts'
import { workflowBundlePath } from './workflow-bundle.ts'

/** Runs workflows, decides about and makes their tool calls, delivers the outbox, and reconciles with Temporal. */
export interface RunningWorker {
  stop(): Promise<void>
}

/** In a measurement on two cores, fixed slots and autoscaled pollers were the fastest. */
export const workerTuning = {
  maxConcurrentActivityTaskExecutions: callSlots,
  // Quick calls leave 40 of these slots free for the engine's own local activities.
  maxConcurrentLocalActivityExecutions: callSlots + 40,
  // A run keeps its slot while it executes quick calls (up to 4 s), so there must be enough for other runs too.
  maxConcurrentWorkflowTaskExecutions: 120,
  workflowTaskPollerBehavior: { type: 'autoscaling' },
  activityTaskPollerBehavior: { type: 'autoscaling' },
  // A cached workflow takes about 45 KiB of the heaps, also while it waits for a person: 18 MiB for 400. One that is
  // not cached is replayed when it wakes. By default, the SDK derives the number from V8's heap limit.
  maxCachedWorkflows: 400,
  // How long a run waits for another worker if its own is dead. Go and Java have five seconds too, this SDK ten.
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
  const engine = createWorkflowEngine(client)
  const runner = startRunner(context, [
    clockSender(context, recurringTasks(context, engine, attributes), {
      ...clock,
      reconcile: config.reconcileSeconds,
    }),
    temporalSender(context, engine, attributes),
    slackSender(context),
    mailSender(context, createMailer(config)),
    webhookSender(context),
    triggerSender(context, createMailer(config)),
    rerunSender(context),
  ])
  context.onOutbox = () => runner.kick('temporal')
  const tasks = [
    every(context, 'heartbeat', 5, () => beat(context, 'worker')),
    every(context, 'keeping checkpoints of audit logs', 30, () => context.checkpoints.keep({ sweep: true })),
  ]
  const running = worker.run()
  context.metrics.beforeScrape(async () => measureSlots(context.metrics, workerTuning, worker.getStatus()))
  const metrics = config.workerMetrics && (await serveMetrics(context.metrics, config.workerMetrics))
  const { address, namespace, taskQueue } = config.temporal
  context.log.info({ address, namespace, task_queue: taskQueue }, 'the worker polls for work')
  return {
    async stop() {
      worker.shutdown()
      await running
      metrics?.close()
      await Promise.all(tasks.map((task) => task.stop()))
      await runner.stop()
      await leave(context).catch(() => {})
      await connection.close()
      await client.connection.close()
      await context.close()
    },
  }
}

function recurringTasks(context: Context, engine: WorkflowEngine, attributes: AttributesCheck) {
  const { config, db, log } = context
  const planners = [planSlack, planMail(config)]
  const failedCancellations = new FailedRuns()
  return {
    reconcile: () => reconcile(context, engine, attributes, config.reconcileSeconds),
    expiry: () => expireDue(context),
    'ending cancelled runs': () => endCancelled(context, { failed: failedCancellations }),
    'removing secrets of revoked connections': () => removeSecrets(context),
    'planning messages': () => planNotifications(context, planners),
    'writing deliveries to webhooks': () => fanOut(context),
    'removing old deliveries of webhooks': () => removeOldDeliveries(db),
    'removing old firings of triggers': () => removeOldFirings(db),
    'removing old reruns': () => removeOldReruns(db),
    prune: () => prune(db),
    retention: () => removeOldData(context),
    'gathering changes of stored sizes': () => gatherMoves(db),
    'counting audit entries': () => countSegments(db),
    'counting stored sizes': () => recount(db, log),
    'naming what waits longest': longestWaitsTeller(context),
  }
}

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

/** The SDK's message up to the first quoted value, the error (`loggedError`), ids and the activity's type. */
export function temporalLogger(log: Log): DefaultLogger {
  return new DefaultLogger('WARN', ({ level, message, meta = {} }) => {
    const { error, workflowId, activityType, runId: temporalRunId } = meta as Record<string, unknown>
    // The SDK warns about every workflow that fails. A run that failed or was denied is no problem of the worker.
    if (message === 'Workflow failed' && isError(error) && isEndMessage(error.message)) return
    const about = {
      ...(isError(error) ? { err: error } : {}),
      ...(typeof workflowId === 'string' ? { workflow_id: workflowId } : {}),
      ...(typeof activityType === 'string' ? { activity: activityType } : {}),
      ...(typeof temporalRunId === 'string' ? { temporal_run_id: temporalRunId } : {}),
    }
    if (level === 'ERROR') log.error(about, `Temporal: ${wordsOf(message)}`)
    else log.warn(about, `Temporal: ${wordsOf(message)}`)
  })
}

async function main(): Promise<void> {
  const config = orFail(() => readProcessConfig(['FILE_ROOT', 'LOG_DIR', 'AUDIT_CHECKPOINT_DIR']))
  const log = createProcessLog(config, 'worker')
  endAtUncaught(log)
  Runtime.install({
    logger: temporalLogger(log),
    // `exitWithParent` handles the signals, so that everything stops in order.
    shutdownSignals: [],
    // A workflow task that fails is tried again without end. The SDK only warns about this in its workflow module.
    telemetryOptions: {
      logging: { forward: {}, filter: 'ERROR,temporalio_sdk_core::worker::workflow=WARN' },
    },
  })
  let worker: RunningWorker | undefined
  // Before the start: a worker that waits for Temporal or the database must also end with its supervisor.
  exitWithParent(() => worker?.stop())
  worker = await startWorker(config, log).catch(failStart)
  signalReady()
}

if (import.meta.main) await main()

interface Slots {
  readonly maxConcurrentActivityTaskExecutions: number
  readonly maxConcurrentLocalActivityExecutions: number
  readonly maxConcurrentWorkflowTaskExecutions: number
}

type Status = Pick<
  ReturnType<Worker['getStatus']>,
  | 'numInFlightNonLocalActivities'
  | 'numInFlightLocalActivities'
  | 'numInFlightWorkflowActivations'
  | 'numCachedWorkflows'
>

/** Tool calls (`activity`), local activities and workflow tasks have separate slots. */
export function measureSlots(
  { workerSlots, cachedWorkflows }: Pick<Context['metrics'], 'workerSlots' | 'cachedWorkflows'>,
  slots: Slots,
  status: Status,
): void {
  const kinds = [
    ['activity', status.numInFlightNonLocalActivities, slots.maxConcurrentActivityTaskExecutions],
    ['local_activity', status.numInFlightLocalActivities, slots.maxConcurrentLocalActivityExecutions],
    ['workflow', status.numInFlightWorkflowActivations, slots.maxConcurrentWorkflowTaskExecutions],
  ] as const
  for (const [kind, used, all] of kinds) {
    workerSlots.set({ kind, state: 'used' }, used)
    workerSlots.set({ kind, state: 'free' }, Math.max(0, all - used))
  }
  cachedWorkflows.set(status.numCachedWorkflows)
}
