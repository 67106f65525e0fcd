import type { AddressInfo } from 'node:net'
import { createApp } from './api/app.ts'
import { createHttpServer } from './api/http-server.ts'
import { serveMetrics } from './api/metrics-server.ts'
import { temporalCheck } from './api/temporal-check.ts'
import { readTlsKeyPair } from './api/tls.ts'
import { readConfig } from './config.ts'
import { createContext } from './context.ts'
import { endAtUncaught, failStart, orFail } from './fail.ts'
import { checkAuditTriggers } from './governance/audit-triggers.ts'
import { every } from './governance/housekeeping.ts'
import { forgetOldKeys } from './governance/idempotency.ts'
import { checkInstallation } from './governance/installation.ts'
import { createMotor } from './governance/motor.ts'
import { forgetEndedSignIns, recordAccountEvents } from './governance/people/account-events.ts'
import { startRelay } from './governance/relay.ts'
import { endCancelled } from './governance/runs/end-cancelled.ts'
import { keepDefaultQueue } from './governance/task-queue.ts'
import { hasSearchAttributes } from './search-attributes.ts'
import { exitWithParent, signalReady } from './stack/parent.ts'
import { createMailer } from './mailer.ts'
import { createTemporalClient } from './temporal.ts'

/*
 * The API process: stateless, in any number. It stops in this order: no new connections; waiting calls and streams are
 * told to answer what they have; what is under way is finished; then the database connections close.
 */

const cleaningSeconds = 3_600
const recordingSeconds = 10
/** It changes with the configuration of the API processes alone; again, for a database that was away. */
const keepingSeconds = 60

const config = orFail(() => readConfig())
const tls = orFail(() => config.http.tls && readTlsKeyPair(config.http.tls))
const context = createContext(config, 'api')
endAtUncaught(context.log)
const draining = new AbortController()
const client = createTemporalClient(config.temporal)
// What this process commits is told to Temporal at once; whatever it cannot tell, any relay does later.
const relay = startRelay(context, createMotor(client), () => hasSearchAttributes(client, context.log))
const server = createHttpServer(
  createApp(context, {
    temporal: temporalCheck(client.connection),
    draining: draining.signal,
    mail: createMailer(config),
  }),
  tls,
)

// Not before the database is known to be ours and fit.
let tasks: readonly { stop(): Promise<void> }[] = []
checkInstallation(context).then(
  () => {
    if (draining.signal.aborted) return
    tasks = [
      every(context, 'forgetting old keys and sign-ins', cleaningSeconds, () =>
        Promise.all([forgetOldKeys(context), forgetEndedSignIns(context)]),
      ),
      every(context, 'keeping the default task queue', keepingSeconds, () => keepDefaultQueue(context)),
      // Also while no worker lives.
      every(context, 'ending cancelled runs', 1, () => endCancelled(context)),
      // What an answered request could not append itself, or a crash left behind.
      every(context, 'recording what happened to accounts', recordingSeconds, () =>
        recordAccountEvents(context),
      ),
    ]
  },
  // Told to stop right after its start it has closed the connection itself.
  (error: unknown) => draining.signal.aborted || failStart(error),
)

const metrics = config.metrics && serveMetrics(context.metrics, config.metrics)
metrics?.catch(() => failStart(new Error(`port ${config.metrics?.port} is in use: set METRICS_PORT`)))

exitWithParent(async () => {
  const stopped = Promise.all(tasks.map((task) => task.stop()))
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  draining.abort()
  // A connection is idle, and can be closed, once its last answer has gone out.
  const closing = setInterval(() => server.closeIdleConnections(), 50)
  await closed
  clearInterval(closing)
  await stopped
  await relay.stop()
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
  void checkAuditTriggers(context)
})
