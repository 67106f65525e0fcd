import { sql } from 'kysely'
import { catalog } from '../../../catalog/index.ts'
import type { ToolDeclaration } from '../../../catalog/tool.ts'
import type { Context } from '../../context.ts'
import { runEnded } from '../../../contract/status.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import { whyCancelled } from './cancelled-by.ts'
import { endRun } from './finish.ts'

/** The most runs that one pass ends; the next pass is a second later. */
const passSize = 50

/** Seconds that a worker has to end its calls, before the run ends without it. */
const graceSeconds = 2

/** Like `graceSeconds`, for a run with a call that may have taken effect. Such a run ends within 5 s in all. */
const graceOfActedSeconds = 3

/** Whether the call `e` may have taken effect, although it has no outcome. */
const mayHaveActed = sql`(e.state = 'sent' or e.state = 'intent' and (e.sent_at is not null or e.tool = any(${Object.values(
  catalog,
).flatMap((tool: ToolDeclaration) => (tool.repeat === 'keyed' ? [tool.name] : []))}::text[])))`

/** Whether the run `r` was cancelled so long ago that it ends now. */
const isDue = sql`(r.cancel_requested_at < clock_timestamp() - make_interval(secs => case
  when exists(select from effects e where e.run_id = r.id and ${mayHaveActed})
  then ${graceOfActedSeconds} else ${graceSeconds} end::float8))`

/** Whether no call of the run is in progress, so its cancellation can end it in the same transaction. */
export async function isIdle(tx: ChainTx, runId: string): Promise<boolean> {
  const [row] = await tx.send(sql<{ busy: boolean }>`
    select exists(select from effects where run_id = ${runId} and state in ('intent', 'sent')) as busy`)
  return row?.busy === false
}

/**
 * Ends cancelled runs whose workers are slow or dead and have not ended the runs. No call of such a run acts
 * afterwards (effect.sent). A call that may have acted gets an unknown outcome, until its worker records the true one.
 * All workers and API processes do this, so no particular process is needed. Returns the number of ended runs.
 */
export async function endCancelled(context: Pick<Context, 'combiner' | 'db'>): Promise<number> {
  const { rows } = await sql<{ id: string; organization_id: string }>`
    select r.id, r.organization_id from runs r
    where r.finished_at is null and r.cancel_requested_at is not null and ${isDue}
    order by r.cancel_requested_at limit ${passSize}`.execute(context.db)
  let ended = 0
  for (const { id, organization_id } of rows) if (await endNow(context, organization_id, id)) ended += 1
  return ended
}

function endNow(context: Pick<Context, 'combiner'>, organizationId: string, runId: string): Promise<boolean> {
  return context.combiner.run(organizationId, 'run.finish', async (tx) => {
    const run = await tx.trx.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow()
    const [due] = await tx.send(sql`select 1 from runs r where r.id = ${runId} and ${isDue}`)
    if (runEnded(run.status) || due === undefined) return false
    await endRun(tx, run, 'cancelled', await whyCancelled(tx, run))
    return true
  })
}
