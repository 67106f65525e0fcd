import type pg from 'pg'
import { randomUUID } from 'node:crypto'
import { createDatabase, createPool, createPipeline } from '../db/connect.ts'
import { createKeyLookup, createSessionCache } from '../governance/access/identity.ts'
import { AuditAlarms } from '../governance/audit/alarms.ts'
import { Checkpoints } from '../governance/audit/checkpoints.ts'
import { createCombiner, type Combiner } from '../governance/audit/combiner.ts'
import { countEntries, logEntries, logGranted } from '../governance/audit/log-lines.ts'
import { ExportPlaces } from '../governance/audit/export.ts'
import { Verifier } from '../governance/audit/verify.ts'
import type { Context } from '../governance/context.ts'
import { createRates } from '../governance/limits/rates.ts'
import { createJoined } from '../shared/joined.ts'
import { createShares } from '../governance/limits/shares.ts'
import { Notifier } from '../governance/waking/notifier.ts'
import { createRunCaches } from '../governance/runs/values/run-caches.ts'
import { measureState } from '../governance/upkeep/state-metrics.ts'
import { createKeyring } from '../governance/sealing/keyring.ts'
import { sealerOf } from '../governance/sealing/sealer.ts'
import { createEntryMacs, type EntryMacs } from '../governance/audit/entry-macs.ts'
import { createSecrets } from '../governance/sealing/secrets.ts'
import type { Config } from '../shared/config.ts'
import { createSparseLog, createLog, type Log } from '../shared/log.ts'
import { lostLines } from '../shared/log-file.ts'
import { createMetrics, type Metrics } from '../shared/metrics.ts'
import { createOutgoing } from '../shared/outgoing/outgoing.ts'
import { createTokenCache } from '../shared/outgoing/token-cache.ts'
import { composeMail } from '../tools/mail/message.ts'
import { parseSmtpUrl } from '../tools/mail/smtp-url.ts'
import { deliver } from '../tools/mail/smtp.ts'
import type { ServiceMail } from '../governance/service-mail.ts'

type ProcessKind = 'api' | 'worker' | 'tool'

/** A process must have only one log, so a caller that has already made one passes it. */
export function createContext(
  config: Config,
  kind: ProcessKind,
  log = createProcessLog(config, kind),
  { readOnly = false }: { readonly readOnly?: boolean } = {},
): Context {
  for (const warning of config.warnings) log.warn(warning)
  const metrics = createMetrics(kind)
  countLostLines(metrics)
  const pool = createPool({
    url: config.database.url,
    appRole: config.database.appRole,
    applicationName: `countersign-${kind}`,
    readOnly,
    onError: (error) => {
      metrics.lostConnections.inc()
      log.warn({ err: error }, 'a database connection was lost')
    },
  })
  const db = createDatabase(pool, { prepare: config.database.prepare })
  const notifier = new Notifier({ config, pool, log })
  const close = async (): Promise<void> => {
    await notifier.close()
    // The last entries. If this fails, a sweep of another process makes them later.
    await context.checkpoints.keep().catch((error: unknown) => {
      log.warn({ err: error }, 'the last checkpoints of the audit log were not kept')
    })
    // Gives back requests that were taken in advance (rates.ts). If that fails, they are lost, as after a crash.
    await context.rates.close().catch(() => undefined)
    await context.outgoing.close()
    context.secrets.close()
    await pool.end()
  }
  const keyring = createKeyring({ db, installationKeys: config.encryptionKeys, log })
  const sealer = sealerOf(keyring)
  const macs = createEntryMacs(keyring)
  const sparseLog = createSparseLog(log)
  const auditAlarms = processAlarms(metrics, log)
  let closed: Promise<void> | undefined
  const context: Context = {
    config,
    log,
    sparseLog,
    pool,
    db,
    notifier,
    sealer,
    secrets: createSecrets(config.secrets, sealer),
    outgoing: createOutgoing({
      hosts: config.connections.hosts,
      onUnreachable: (host, why) =>
        sparseLog.warn(`outgoing ${host}`, { host }, `\`${host}\` could not be reached: ${why}`),
    }),
    accessTokens: createTokenCache(),
    rates: createRates(db),
    shares: createShares(),
    looks: createJoined(),
    metrics,
    keys: createKeyLookup(db),
    agentSessions: createSessionCache(),
    runCaches: createRunCaches(),
    combiner: processCombiner(pool, config, macs, () => context),
    verifier: new Verifier(),
    checkpoints: new Checkpoints({
      db,
      macs,
      encryptionKeys: config.encryptionKeys,
      folder: config.checkpointFolder,
      log,
      alarms: auditAlarms,
    }),
    auditAlarms,
    exports: new ExportPlaces(),
    auditAlarmAt: null,
    isTemporalAway: false,
    writeTrouble: null,
    onOutbox: () => {},
    close: () => (closed ??= close()),
  }
  measureState(context)
  return context
}

