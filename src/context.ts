import type { Kysely } from 'kysely'
import type pg from 'pg'
import type { Config } from './config.ts'
import { createDatabase, createPool } from './db/connect.ts'
import { createPipeline } from './db/pipelined.ts'
import type { Database } from './db/schema/index.ts'
import { createCombiner, type Combiner } from './governance/combiner.ts'
import { createNotifier, type Notifier } from './governance/notifier.ts'
import { createRates, type Rates } from './governance/rates/rates.ts'
import { createShares, type Shares } from './governance/shares.ts'
import { createSealer, type Sealer } from './governance/sealing/sealer.ts'
import { createLog, type Log } from './log.ts'
import { createMetrics, type Metrics } from './metrics.ts'

/** What every transaction of `governance` needs; one per process. */
export interface Context {
  readonly config: Config
  readonly log: Log
  readonly pool: pg.Pool
  readonly db: Kysely<Database>
  readonly combiner: Combiner
  readonly notifier: Notifier
  readonly sealer: Sealer
  readonly rates: Rates
  readonly shares: Shares
  readonly metrics: Metrics
  /** When this process last met an audit log that holds what the service did not write; `performance.now()`. */
  auditAlarmAt: number | null
  /** Called after a commit that wrote outbox rows; the relay sets it. */
  onOutbox: () => void
  close(): Promise<void>
}

export type ProcessKind = 'api' | 'worker' | 'tool'

/** A program has one log: whoever logs before it has a context passes it on. */
export function createContext(
  config: Config,
  kind: ProcessKind,
  log = createProcessLog(config, kind),
): Context {
  for (const warning of config.warnings) log.warn(warning)
  const pool = createPool({
    url: config.database.url,
    appRole: config.database.appRole,
    applicationName: `countersign-${kind}`,
    onError: (error) => log.warn({ err: error }, 'a database connection was lost'),
  })
  const db = createDatabase(pool, { prepare: config.database.prepare })
  const notifier = createNotifier({ config, pool, log })
  const close = async (): Promise<void> => {
    await notifier.close()
    // Lost with a database that is away, like those of a process that dies.
    await context.rates.close().catch(() => undefined)
    await pool.end()
  }
  let closed: Promise<void> | undefined
  const context: Context = {
    config,
    log,
    pool,
    db,
    notifier,
    sealer: createSealer({ db, installationKeys: config.encryptionKeys, log }),
    rates: createRates(db),
    shares: createShares(),
    metrics: createMetrics(kind),
    combiner: createCombiner({
      pipeline: createPipeline(pool, { prepare: config.database.prepare }),
      onForeignEntry: (organizationId, seq) => {
        context.auditAlarmAt = performance.now()
        log.error(
          { organization_id: organizationId, seq },
          `ALARM: the audit log of ${organizationId} holds an entry ${seq} that this service did not write; nothing of ` +
            'this organization can be saved until it is set aside: verify the chain',
        )
      },
      onCommitted: (touched, outboxWritten) => {
        notifier.touch(touched)
        if (outboxWritten) context.onOutbox()
      },
    }),
    auditAlarmAt: null,
    onOutbox: () => {},
    close: () => (closed ??= close()),
  }
  return context
}

export function createProcessLog(config: Config, kind: ProcessKind): Log {
  return createLog({
    level: config.logLevel,
    process: kind,
    processId: config.processId,
    folder: config.logFolder,
  })
}
