import { notFound } from './errors.ts'
import type { Context } from '../context.ts'
import type { RunStatus } from '../contract/status.ts'

/** One event of a run's stream (contract section 4, "Events"). */
export interface RunEventView {
  readonly run_id: string
  readonly seq: number
  readonly type: string
  readonly at: string
  readonly [field: string]: unknown
}

/** Most events read at once. */
const pageSize = 500

/**
 * The run's events after `after`, in order, at most 500; read after the run's status and counter, so that a reader who
 * has seen `eventSeq` of an ended run has seen all.
 */
export async function readRunEvents(
  context: Context,
  runId: string,
  after: number,
): Promise<{ status: RunStatus; eventSeq: number; events: RunEventView[] }> {
  const run = await context.db
    .selectFrom('runs')
    .select(['status', 'event_seq'])
    .where('id', '=', runId)
    .executeTakeFirst()
  if (run === undefined) throw notFound('run', runId)
  const rows = await context.db
    .selectFrom('run_events')
    .select(['seq', 'type', 'at', 'data'])
    .where('run_id', '=', runId)
    .where('seq', '>', after)
    .orderBy('seq')
    .limit(pageSize)
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
