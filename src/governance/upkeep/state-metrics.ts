import { sql } from 'kysely'
import { measureStoredState } from '../../db/queries/upkeep.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../context.ts'
import { freeSpace } from './disk-space.ts'

/** Each count reads at most this many rows. */
const mostRows = 10_000
/**
 * The database and the disk are read at most once in this many milliseconds. Other scrapes in this time report the
 * numbers that were read last.
 */
const keptMilliseconds = 5_000
/** If the database does not answer within this time, it counts as down for this scrape. */
const patience = '2s'

interface State {
  readonly runs:
    readonly { readonly status: string; readonly count: number; readonly oldest: number }[] | null
  readonly slot_waits: number
  readonly approvals:
    | readonly {
        readonly kind: string
        readonly age: string
        readonly count: number
        readonly oldest: number
      }[]
    | null
  readonly unknown: number
  readonly outbox: number
  readonly outbox_oldest: number
}

/**
 * Sets gauges before each scrape. The numbers come from this process, the database and the disk. The database and the
 * disk are read at most once in five seconds. One statement reads all numbers of the database. For each number, it
 * reads at most 10,000 rows through indexes.
 */
export function measureState(
  context: Pick<Context, 'combiner' | 'config' | 'db' | 'metrics' | 'pool'>,
): void {
  const { combiner, db, metrics, pool } = context
  let readAt = -Infinity
  metrics.beforeScrape(async () => {
    metrics.connections.set({ state: 'idle' }, pool.idleCount)
    metrics.connections.set({ state: 'used' }, pool.totalCount - pool.idleCount)
    metrics.connectionWaits.set(pool.waitingCount)
    const { waiting, busy } = combiner.load()
    metrics.waitingOperations.set(waiting)
    metrics.busyLanes.set(busy)
    if (performance.now() - readAt < keptMilliseconds) return
    readAt = performance.now()
    const [state] = await Promise.all([read(db).catch(() => null), setDiskFree(context)])
    set(context, state)
  })
}

async function setDiskFree({ config, metrics }: Pick<Context, 'config' | 'metrics'>): Promise<void> {
  for (const { folder, bytes } of await freeSpace(config)) metrics.diskFree.set({ folder }, bytes)
}

/**
 * Sets the gauges. If the database has not answered, removes the gauges, so that an old number does not look like a
 * present number.
 */
function set({ metrics }: Pick<Context, 'metrics'>, state: State | null): void {
  const { openRuns, oldestRun, slotWaits, pendingApprovals, oldestApproval, unknownOutcomes, outbox, oldestMessage } = metrics // prettier-ignore
  metrics.databaseUp.set(state === null ? 0 : 1)
  for (const gauge of [openRuns, oldestRun, pendingApprovals, oldestApproval]) gauge.reset()
  for (const gauge of [slotWaits, unknownOutcomes, outbox, oldestMessage]) gauge.remove()
  if (state === null) return
  for (const { status, count, oldest } of state.runs ?? []) {
    openRuns.set({ status }, count)
    oldestRun.set({ status }, oldest)
  }
  const oldest = new Map<string, number>()
  for (const { kind, age, count, oldest: seconds } of state.approvals ?? []) {
    pendingApprovals.set({ kind, age }, count)
    oldest.set(kind, Math.max(seconds, oldest.get(kind) ?? 0))
  }
  for (const [kind, seconds] of oldest) oldestApproval.set({ kind }, seconds)
  slotWaits.set(state.slot_waits)
  unknownOutcomes.set(state.unknown)
  outbox.set(state.outbox)
  oldestMessage.set(state.outbox_oldest)
}

function read(db: Db): Promise<State> {
  return db.transaction().execute(async (trx) => {
    await sql`select set_config('statement_timeout', ${patience}, true)`.execute(trx)
    const { rows } = await measureStoredState<State>(mostRows).execute(trx)
    return rows[0] as State
  })
}
