import { until } from './client.ts'

/** The fields of a run that a show reads while it follows the run to its end. */
export interface Followed {
  readonly status: string
  readonly status_reason: string
  readonly waiting_for: readonly { readonly approval_id: string | null; readonly step_id: string | null }[]
}

const ended = new Set(['completed', 'failed', 'denied', 'rejected', 'expired', 'cancelled'])

/** Reads a run until it has ended. Calls `decide` once for each approval that the run waits for. */
export async function followRun<Run extends Followed>(
  read: () => Promise<Run>,
  decide: (waiting: Run['waiting_for'][number], run: Run) => Promise<void>,
): Promise<Run> {
  const seen = new Set<string | null>()
  const isNew = ({ approval_id }: Followed['waiting_for'][number]) => !seen.has(approval_id)
  for (;;) {
    const run = await until(
      'the run to end or to be held',
      read,
      ({ status, waiting_for }) => ended.has(status) || waiting_for.some(isNew),
    )
    if (ended.has(run.status)) return run
    for (const waiting of run.waiting_for.filter(isNew)) {
      seen.add(waiting.approval_id)
      await decide(waiting, run)
    }
  }
}
