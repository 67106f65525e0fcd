import { sql } from 'kysely'
import { addItems, countFailures, keepSeenItems } from '../../db/queries/triggers.ts'
import type { Db } from '../../db/schema/index.ts'
import { runEnded, type RunStatus } from '../../contract/status.ts'
import type { Json, Label } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { ChangingRuns } from '../context.ts'
import { DomainError } from '../errors.ts'
import { acceptRun, type Firing } from '../runs/start/accept.ts'
import { readOutputs, ResourceExhausted } from '../runs/values/outputs.ts'
import { StillWaits, waitForThaw, whyNot } from '../runs/start/unattended.ts'
import {
  appendFiring,
  callerOf,
  hasFailedTooOften,
  mostFailures,
  newFiring,
  pauseFailing,
  settleFiring,
  startFiring,
  type FiringRow,
} from './firings.ts'
import { itemsIn, mostStarted, type PolledItem } from './poll-items.ts'
import { pollStep } from './poll-settings.ts'
import { isPoll, type PollRow } from './trigger-view.ts'

/*
 * A poll is a run of the trigger's own workflow, so the rules decide its call, and it has a receipt. One transaction starts
 * it and moves the due time. When it has ended, one transaction writes down the new items with a firing each; then each
 * firing becomes a run in one more. If the process dies between two of them, the next turn goes on with the rows.
 */

/** Days for which an item is remembered after it has left the list. */
export const rememberedDays = 30

/** Items that a trigger remembers. Those that left the list first are forgotten first. */
export const mostRemembered = 10_000

/** Seconds. The end of the run wakes the lane; this is for a run that waits for a person, and for a quota. */
const look = { first: 2, most: 30 }

/** Seconds. A poll that fails is tried again later and later, but at least so often. */
const longestPause = 3_600

/** Returns in how many seconds to look again; null: at the due time. */
export async function pollTurn(
  context: ChangingRuns,
  row: PollRow,
  signal: AbortSignal,
): Promise<number | null> {
  if (row.poll_run_id !== null) {
    const poll = await readPoll(context.db, row.poll_run_id)
    if (!runEnded(poll.status)) {
      if (poll.is_held) await noteHeld(context, row)
      return Math.min(Math.max(poll.age / 2, look.first), look.most)
    }
    await take(context, row, poll)
  }
  if (await startItems(context, row, signal)) return look.most
  if (await hasFailedTooOften(context.db, row)) {
    await pauseFailing(context, row)
    return null
  }
  return (await begin(context, row)) ? look.first : null
}

/** Commit point `run.accept`. True if a poll has begun, or must wait. */
async function begin(context: ChangingRuns, row: PollRow): Promise<boolean> {
  let isDue = true
  let isKept = false
  const firing: Firing = {
    pollOf: row.id,
    async earlierRun(tx) {
      const now = await readNow(tx, row)
      isDue = now !== null && now.poll_run_id === null && now.next_due_at <= tx.now
      if (!isDue) throw new DomainError('conflict', 'the poll is not due')
      waitForThaw(tx)
      return null
    },
    async keep(tx, runId, denied) {
      isKept = true
      if (denied !== null) return failPoll(tx, row, whyNot(denied), null)
      await tx.trx
        .updateTable('triggers')
        .set({ poll_run_id: runId, next_due_at: later(tx, row.settings.every_seconds) })
        .where('id', '=', row.id)
        .execute()
    },
  }
  try {
    const caller = await callerOf(context.db, row)
    await acceptRun(context, { caller, workflowId: row.poll_workflow_id, inputs: {}, firing })
    return true
  } catch (error) {
    if (error instanceof StillWaits) return true
    if (!(error instanceof DomainError) || error.code === 'unavailable') throw error
    if (isDue && !isKept)
      await context.combiner.run(row.organization_id, 'trigger.plan', (tx) =>
        failPoll(tx, row, whyNot(error), null),
      )
    return false
  }
}

