import type { Db } from '../../../db/schema/index.ts'
import { notFound } from '../../errors.ts'
import type { RunStatus } from '../../../contract/status.ts'

/** See docs/reference/effects.md, "Events". */
export interface RunEventView {
  readonly run_id: string
  readonly seq: number
  readonly type: string
  readonly at: string
  readonly [field: string]: unknown
}

/** One read returns at most this many events. */
const pageSize = 500

/** One statement reads all, so `eventSeq` of an ended run is the number of its last event. Ascending. */
export async function readRunEvents(
  db: Db,
  runId: string,
  after: number,
  most = pageSize,
): Promise<{ status: RunStatus; eventSeq: number; events: RunEventView[] }> {
  const rows = await db
    .selectFrom('runs as r')
    .leftJoinLateral(
      (from) =>
        from
          .selectFrom('run_events')
          .select(['seq', 'type', 'at', 'data'])
          .where('run_id', '=', runId)
          .where('seq', '>', after)
          .orderBy('seq')
          .limit(Math.min(most, pageSize))
          .as('e'),
      (join) => join.onTrue(),
    )
    .select(['r.status', 'r.event_seq', 'e.seq', 'e.type', 'e.at', 'e.data'])
    .where('r.id', '=', runId)
    .orderBy('e.seq')
    .execute()
  const [run] = rows
  if (run === undefined) throw notFound('run', runId)
  const events = rows.flatMap(({ seq, type, at, data }) =>
    // A run without new events has one row without an event.
    seq === null || type === null || at === null
      ? []
      : [{ ...data, run_id: runId, seq, type, at: at.toISOString() }],
  )
  return { status: run.status, eventSeq: run.event_seq, events }
}
