import { sql, type RawBuilder } from 'kysely'
import { catalog } from '../../../tools/index.ts'
import type { ToolDeclaration } from '../../../tools/kit/tool.ts'
import { readDueCancellations } from '../../../db/queries/runs.ts'
import type { Context, Changing } from '../../context.ts'
import { runEnded } from '../../../contract/status.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import { whyCancelled, endRun } from './finish.ts'

/** One pass ends at most this many runs, and organizations take turns. The next pass is a second later. */
const passSize = 50
/** Milliseconds. Runs of other organizations that become due meanwhile do not wait long. */
const passMilliseconds = 500
/** Milliseconds until this process tries again to end a run that it could not end. */
const retryMilliseconds = 30_000
/** This process remembers at most this many runs that it could not end. */
const mostFailed = 1_000

/** Seconds that a worker has to end the calls of a cancelled run. Afterwards the run ends without the worker. */
const graceSeconds = 2

/** Used if a call may have taken effect. Such a run ends within 5 s of its cancellation. */
const graceOfActedSeconds = 3

/** An SQL condition that is true if the call `e` may have taken effect, although it has no outcome. */
const mayHaveActed = sql`(e.state = 'sent' or e.state = 'intent' and (e.sent_at is not null or e.tool = any(${Object.values(
  catalog,
).flatMap((tool: ToolDeclaration) => (tool.repeat === 'keyed' ? [tool.name] : []))}::text[])))`

const isDue = (now: RawBuilder<unknown>) => sql`(r.cancel_requested_at < ${now} - make_interval(secs => case
  when exists(select from effects e where e.run_id = r.id and ${mayHaveActed})
  then ${graceOfActedSeconds} else ${graceSeconds} end::float8))`

/** If this is true, the transaction that cancels the run also ends the run. */
export async function isIdle(tx: ChainTx, runId: string): Promise<boolean> {
  const [row] = await tx.send(sql<{ busy: boolean }>`
    select exists(select from effects where run_id = ${runId} and state in ('intent', 'sent')) as busy`)
  return row?.busy === false
}

type Ending = Changing & Pick<Context, 'sparseLog'>
interface Pass {
  readonly now?: RawBuilder<unknown>
  /** The runs that this process could not end. If absent, every pass tries these runs again. */
  readonly failed?: FailedRuns
}
interface Due {
  readonly id: string
  readonly organization_id: string
}

/** The runs that this process could not end, each with the time of its next try in milliseconds. */
export class FailedRuns {
  readonly #tryAt = new Map<string, number>()
  readonly #clock: () => number

  constructor(clock = () => performance.now()) {
    this.#clock = clock
  }

  note(runId: string): void {
    this.#tryAt.delete(runId)
    this.#tryAt.set(runId, this.#clock() + retryMilliseconds)
    const [oldest] = this.#tryAt.keys()
    if (this.#tryAt.size > mostFailed && oldest !== undefined) this.#tryAt.delete(oldest)
  }

  waiting(): string[] {
    // `note` always appends, so the times in the map ascend. The loop stops at the first run that is not due.
    for (const [runId, tryAt] of this.#tryAt) {
      if (tryAt > this.#clock()) break
      this.#tryAt.delete(runId)
    }
    return [...this.#tryAt.keys()]
  }
}

/**
 * All workers and API processes call this, for runs whose own workers are slow or dead. Afterwards no call of
 * such a run acts, because `effect.sent` refuses it. A call that may have acted has an unknown outcome until
 * its worker records the true one. A run that cannot be ended is logged and tried again later, so that no
 * other run waits.
 */
export async function endCancelled(
  context: Ending,
  { now = sql`clock_timestamp()`, failed = new FailedRuns() }: Pass = {},
): Promise<number> {
  const { rows } = await readDueCancellations({
    isDue: isDue(now),
    except: failed.waiting(),
    most: passSize,
  }).execute(context.db)
  const byOrganization = Map.groupBy(rows, (row) => row.organization_id)
  // The runs of one organization end one after another, because they share a chain. No organization waits for another.
  const ended = await Promise.all(
    [...byOrganization.values()].map((due) => endRuns(context, due, { now, failed })),
  )
  return ended.reduce((sum, each) => sum + each, 0)
}

async function endRuns(
  context: Ending,
  due: readonly Due[],
  { now, failed }: Required<Pass>,
): Promise<number> {
  const end = performance.now() + passMilliseconds
  let ended = 0
  for (const run of due) {
    try {
      if (await endNow(context, run, now)) ended += 1
    } catch (error) {
      failed.note(run.id)
      const fields = { err: error, run_id: run.id, organization_id: run.organization_id }
      context.sparseLog.warn(`ending ${run.organization_id}`, fields, 'a cancelled run could not be ended')
    }
    if (performance.now() > end) break
  }
  return ended
}

function endNow(
  context: Changing,
  { id, organization_id: organizationId }: Due,
  now: RawBuilder<unknown>,
): Promise<boolean> {
  return context.combiner.run(organizationId, 'run.finish', async (tx) => {
    const run = await tx.trx.selectFrom('runs').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    const [due] = await tx.send(sql`select 1 from runs r where r.id = ${id} and ${isDue(now)}`)
    if (runEnded(run.status) || due === undefined) return false
    await endRun(tx, run, 'cancelled', await whyCancelled(tx, run))
    return true
  })
}
