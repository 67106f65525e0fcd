import type { AddressInfo } from 'node:net'
import { createApp } from './api/app.ts'
import { createHttpServer } from './api/http-server.ts'
import { temporalCheck } from './api/temporal-check.ts'
import { readTlsKeyPair } from './api/tls.ts'
import { readConfig } from './config.ts'
import { createContext } from './context.ts'
import { failStart, orFail } from './fail.ts'
import { checkAuditTriggers } from './governance/audit-triggers.ts'
import { forgetOldKeys } from './governance/idempotency.ts'
import { checkInstallation } from './governance/installation.ts'
import { createMotor } from './governance/motor.ts'
import { forgetEndedSignIns, recordAccountEvents } from './governance/people/account-events.ts'
import { startRelay } from './governance/relay.ts'
import { hasSearchAttributes } from './search-attributes.ts'
import { exitWithParent, signalReady } from './stack/parent.ts'
import { createMailer } from './mailer.ts'
import { createTemporalClient } from './temporal.ts'

/*
 * The API process: stateless, in any number. It stops in this order: no new connections; waiting calls and streams are
 * told to answer what they have; what is under way is finished; then the database connections close.
 */

const cleaningMilliseconds = 3_600_000
const recordingMilliseconds = 10_000

const config = orFail(() => readConfig())
const tls = orFail(() => config.http.tls && readTlsKeyPair(config.http.tls))
const context = createContext(config, 'api')
const draining = new AbortController()
const client = createTemporalClient(config.temporal)
// What this process commits is told to Temporal at once; whatever it cannot tell, any relay does later.
const relay = startRelay(context, createMotor(client, config.temporal), () =>
  hasSearchAttributes(client, context.log),
)
const server = createHttpServer(
  createApp(context, {
    temporal: temporalCheck(client.connection),
    draining: draining.signal,
    mail: createMailer(config),
  }),
  tls,
)
const cleaning = every(cleaningMilliseconds, 'old keys and sign-ins were not forgotten', () =>
  Promise.all([forgetOldKeys(context), forgetEndedSignIns(context)]),
)
// What an answered request could not append itself, or a crash left behind.
const recording = every(recordingMilliseconds, 'what happened to accounts is not in the audit log yet', () =>
  recordAccountEvents(context),
)

checkInstallation(context).catch(failStart)

exitWithParent(async () => {
  clearInterval(cleaning)
  clearInterval(recording)
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  draining.abort()
  // A connection is idle, and can be closed, once its last answer has gone out.
  const closing = setInterval(() => server.closeIdleConnections(), 50)
  await closed
  clearInterval(closing)
  await relay.stop()
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

/** Does something again and again; a failure is a line of the log, and the next time comes. */
function every(milliseconds: number, failure: string, act: () => Promise<unknown>): NodeJS.Timeout {
  return setInterval(() => {
    act().catch((error: Error) => context.log.warn({ err: error.message }, failure))
  }, milliseconds)
}
