import { sql } from 'kysely'
import { catalog } from '../../catalog/index.ts'
import type { ToolDeclaration } from '../../catalog/tool.ts'
import type { Context } from '../../context.ts'
import { runEnded } from '../../contract/status.ts'
import type { ChainTx } from '../chain-tx.ts'
import { endRun } from './finish.ts'

/** Runs that one pass looks at; the next one is a second later. */
const passSize = 50

/** How long a worker has to end a call in its own words before the run ends without it. */
const graceSeconds = 2

/** Calls that may have taken effect although no outcome says so: their end is waited for. */
const mayHaveActed = sql`(e.state = 'sent' or e.state = 'intent' and e.tool = any(${Object.values(
  catalog,
).flatMap((tool: ToolDeclaration) => (tool.repeat === 'keyed' ? [tool.name] : []))}::text[]))`

/** Whether no call of the run is under way, so that its cancellation can end it in the same transaction. */
export async function isIdle(tx: ChainTx, runId: string): Promise<boolean> {
  const [row] = await tx.send(sql<{ busy: boolean }>`
    select exists(select from effects where run_id = ${runId} and state in ('intent', 'sent')) as busy`)
  return row?.busy === false
}

/**
 * Ends runs that were cancelled and whose workers do not say so: they are slow, dead, or dying of the run. A call that may
 * have acted is waited for; any other one that is under way can act no more once the run has ended (effect.sent). Every
 * worker and API process does this, so that it needs none in particular. Answers how many runs it ended.
 */
export async function endCancelled(context: Context): Promise<number> {
  const { rows } = await sql<{ id: string; organization_id: string }>`
    select r.id, r.organization_id from runs r
    where r.finished_at is null
      and r.cancel_requested_at < clock_timestamp() - make_interval(secs => ${graceSeconds})
      and not exists(select from effects e where e.run_id = r.id and ${mayHaveActed})
    order by r.cancel_requested_at limit ${passSize}`.execute(context.db)
  let ended = 0
  for (const { id, organization_id } of rows) if (await endNow(context, organization_id, id)) ended += 1
  return ended
}

function endNow(context: Context, organizationId: string, runId: string): Promise<boolean> {
  return context.combiner.run(organizationId, 'run.finish', async (tx) => {
    const run = await tx.trx.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow()
    const [acted] = await tx.send(sql`select 1 from effects e where e.run_id = ${runId} and ${mayHaveActed}`)
    if (runEnded(run.status) || acted !== undefined) return false
    await endRun(tx, run, 'cancelled', 'the run was cancelled')
    return true
  })
}
