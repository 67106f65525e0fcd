import { sql } from 'kysely'
import { z } from 'zod'
import type { Context } from '../../context.ts'
import { publicRoute } from '../route.ts'

const check = z.enum(['ok', 'down'])
const health = z
  .strictObject({
    status: z.enum(['ok', 'degraded']),
    checks: z.strictObject({
      database: check,
      temporal: check,
      worker: check,
      audit: z.enum(['ok', 'alarm']).describe('`alarm`: a chain holds what the service did not write'),
    }),
  })
  .meta({ id: 'Health' })

/** A check that has no answer by then counts as failed. */
const patienceMilliseconds = 2_000
const alarmMilliseconds = 5 * 60_000
/** A worker that has not been seen for longer is not there. */
const workerSeenWithinSeconds = 20

export const getHealth = publicRoute({
  key: 'GET /health',
  summary: 'Whether the service and what it stands on answer',
  tag: 'Service',
  description:
    '503 when the database is away; `degraded` when Temporal or every worker is, or an audit log was tampered with.',
  responses: { 200: health, 503: health },
  async open(context, services) {
    const [database, temporal] = await Promise.all([
      within(() => databaseState(context), null),
      within(services.temporal, false),
    ])
    const checks = {
      database: database === null ? 'down' : 'ok',
      temporal: temporal ? 'ok' : 'down',
      worker: database?.worker === true ? 'ok' : 'down',
      audit: isAlarmed(context) ? 'alarm' : 'ok',
    }
    const status = Object.values(checks).every((state) => state === 'ok') ? 'ok' : 'degraded'
    return { status: database === null ? 503 : 200, body: { status, checks } }
  },
})

async function databaseState(context: Context): Promise<{ worker: boolean }> {
  const { rows } = await sql<{ worker: boolean }>`
    select exists (select 1 from process_heartbeats where kind = 'worker'
      and seen_at >= clock_timestamp() - make_interval(secs => ${workerSeenWithinSeconds})) as worker`.execute(
    context.db,
  )
  return { worker: rows[0]?.worker === true }
}

/** The alarm is raised again every minute while somebody tries to save; it is over when nobody meets it any more. */
function isAlarmed({ auditAlarmAt }: Context): boolean {
  return auditAlarmAt !== null && performance.now() - auditAlarmAt < alarmMilliseconds
}

/** What the check finds, or `otherwise` when it fails or takes too long. */
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
