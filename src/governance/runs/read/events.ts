import type { Db } from '../../../db/schema/index.ts'
import { notFound } from '../../errors.ts'
import type { RunStatus } from '../../../contract/status.ts'

/** One event of a run's stream (docs/reference/effects.md, "Events"). */
export interface RunEventView {
  readonly run_id: string
  readonly seq: number
  readonly type: string
  readonly at: string
  readonly [field: string]: unknown
}

/** One read returns at most this many events. */
const pageSize = 500

/**
 * Reads the run's events with a number above `after`, in order: at most `most`, and never more than 500. The run's
 * status and `eventSeq` are read before the events. So a client that has received event `eventSeq` of an ended run has
 * received all events.
 */
export async function readRunEvents(
  db: Db,
  runId: string,
  after: number,
  most = pageSize,
): Promise<{ status: RunStatus; eventSeq: number; events: RunEventView[] }> {
  const run = await db
    .selectFrom('runs')
    .select(['status', 'event_seq'])
    .where('id', '=', runId)
    .executeTakeFirst()
  if (run === undefined) throw notFound('run', runId)
  const rows = await db
    .selectFrom('run_events')
    .select(['seq', 'type', 'at', 'data'])
    .where('run_id', '=', runId)
    .where('seq', '>', after)
    .orderBy('seq')
    .limit(Math.min(most, pageSize))
    .execute()
  const events = rows.map(({ seq, type, at, data }) => ({
    ...data,
    run_id: runId,
    seq,
    type,
    at: at.toISOString(),
  }))
  return { status: run.status, eventSeq: run.event_seq, events }
}
