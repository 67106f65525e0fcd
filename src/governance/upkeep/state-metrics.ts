import { sql } from 'kysely'
import { measureStoredState, longestWaits, type LongestWait } from '../../db/queries/upkeep/measure-state.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context, Reading, Telling } from '../context.ts'
import { statfs } from 'node:fs/promises'
import type { Config } from '../../shared/config.ts'

/** Rows that each count, and each search for the longest wait, reads at most. */
const mostRows = 10_000
/** Other scrapes in this time report the numbers that were read last. */
const keptMilliseconds = 5_000
/** Without an answer in this time, the database counts as down for this scrape. */
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

/** Sets gauges before each scrape. One statement reads all numbers of the database, through indexes. */
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

/** Without an answer, removes the gauges, so that an old number does not look present. */
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

/** For the log folder, and the data folder of `npm start`. Other processes usually have neither. */
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

/** Somebody probably decides a shorter wait soon. */
const leastSeconds = 60
/** So that the newest log file has a long wait too. */
const againMilliseconds = 3_600_000

/** When it becomes the oldest, and again once an hour. The metrics have only the longest wait's duration. */
export function longestWaitsTeller({ db, log }: Reading & Telling): () => Promise<void> {
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