/** null if the trigger was changed, paused or deleted since its turn began. */
async function readNow(tx: ChainTx, row: PollRow): Promise<PollRow | null> {
  const now = await tx.trx.selectFrom('triggers').selectAll().where('id', '=', row.id).executeTakeFirst()
  const isSame = now?.paused_reason === null && now.active_since.getTime() === row.active_since.getTime()
  return isSame && isPoll(now) ? now : null
}

const later = (tx: ChainTx, seconds: number): Date => new Date(tx.now.getTime() + seconds * 1_000)

/** Call it under the lock. The next poll comes later after each failure. */
async function failPoll(tx: ChainTx, row: PollRow, reason: string, runId: string | null): Promise<void> {
  await endHeld(tx, row)
  await tx.trx
    .insertInto('trigger_firings')
    .values({ ...newFiring(tx, row), state: 'failed', reason, poll_run_id: runId })
    .execute()
  appendFiring(tx, row, 'failed', { reason })
  const [counted] = await tx.send(countFailures(row.id, row.active_since, mostFailures))
  const { every_seconds: every } = row.settings
  const pause = Math.min(every * 2 ** ((counted?.failures ?? 1) - 1), Math.max(every, longestPause))
  await tx.trx
    .updateTable('triggers')
    .set({ poll_run_id: null, next_due_at: later(tx, pause) })
    .where('id', '=', row.id)
    .execute()
}

interface Poll {
  readonly id: string
  readonly status: RunStatus
  readonly status_reason: string
  readonly removed: boolean
  readonly labels: readonly Label[]
  readonly is_held: boolean
  /** In seconds. */
  readonly age: number
}

async function readPoll(db: Db, runId: string): Promise<Poll> {
  const { rows } = await sql<Poll>`
    select r.id, r.status, r.status_reason, r.data_removed_at is not null as removed, s.labels,
           exists (select from approvals where run_id = r.id and status = 'pending') as is_held,
           extract(epoch from clock_timestamp() - r.created_at)::float8 as age
    from runs r join run_steps s on s.run_id = r.id where r.id = ${runId}`.execute(db)
  return rows[0] as Poll
}

/** A firing that waits until a person has decided. It has no item. */
async function noteHeld({ combiner }: ChangingRuns, row: PollRow): Promise<void> {
  const isHeld = (tx: ChainTx) =>
    tx.trx
      .selectFrom('trigger_firings')
      .select('id')
      .where('trigger_id', '=', row.id)
      .where('state', '=', 'waiting')
      .where('delivery_id', 'is', null)
      .executeTakeFirst()
  await combiner.run(row.organization_id, 'trigger.plan', async (tx) => {
    const now = await readNow(tx, row)
    if (now === null || now.poll_run_id !== row.poll_run_id || (await isHeld(tx)) !== undefined) return
    const reason = 'the reading call waits for an approval, and no other is made meanwhile'
    await tx.trx
      .insertInto('trigger_firings')
      .values({ ...newFiring(tx, row), state: 'waiting', reason, poll_run_id: now.poll_run_id })
      .execute()
  })
}

const endHeld = (tx: ChainTx, { id }: PollRow) =>
  tx.trx
    .deleteFrom('trigger_firings')
    .where('trigger_id', '=', id)
    .where('state', '=', 'waiting')
    .where('delivery_id', 'is', null)
    .execute()

/** Throws `validation_error` or ResourceExhausted for an output that is no list of items. */
async function readItems(context: ChangingRuns, row: PollRow, poll: Poll): Promise<PolledItem[]> {
  if (poll.removed) throw new ResourceExhausted('the output was removed, because it is old')
  const outputs = await readOutputs(context, poll.id, [pollStep])
  return itemsIn(row.settings, outputs.get(pollStep) ?? null)
}

