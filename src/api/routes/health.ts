import { sql } from 'kysely'
import { z } from 'zod'
import type { WriteRefusal } from '../../db/errors.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../../governance/context.ts'
import { freeSpace } from '../../governance/upkeep/state-metrics.ts'
import { publicRoute } from '../route.ts'

const check = z.enum(['ok', 'down'])
const databaseCheck = z
  .enum(['ok', 'down', 'disk_full', 'read_only'])
  .describe('`disk_full` and `read_only`: it answers, and has refused to write in the last half minute')
const workerCheck = z
  .enum(['ok', 'down', 'unknown'])
  .describe('`unknown`: the database, in which workers report, does not answer or refuses to write')
const diskCheck = z
  .enum(['ok', 'full'])
  .describe('`full`: the disk of the logs, or of the data folder of `npm start`')
const health = z
  .strictObject({
    status: z.enum(['ok', 'degraded']),
    checks: z.strictObject({
      database: databaseCheck,
      temporal: check,
      worker: workerCheck,
      disk: diskCheck,
      audit: z
        .enum(['ok', 'alarm'])
        .describe(
          '`alarm`: an audit log has entries that the service did not write, or a check found that it was changed, or that its kept checkpoint is lost',
        ),
    }),
  })
  .meta({ id: 'Health' })

/** A check that takes longer than this counts as failed. */
const patienceMilliseconds = 2_000
const alarmMilliseconds = 5 * 60_000
/**
 * Every five seconds, a heartbeat writes to the database. If the database refuses to write, the process notes the time.
 * If the noted time is more than this many milliseconds ago, the database accepts writes again.
 */
const troubleMilliseconds = 30_000
/** A disk with fewer free bytes than this counts as full. */
const leastFree = 32 * 1024 * 1024
/** A worker counts as down if it was last seen more than this many seconds ago. */
const workerSeenWithinSeconds = 20

export const getHealth = publicRoute({
  key: 'GET /health',
  summary: 'Whether the service, its database, Temporal and a worker answer',
  tag: 'Service',
  description:
    '503 if the database cannot be reached. `degraded` if the database refuses to write, a disk is full, Temporal or every worker is down, or an audit log was tampered with.',
  responses: { 200: health, 503: health },
  async open(context, services) {
    const [database, temporal, free] = await Promise.all([
      within(() => databaseState(context.db), null),
      within(services.temporal, false),
      within(() => freeBytes(context), Infinity),
    ])
    const trouble = writeTroubleOf(context)
    const checks = {
      database: database === null ? 'down' : (trouble ?? 'ok'),
      temporal: temporal ? 'ok' : 'down',
      worker: workerState(database, trouble),
      disk: free < leastFree ? 'full' : 'ok',
      audit: isAlarmed(context) ? 'alarm' : 'ok',
    }
    const status = Object.values(checks).every((state) => state === 'ok') ? 'ok' : 'degraded'
    return { status: database === null ? 503 : 200, body: { status, checks } }
  },
})

async function databaseState(db: Db): Promise<{ worker: boolean }> {
  const { rows } = await sql<{ worker: boolean }>`
    select exists (select 1 from process_heartbeats where kind = 'worker'
      and seen_at >= clock_timestamp() - make_interval(secs => ${workerSeenWithinSeconds})) as worker`.execute(
    db,
  )
  return { worker: rows[0]?.worker === true }
}

/**
 * Returns whether a chain is in alarm. An entry that the service did not write is an alarm for five minutes: every
 * later attempt to add to that audit log sets `auditAlarmAt` again, at most once a minute.
 */
function isAlarmed({ auditAlarmAt, auditAlarms }: Pick<Context, 'auditAlarmAt' | 'auditAlarms'>): boolean {
  if (auditAlarms.any) return true
  return auditAlarmAt !== null && performance.now() - auditAlarmAt < alarmMilliseconds
}

/**
 * Returns `unknown` if the database is down. Also returns `unknown` if the database refuses to write and no worker was
 * seen. In both cases, the heartbeats of living workers can be missing.
 */
function workerState(
  database: { worker: boolean } | null,
  trouble: WriteRefusal | null,
): 'ok' | 'down' | 'unknown' {
  if (database?.worker === true) return 'ok'
  return database === null || trouble !== null ? 'unknown' : 'down'
}

function writeTroubleOf({ writeTrouble }: Pick<Context, 'writeTrouble'>): WriteRefusal | null {
  const isRecent = writeTrouble !== null && performance.now() - writeTrouble.at < troubleMilliseconds
  return isRecent ? writeTrouble.reason : null
}

async function freeBytes({ config }: Pick<Context, 'config'>): Promise<number> {
  return Math.min(...(await freeSpace(config)).map(({ bytes }) => bytes))
}

/** Returns the result of `check`. Returns `otherwise` if the check fails or takes too long. */
async function within<T>(check: () => Promise<T>, otherwise: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const patience = new Promise<T>((resolve) => {
    timer = setTimeout(resolve, patienceMilliseconds, otherwise)
  })
  try {
    return await Promise.race([(async () => check())().catch(() => otherwise), patience])
  } finally {
    clearTimeout(timer)
  }
}