function countLostLines(metrics: Metrics): void {
  metrics.beforeScrape(async () => {
    metrics.lostLines.reset()
    for (const [to, count] of Object.entries(lostLines)) metrics.lostLines.inc({ to }, count)
  })
}

function processCombiner(pool: pg.Pool, config: Config, macs: EntryMacs, context: () => Context): Combiner {
  return createCombiner({
    macs,
    pipeline: createPipeline(pool, { prepare: config.database.prepare }),
    onForeignEntry: (organizationId, seq) => {
      context().auditAlarmAt = performance.now()
      context().log.error(
        { organization_id: organizationId, seq },
        `ALARM: the audit log of ${organizationId} has an entry ${seq} that this service did not write; nothing of ` +
          'this organization can be saved until it is set aside: verify the chain',
      )
    },
    onCommitted: ({ organizationId, touched, outboxWritten, runEnded, granted, head, base, entries }) => {
      if (entries > 0) context().checkpoints.note(organizationId, head, base)
      context().notifier.touch(touched, runEnded)
      if (outboxWritten) context().onOutbox()
      logGranted(context().log, organizationId, granted)
    },
    onEntries: (organizationId, drafts) => {
      const requestOf = (runId: string) => context().runCaches.snapshots.get(runId)?.requestId ?? null
      countEntries(context().metrics, drafts)
      logEntries(context().log, organizationId, drafts, requestOf)
    },
    onTransaction: (operations, milliseconds) => {
      context().metrics.batchSize.observe(operations)
      context().metrics.lockSeconds.observe(milliseconds / 1_000)
    },
    onFailed: (reason) => {
      context().metrics.failedBatches.inc({ reason })
      if (reason !== 'disk_full' && reason !== 'read_only') return
      context().writeTrouble = { at: performance.now(), reason }
      context().sparseLog.warn(`writes ${reason}`, { reason }, 'the database refuses to write')
    },
  })
}

function processAlarms(metrics: Metrics, log: Log): AuditAlarms {
  const alarms = new AuditAlarms({
    onAlarm: (organizationId, problem) =>
      log.error(
        { organization_id: organizationId },
        `ALARM: the audit log of ${organizationId} is not proven: ${problem}; verify the chain`,
      ),
  })
  metrics.beforeScrape(async () => metrics.auditAlarms.set(alarms.count))
  return alarms
}

export function createProcessLog(config: Config, kind: ProcessKind): Log {
  return createLog({
    level: config.logLevel,
    process: kind,
    processId: config.processId,
    folder: config.logFolder,
  })
}

/**
 * Sends a mail of the service itself, from `MAIL_FROM` through `SMTP_URL`. Resolves if the mail server has certainly
 * accepted it. Otherwise the person can ask again, and a second copy does no harm. Awaits `beforeDot` before the final
 * dot, after which the mail server may deliver.
 */
export function createMailer({
  tools,
}: Pick<Config, 'tools'>): (mail: ServiceMail, beforeDot?: () => Promise<void>) => Promise<void> {
  return async ({ to, subject, text }, beforeDot = async () => {}) => {
    const server = parseSmtpUrl(tools.smtpUrl)
    const message = await composeMail(
      { params: { to, subject, text: text.plain }, idempotencyKey: randomUUID() },
      tools.mailFrom,
    )
    await deliver(server, message, { signal: AbortSignal.timeout(60_000), pointOfNoReturn: beforeDot })
  }
}
