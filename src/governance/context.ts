import type pg from 'pg'
import type { WriteRefusal } from '../db/errors.ts'
import type { Db } from '../db/schema/index.ts'
import type { Config } from '../shared/config.ts'
import type { Joined } from '../shared/joined.ts'
import type { Log } from '../shared/log.ts'
import type { Metrics } from '../shared/metrics.ts'
import type { SparseLog } from '../shared/sparse-log.ts'
import type { TokenCache } from '../shared/outgoing/token-cache.ts'
import type { Outgoing } from '../shared/outgoing/outgoing.ts'
import type { KeyLookup } from './access/identity.ts'
import type { SessionCache } from './access/session-cache.ts'
import type { AuditAlarms } from './audit/alarms.ts'
import type { Checkpoints } from './audit/checkpoints.ts'
import type { Combiner } from './audit/combiner.ts'
import type { ExportPlaces } from './audit/export.ts'
import type { Verifier } from './audit/verify.ts'
import type { Rates } from './limits/rates.ts'
import type { Shares } from './limits/request-shares.ts'
import type { LoadBudget } from './runs/values/load-budget.ts'
import type { Notifier } from './waking/notifier.ts'
import type { RunCaches } from './runs/values/run-caches.ts'
import type { Sealer } from './sealing/sealer.ts'
import type { Secrets } from './sealing/secrets-backend.ts'

/** The services that transactions of `governance` use. Each process has one such object. */
export interface Context {
  readonly config: Config
  readonly log: Log
  readonly sparseLog: SparseLog
  readonly pool: pg.Pool
  readonly db: Db
  readonly combiner: Combiner
  readonly verifier: Verifier
  readonly checkpoints: Checkpoints
  /** Limits how many exports of an audit log are sent at the same time. */
  readonly exports: ExportPlaces
  readonly notifier: Notifier
  readonly sealer: Sealer
  readonly secrets: Secrets
  readonly outgoing: Outgoing
  /**
   * Keeps access tokens of service accounts, in memory only. If a token is lost, this process can request a new one.
   */
  readonly accessTokens: TokenCache
  readonly rates: Rates
  readonly shares: Shares
  /** Event streams of this process that need the same data at the same time share one read (run-events.ts). */
  readonly looks: Joined
  readonly metrics: Metrics
  readonly keys: KeyLookup
  readonly agentSessions: SessionCache
  readonly runCaches: RunCaches
  /** The memory and the parsers that all uploads of this process share (files/uploads.ts). */
  readonly uploads: { readonly memory: LoadBudget; readonly parsers: LoadBudget }
  /** The chains that this process has found changed, until a check finds them right again. */
  readonly auditAlarms: AuditAlarms
  /**
   * The last time when this process found an audit entry that the service did not write. The value comes from
   * `performance.now()`. Is null if the process never found this.
   */
  auditAlarmAt: number | null
  /**
   * True if Temporal did not answer when this process last asked (delivery/temporal-watch.ts). Only API processes ask.
   */
  isTemporalAway: boolean
  /**
   * The last time when the database answered but refused to write, for example because its disk was full. `at` comes
   * from `performance.now()`. Is null if the database never refused to write.
   */
  writeTrouble: { readonly at: number; readonly reason: WriteRefusal } | null
  /** Called after a commit that wrote outbox rows. The relay sets this function. */
  onOutbox: () => void
  close(): Promise<void>
}
