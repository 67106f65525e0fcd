import type pg from 'pg'
import type { WriteRefusal } from '../db/errors.ts'
import type { Db } from '../db/schema/index.ts'
import type { Config } from '../shared/config.ts'
import type { Log } from '../shared/log.ts'
import type { Metrics } from '../shared/metrics.ts'
import type { SparseLog } from '../shared/sparse-log.ts'
import type { TokenCache } from '../shared/outgoing/token-cache.ts'
import type { Outgoing } from '../shared/outgoing/outgoing.ts'
import type { KeyLookup } from './access/identity.ts'
import type { SessionCache } from './access/session-cache.ts'
import type { Combiner } from './audit/combiner.ts'
import type { Rates } from './limits/rates.ts'
import type { Shares } from './limits/request-shares.ts'
import type { LoadBudget } from './runs/values/load-budget.ts'
import type { Notifier } from './waking/notifier.ts'
import type { RunCaches } from './runs/values/run-caches.ts'
import type { Sealer } from './sealing/sealer.ts'
import type { Secrets } from './sealing/secrets-backend.ts'

/** The services that transactions of `governance` use; one object per process. */
export interface Context {
  readonly config: Config
  readonly log: Log
  readonly sparseLog: SparseLog
  readonly pool: pg.Pool
  readonly db: Db
  readonly combiner: Combiner
  readonly notifier: Notifier
  readonly sealer: Sealer
  readonly secrets: Secrets
  readonly outgoing: Outgoing
  /** Access tokens that this process can make anew. */
  readonly accessTokens: TokenCache
  readonly rates: Rates
  readonly shares: Shares
  readonly metrics: Metrics
  readonly keys: KeyLookup
  readonly agentSessions: SessionCache
  readonly runCaches: RunCaches
  /** What the uploads of this process share (files/uploads.ts). */
  readonly uploads: { readonly memory: LoadBudget; readonly parsers: LoadBudget }
  /** When this process last found an audit entry that the service did not write, by `performance.now()`. */
  auditAlarmAt: number | null
  /** Whether Temporal did not answer when this process last asked (delivery/temporal-watch.ts). Only the API asks. */
  isTemporalAway: boolean
  /** When the database last refused to write although it answers, by `performance.now()`, and why. */
  writeTrouble: { readonly at: number; readonly reason: WriteRefusal } | null
  /** Called after a commit that wrote outbox rows; the relay sets it. */
  onOutbox: () => void
  close(): Promise<void>
}