/** Commit point `trigger.plan`. */
async function take(context: ChangingRuns, row: PollRow, poll: Poll): Promise<void> {
  const found = await itemsOrReason(context, row, poll)
  await context.combiner.run(row.organization_id, 'trigger.plan', async (tx) => {
    const now = await readNow(tx, row)
    if (now === null || now.poll_run_id !== poll.id) return
    if (typeof found === 'string') return failPoll(tx, row, found, poll.id)
    await endHeld(tx, row)
    await keepNew(
      tx,
      now,
      poll.id,
      found.map(({ key }) => key),
    )
    await tx.trx
      .updateTable('triggers')
      .set({ poll_run_id: null, polled_at: tx.now })
      .where('id', '=', row.id)
      .execute()
  })
}

async function itemsOrReason(
  context: ChangingRuns,
  row: PollRow,
  poll: Poll,
): Promise<readonly PolledItem[] | string> {
  if (poll.status !== 'completed') return `the reading call was not made: ${poll.status_reason}`.slice(0, 500)
  try {
    return await readItems(context, row, poll)
  } catch (error) {
    if (error instanceof ResourceExhausted) return error.message
    if (error instanceof DomainError) return whyNot(error)
    throw error
  }
}

async function keepNew(tx: ChainTx, row: PollRow, runId: string, keys: readonly string[]): Promise<void> {
  const known = await tx.send(keepSeenItems(row.id, keys, { rememberedDays, mostRemembered }))
  const seen = new Set(known.map(({ item }) => item))
  const fresh = keys.filter((key) => !seen.has(key))
  if (fresh.length === 0) return
  if (row.polled_at === null && row.settings.first === 'skip') {
    await tx.send(addItems(tx, row.id, fresh))
    const reason = `${fresh.length} items were there at the first poll`
    await tx.trx
      .insertInto('trigger_firings')
      .values({ ...newFiring(tx, row), state: 'skipped', reason, poll_run_id: runId })
      .execute()
    return appendFiring(tx, row, 'skipped', { reason, count: fresh.length })
  }
  const started = fresh.slice(0, mostStarted)
  await tx.send(addItems(tx, row.id, started))
  await tx.trx
    .insertInto('trigger_firings')
    .values(
      started.map((key) => ({
        ...newFiring(tx, row),
        state: 'waiting' as const,
        delivery_id: key,
        poll_run_id: runId,
      })),
    )
    .execute()
}

/** True if some still wait. */
async function startItems(context: ChangingRuns, row: PollRow, signal: AbortSignal): Promise<boolean> {
  const waiting = await context.db
    .selectFrom('trigger_firings')
    .selectAll()
    .where('trigger_id', '=', row.id)
    .where('state', '=', 'waiting')
    .where('delivery_id', 'is not', null)
    .orderBy('id')
    .limit(mostStarted)
    .execute()
  const runId = waiting[0]?.poll_run_id ?? null
  if (runId === null) return false
  const poll = await readPoll(context.db, runId)
  const found = await itemsOrReason(context, row, poll)
  const values = new Map(typeof found === 'string' ? [] : found.map(({ key, value }) => [key, value]))
  const output = (await readOutputs(context, runId, [pollStep])).get(pollStep) ?? null
  for (const firing of waiting) {
    if (signal.aborted) return true
    if (await hasFailedTooOften(context.db, row)) return false
    try {
      await startItem(context, row, firing, { values, output, labels: poll.labels })
    } catch (error) {
      if (error instanceof StillWaits) return true
      throw error
    }
  }
  return false
}

interface Read {
  readonly values: ReadonlyMap<string, Json>
  readonly output: Json
  readonly labels: readonly Label[]
}

async function startItem(
  context: ChangingRuns,
  row: PollRow,
  firing: FiringRow,
  { values, output, labels }: Read,
): Promise<void> {
  const item = values.get(firing.delivery_id ?? '')
  if (item !== undefined) return startFiring(context, row, firing, { values: { item, output }, labels })
  const reason = 'its item was not found again in the output: the poll was changed, or the output removed'
  await settleFiring(context, row, firing, 'failed', reason)
}
