import { sql } from 'kysely'
import { measureStoredState } from '../../db/queries/upkeep/measure-state.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../context.ts'
import { statfs } from 'node:fs/promises'
import type { Config } from '../../shared/config.ts'
import { longestWaits, type LongestWait } from '../../db/queries/upkeep/find-longest-waits.ts'

/** Each count, and each search for the longest wait, reads at most this many rows. */
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

export interface FreeSpace {
  readonly folder: 'logs' | 'data'
  readonly bytes: number
}

/**
 * Returns the free bytes on the disks of two folders: the log folder, and the data folder of `npm start`, which
 * contains PostgreSQL's data. Leaves out a folder that is not set or does not exist. A process that was not started by
 * `npm start` usually has neither folder, because it logs to stderr and stores no files.
 */
export async function freeSpace({
  logFolder,
  dataFolder,
}: Pick<Config, 'logFolder' | 'dataFolder'>): Promise<readonly FreeSpace[]> {
  const free = async (folder: FreeSpace['folder'], path: string | null): Promise<readonly FreeSpace[]> => {
    if (path === null) return []
    try {
      const { bavail, bsize } = await statfs(path)
      return [{ folder, bytes: bavail * bsize }]
    } catch {
      return []
    }
  }
  return (await Promise.all([free('logs', logFolder), free('data', dataFolder)])).flat()
}

/** A wait that is shorter than this is not logged, because somebody probably decides soon. */
const leastSeconds = 60
/** The same wait is logged again after this time, so that the newest log file contains it too. */
const againMilliseconds = 3_600_000

/**
 * Returns a function that logs what has waited longest for a person: the oldest approval of each kind, and the oldest
 * unknown outcome. The function logs an item when the item becomes the oldest of its kind, and again once an hour. The
 * metrics contain only the duration of the longest wait, so the log must name the item.
 */
export function longestWaitsTeller({ db, log }: Pick<Context, 'db' | 'log'>): () => Promise<void> {
  const told = new Map<LongestWait['kind'], { readonly what: string; readonly at: number }>()
  return async () => {
    const { rows } = await longestWaits(mostRows).execute(db)
    for (const { kind, ...wait } of rows) {
      if (wait.waiting_seconds < leastSeconds) continue
      const what = wait.approval_id ?? `${wait.run_id}/${wait.step_id}/${wait.item_index}`
      const last = told.get(kind)
      const now = performance.now()
      if (last?.what === what && now < last.at + againMilliseconds) continue
      told.set(kind, { what, at: now })
      const known = Object.entries(wait).filter(([, value]) => value !== null)
      log.info({ kind, ...Object.fromEntries(known) }, 'this waits longest')
    }
  }
}
