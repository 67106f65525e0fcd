import type { AddressInfo } from 'node:net'
import { createApp } from '../api/app.ts'
import { createHttpServer } from '../api/http-server.ts'
import { serveMetrics } from '../api/metrics-server.ts'
import { temporalCheck } from '../api/temporal-check.ts'
import { readTlsKeyPair } from '../api/tls.ts'
import { readProcessConfig } from './check-settings.ts'
import { createContext } from './create-context.ts'
import { endAtUncaught, failStart, orFail } from './fail.ts'
import { checkAuditTriggers } from '../governance/audit/triggers.ts'
import { beat, every, leave } from '../governance/upkeep/housekeeping.ts'
import { forgetOldKeys } from '../governance/idempotency.ts'
import { checkInstallation } from '../governance/upkeep/installation.ts'
import { createWorkflowEngine, watchTemporal } from '../governance/delivery/workflow-engine.ts'
import { forgetEndedSignIns, recordAccountEvents } from '../governance/people/account-events.ts'
import { startRelay } from '../governance/delivery/relay.ts'
import { endCancelled, FailedRuns } from '../governance/runs/end/end-cancelled.ts'
import { keepDefaultQueue } from '../governance/delivery/task-queue.ts'
import { hasSearchAttributes } from '../shared/search-attributes.ts'
import { exitWithParent, signalReady } from '../stack/parent.ts'
import { createMailer } from './mailer.ts'
import { createTemporalClient } from '../shared/temporal-connection.ts'

/*
 * The API process. It is stateless, and any number of API processes may run. On a stop, the process first refuses new
 * connections. Waiting calls and streams then send their present state, and all requests finish. Last, the process
 * closes its database connections.
 */

const cleaningSeconds = 3_600
const recordingSeconds = 10
/**
 * Seconds between two saves of the default task queue's name in the database. Workers read the name there, because
 * their own TEMPORAL_TASK_QUEUE may be the queue of one organization. The name is saved again and again, because the
 * database may have been unreachable before.
 */
const keepingSeconds = 60
/** Seconds between two rounds of checkpoints. While a chain grows, a checkpoint must be made at least every minute. */
const checkpointSeconds = 30

const config = orFail(() => readProcessConfig(['LOG_DIR', 'AUDIT_CHECKPOINT_DIR']))
const tls = orFail(() => config.http.tls && readTlsKeyPair(config.http.tls))
const context = createContext(config, 'api')
endAtUncaught(context.log)
const draining = new AbortController()
const client = createTemporalClient(config.temporal)
// This relay tells Temporal at once about this process's commits. If it cannot deliver a message, the relay of any
// process delivers the message later.
const relay = startRelay(context, createWorkflowEngine(client), () =>
  hasSearchAttributes(client, context.log),
)
const temporal = temporalCheck(client.connection)
const server = createHttpServer(
  createApp(context, {
    temporal,
    draining: draining.signal,
    mail: createMailer(config),
  }),
  tls,
)

// The tasks start only after the database has been checked.
let tasks: readonly { stop(): Promise<void> }[] = []
checkInstallation(context).then(
  () => {
    if (draining.signal.aborted) return
    const failedCancellations = new FailedRuns()
    tasks = [
      every(context, 'forgetting old keys and sign-ins', cleaningSeconds, () =>
        Promise.all([forgetOldKeys(context.db), forgetEndedSignIns(context.db)]),
      ),
      every(context, 'heartbeat', 5, () => beat(context, 'api')),
      every(context, 'keeping the default task queue', keepingSeconds, () => keepDefaultQueue(context)),
      every(context, 'keeping checkpoints of audit logs', checkpointSeconds, () =>
        context.checkpoints.keep({ sweep: true }),
      ),
      // The worker also ends cancelled runs. The API does it too, in case no worker runs.
      every(context, 'ending cancelled runs', 1, () =>
        endCancelled(context, { failed: failedCancellations }),
      ),
      every(context, 'looking at Temporal', 1, () => watchTemporal(context, temporal)),
      // Records account events in the audit log if a request could not append them, or if a crash came first.
      every(context, 'recording account events', recordingSeconds, () => recordAccountEvents(context)),
    ]
  },
  // If the process is asked to stop right after its start, the database connection closes during the check. This error
  // is then expected.
  (error: unknown) => draining.signal.aborted || failStart(error),
)

const metrics = config.metrics && serveMetrics(context.metrics, config.metrics)
metrics?.catch(() => failStart(new Error(`port ${config.metrics?.port} is in use: set METRICS_PORT`)))

exitWithParent(async () => {
  const stopped = Promise.all(tasks.map((task) => task.stop()))
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  draining.abort()
  // Only idle connections can be closed, and a connection becomes idle once its last answer has been sent. So the
  // server tries again every 50 ms.
  const closing = setInterval(() => server.closeIdleConnections(), 50)
  await closed
  clearInterval(closing)
  await stopped
  await relay.stop()
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
