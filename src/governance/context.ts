import type pg from 'pg'
import type { WriteRefusal } from '../db/errors.ts'
import type { Db } from '../db/schema/index.ts'
import type { Config } from '../shared/config.ts'
import type { Joined } from '../shared/joined.ts'
import type { Log, SparseLog } from '../shared/log.ts'
import type { Metrics } from '../shared/metrics.ts'
import type { TokenCache } from '../shared/outgoing/token-cache.ts'
import type { Outgoing } from '../shared/outgoing/outgoing.ts'
import type { KeyLookup, SessionCache } from './access/identity.ts'
import type { AuditAlarms } from './audit/alarms.ts'
import type { Checkpoints } from './audit/checkpoints.ts'
import type { Combiner } from './audit/combiner.ts'
import type { ExportPlaces } from './audit/export.ts'
import type { Verifier } from './audit/verify.ts'
import type { Rates } from './limits/rates.ts'
import type { Shares } from './limits/shares.ts'
import type { Notifier } from './waking/notifier.ts'
import type { RunCaches } from './runs/values/run-caches.ts'
import type { Sealer } from './sealing/sealer.ts'
import type { Secrets } from './sealing/secrets-backend.ts'

/** What transactions use. Each process has one. */
export interface Context {
  readonly config: Config
  readonly log: Log
  readonly sparseLog: SparseLog
  readonly pool: pg.Pool
  readonly db: Db
  readonly combiner: Combiner
  readonly verifier: Verifier
  readonly checkpoints: Checkpoints
  readonly exports: ExportPlaces
  readonly notifier: Notifier
  readonly sealer: Sealer
  readonly secrets: Secrets
  readonly outgoing: Outgoing
  /** Tokens of service accounts, in memory only. A lost one is requested again. */
  readonly accessTokens: TokenCache
  readonly rates: Rates
  readonly shares: Shares
  /** Event streams that need the same data share one read (run-events.ts). */
  readonly looks: Joined
  readonly metrics: Metrics
  readonly keys: KeyLookup
  readonly agentSessions: SessionCache
  readonly runCaches: RunCaches
  /** Until a check finds them right again. */
  readonly auditAlarms: AuditAlarms
  /** When this process last found an entry that the service did not write, by `performance.now()`. */
  auditAlarmAt: number | null
  /** Temporal did not answer when this process last asked (`watchTemporal`). Only API processes ask. */
  isTemporalAway: boolean
  /** The last time when the database refused to write, because of a full disk or so, by `performance.now()`. */
  writeTrouble: { readonly at: number; readonly reason: WriteRefusal } | null
  /** After a commit that wrote messages to Temporal. The programs set it. */
  onOutbox: () => void
  close(): Promise<void>
}

/* What most functions need of it. */

export type Reading = Pick<Context, 'db'>
export type Configured = Pick<Context, 'config' | 'db'>
export type Changing = Pick<Context, 'combiner' | 'config' | 'db'>
/** Opens sealed values. */
export type Unsealing = Pick<Context, 'config' | 'db' | 'sealer'>
export type ReadingRuns = Pick<Context, 'config' | 'db' | 'runCaches'>
export type UnsealingRuns = ReadingRuns & Unsealing
export type ChangingRuns = Changing & UnsealingRuns
export type Telling = Pick<Context, 'log' | 'metrics' | 'sparseLog'>
