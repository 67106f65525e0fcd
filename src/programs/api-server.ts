import type { AddressInfo } from 'node:net'
import { createApp } from '../api/app.ts'
import { createHttpServer, serveMetrics, readTlsKeyPair } from '../api/http-server.ts'
import { readProcessConfig } from './check-settings.ts'
import { createContext, createMailer } from './create-context.ts'
import { endAtUncaught, failStart, orFail } from './fail.ts'
import { checkAuditTriggers } from '../governance/audit/triggers.ts'
import { clockSender, every } from '../governance/lanes/clock.ts'
import { startRunner, type Runner } from '../governance/lanes/runner.ts'
import { beat, leave } from '../governance/upkeep/housekeeping.ts'
import { forgetOldKeys } from '../governance/idempotency.ts'
import { checkInstallation } from '../governance/upkeep/installation.ts'
import { createWorkflowEngine, watchTemporal } from '../governance/delivery/workflow-engine.ts'
import { forgetEndedSignIns, recordAccountEvents } from '../governance/people/account-events.ts'
import { temporalSender } from '../governance/delivery/relay.ts'
import { endCancelled, FailedRuns } from '../governance/runs/end/end-cancelled.ts'
import { keepDefaultQueue } from '../governance/delivery/task-queue.ts'
import { hasSearchAttributes, createTemporalClient, temporalCheck } from '../shared/temporal.ts'
import { exitWithParent, signalReady } from '../stack/parent.ts'

/*
 * The API process. It is stateless, and any number may run. On a stop, it refuses new connections, waiting calls and
 * streams send their present state, all requests finish, and the database connections close.
 */

/**
 * Seconds. Workers read the queue's name in the database, because their own TEMPORAL_TASK_QUEUE may be that of one
 * organization. It is saved again and again, because the database may have been away before.
 */
const keepingSeconds = 60
/** Seconds. While a chain grows, a checkpoint must be made at least every minute. */
const checkpointSeconds = 30

const config = orFail(() => readProcessConfig(['LOG_DIR', 'AUDIT_CHECKPOINT_DIR']))
const tls = orFail(() => config.http.tls && readTlsKeyPair(config.http.tls))
const context = createContext(config, 'api')
endAtUncaught(context.log)
const draining = new AbortController()
const client = createTemporalClient(config.temporal)
const temporal = temporalCheck(client.connection)
const server = createHttpServer(
  createApp(context, { temporal, draining: draining.signal, mail: createMailer(config) }),
  tls,
)

// The tasks start only after the database has been checked.
let tasks: readonly { stop(): Promise<void> }[] = []
let runner: Runner | undefined
checkInstallation(context).then(
  () => {
    if (draining.signal.aborted) return
    const failedCancellations = new FailedRuns()
    const recurring = {
      // The worker does this too, but maybe none runs.
      'ending cancelled runs': () => endCancelled(context, { failed: failedCancellations }),
      'forgetting old keys and sign-ins': () =>
        Promise.all([forgetOldKeys(context.db), forgetEndedSignIns(context.db)]),
      // If a request could not append them, or a crash came first.
      'recording account events': () => recordAccountEvents(context),
    }
    // What this process commits for Temporal, it sends at once. What it cannot send, any process sends later.
    const attributes = () => hasSearchAttributes(client, context.log)
    runner = startRunner(context, [
      temporalSender(context, createWorkflowEngine(client), attributes),
      clockSender(context, recurring),
    ])
    context.onOutbox = () => runner?.kick('temporal')
    tasks = [
      every(context, 'heartbeat', 5, () => beat(context, 'api')),
      every(context, 'keeping the default task queue', keepingSeconds, () => keepDefaultQueue(context)),
      every(context, 'keeping checkpoints of audit logs', checkpointSeconds, () =>
        context.checkpoints.keep({ sweep: true }),
      ),
      every(context, 'looking at Temporal', 1, () => watchTemporal(context, temporal)),
    ]
  },
  // A process that is asked to stop right after its start closes the database connection during the check.
  (error: unknown) => draining.signal.aborted || failStart(error),
)

const metrics = config.metrics && serveMetrics(context.metrics, config.metrics)
metrics?.catch(() => failStart(new Error(`port ${config.metrics?.port} is in use: set METRICS_PORT`)))

exitWithParent(async () => {
  const stopped = Promise.all(tasks.map((task) => task.stop()))
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  draining.abort()
  // A connection becomes idle once its last answer has been sent.
  const closing = setInterval(() => server.closeIdleConnections(), 50)
  await closed
  clearInterval(closing)
  await stopped
  await runner?.stop()
  await leave(context).catch(() => {})
  ;(await metrics)?.close()
  await client.connection.close()
  await context.close()
})

server.once('error', (error: NodeJS.ErrnoException) => {
  const { host, port } = config.http
  failStart(error.code === 'EADDRINUSE' ? new Error(`port ${port} of ${host} is in use: set PORT`) : error)
})
server.listen(config.http.port, config.http.host, () => {
  const { port } = server.address() as AddressInfo
  context.log.info({ host: config.http.host, port }, 'the API answers')
  signalReady(port)
  void checkAuditTriggers(context.db, context.log)
})
