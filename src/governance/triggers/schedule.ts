import { sql } from 'kysely'
import { wakeLanes } from '../../db/queries/lanes.ts'
import type { Db } from '../../db/schema/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { ChangingRuns, Telling } from '../context.ts'
import type { Rest, Sender } from '../lanes/runner.ts'
import type { SendMail } from '../service-mail.ts'
import { mostCaughtUp, splitDue } from './due-times.ts'
import { StillWaits } from '../runs/start/unattended.ts'
import {
  appendFiring,
  hasFailedTooOften,
  newFiring,
  pauseFailing,
  settleFiring,
  startFiring,
  tellPaused,
  type FiringRow,
} from './firings.ts'
import { pollTurn } from './poll.ts'
import { isPoll, isSchedule, type ScheduleRow, type TriggerRow } from './trigger-view.ts'

/*
 * A schedule has a lane. At a due time, its turn first writes down what fires and moves the due time, in one transaction;
 * then each firing becomes a run in one more. If the process dies between the two, the next turn goes on with the rows.
 */

/** Seconds between two looks whether the earlier run has ended. */
const queuePause = 3

export function triggerSender(context: ChangingRuns & Telling, mail: SendMail): Sender {
  return {
    kind: 'trigger',
    trouble: 'a trigger could not fire',
    prepare: () =>
      wakeLanes(
        sql`select 'trigger', id, organization_id, next_due_at from triggers t
            where kind <> 'webhook' and paused_reason is null
              and not exists (select from lanes l where l.kind = 'trigger' and l.id = t.id)`,
      ).execute(context.db),
    async work({ id }, signal): Promise<Rest> {
      const row = await readLiving(context.db, id)
      if (row === null) return { dueIn: null, isDone: true }
      if (row.paused_reason !== null) {
        await tellPaused(context, mail, row)
        return { dueIn: null }
      }
      if (isPoll(row)) {
        const waits = await pollTurn(context, row, signal)
        return { dueIn: waits ?? (await untilDue(context.db, id, null)) }
      }
      // The lane of a webhook is only there to tell people.
      if (!isSchedule(row)) return { dueIn: null }
      await plan(context, row)
      const waits = await startWaiting(context, row, signal)
      return { dueIn: await untilDue(context.db, id, waits ? queuePause : null) }
    },
  }
}

/** null if the trigger or its workflow was deleted. */
async function readLiving(db: Db, id: string): Promise<TriggerRow | null> {
  const row = await db
    .selectFrom('triggers as t')
    .innerJoin('workflows as w', 'w.id', 't.workflow_id')
    .selectAll('t')
    .where('t.id', '=', id)
    .where('w.deleted_at', 'is', null)
    .executeTakeFirst()
  return row ?? null
}

async function untilDue(db: Db, id: string, most: number | null): Promise<number | null> {
  const { rows } = await sql<{ seconds: number | null }>`
    select least(extract(epoch from next_due_at - clock_timestamp()), ${most}::float8)::float8 as seconds
    from triggers where id = ${id} and paused_reason is null`.execute(db)
  return rows[0]?.seconds ?? null
}

/** Commit point `trigger.plan`. */
async function plan({ combiner }: ChangingRuns, { id, organization_id }: ScheduleRow): Promise<void> {
  await combiner.run(organization_id, 'trigger.plan', async (tx) => {
    const row = await tx.trx.selectFrom('triggers').selectAll().where('id', '=', id).executeTakeFirst()
    if (row === undefined || !isSchedule(row) || row.paused_reason !== null || row.next_due_at > tx.now)
      return
    const due = splitDue(row.settings, row.next_due_at, tx.now)
    await tx.trx.updateTable('triggers').set({ next_due_at: due.next }).where('id', '=', id).execute()
    if (due.skipped !== null) await skip(tx, row, missedReason(due.skipped), due.skipped)
    const waiting = await countWaiting(tx, id)
    for (const [index, at] of due.fires.entries()) {
      const one = { first: at, last: at, count: 1 }
      if (tx.policy.frozen !== null) await skip(tx, row, 'the organization was frozen', one)
      else if (waiting + index >= mostCaughtUp)
        await skip(tx, row, `${mostCaughtUp} due times waited for an earlier run already`, one)
      else await insert(tx, { ...newFiring(tx, row), due_at: at, state: 'waiting' })
    }
  })
}

interface Skipped {
  readonly first: Date
  readonly last: Date
  readonly count: number | null
}

const missedReason = ({ count }: Skipped): string =>
  count === 1 ? 'nobody was there at the due time' : `nobody was there at ${count ?? 'many'} due times`

async function skip(
  tx: ChainTx,
  row: ScheduleRow,
  reason: string,
  { first, last, count }: Skipped,
): Promise<void> {
  await insert(tx, { ...newFiring(tx, row), due_at: last, state: 'skipped', reason })
  appendFiring(tx, row, 'skipped', {
    reason,
    due_at: first.toISOString(),
    ...(count === 1 ? {} : { until: last.toISOString(), count }),
  })
}

/** A due time has one row. */
const insert = (tx: ChainTx, row: FiringRow) =>
  tx.trx
    .insertInto('trigger_firings')
    .values(row)
    .onConflict((conflict) => conflict.columns(['trigger_id', 'due_at']).doNothing())
    .execute()

async function countWaiting(tx: ChainTx, triggerId: string): Promise<number> {
  const { count } = await tx.trx
    .selectFrom('trigger_firings')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('trigger_id', '=', triggerId)
    .where('state', '=', 'waiting')
    .executeTakeFirstOrThrow()
  return count
}

/** True if some still wait for an earlier run. */
async function startWaiting(context: ChangingRuns, row: ScheduleRow, signal: AbortSignal): Promise<boolean> {
  const waiting = await context.db
    .selectFrom('trigger_firings')
    .selectAll()
    .where('trigger_id', '=', row.id)
    .where('state', '=', 'waiting')
    .orderBy('due_at')
    .limit(mostCaughtUp)
    .execute()
  for (const firing of waiting) {
    if (signal.aborted) return true
    const { overlap } = row.settings
    const isHeld = overlap !== 'allow' && (await hasOpenRun(context.db, row.id))
    if (isHeld && overlap === 'queue') return true
    if (isHeld) {
      await settleFiring(context, row, firing, 'skipped', 'the run of an earlier due time has not ended')
      continue
    }
    if (await hasFailedTooOften(context.db, row)) {
      await pauseFailing(context, row)
      return false
    }
    try {
      await startFiring(context, row, firing, { values: { due_at: (firing.due_at as Date).toISOString() } })
    } catch (error) {
      if (error instanceof StillWaits) return true
      throw error
    }
  }
  return false
}

async function hasOpenRun(db: Db, triggerId: string): Promise<boolean> {
  const { rows } = await sql<{ open: boolean }>`
    select exists (select from trigger_firings f join runs r on r.id = f.run_id
                   where f.trigger_id = ${triggerId} and r.finished_at is null) as open`.execute(db)
  return rows[0]?.open === true
}
