import type { Selectable } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { triggerPath } from '../../contract/pages.ts'
import { restartLane } from '../../db/queries/lanes.ts'
import {
  countFailures,
  peopleToTell,
  removeFiringsBeyond,
  removeFiringsOlderThan,
} from '../../db/queries/triggers.ts'
import type { Db } from '../../db/schema/index.ts'
import type { TriggerFiringsTable } from '../../db/schema/triggers.ts'
import type { JsonObject, Label } from '../../policy/types.ts'
import type { Caller } from '../access/identity.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { ChangingRuns, Configured, Telling } from '../context.ts'
import { DomainError } from '../errors.ts'
import { acceptRun, type Firing } from '../runs/start/accept.ts'
import { StillWaits, waitForThaw, whyNot } from '../runs/start/unattended.ts'
import { publicBase } from '../../shared/config.ts'
import { MailText, mailText, type SendMail } from '../service-mail.ts'
import { inputsFor, labelsFor } from './inputs.ts'
import { isSchedule, openKept, type TriggerRow } from './trigger-view.ts'

/* A firing is one occasion of a trigger: a due time, or a delivery. Its row and its run are saved in one transaction. */

/** So many failures in a row pause a trigger. */
export const mostFailures = 10

/** For a trigger: how many ended firings it keeps, and for how many days. All of the last hours are kept. */
export const keptFirings = 1_000
export const keptDays = 30
export const keptHours = 24

/** Acts with the rights of the service account, which are checked under the lock. */
export async function callerOf(db: Db, row: TriggerRow, requestId?: string): Promise<Caller> {
  const { email } = await db
    .selectFrom('users')
    .select('email')
    .where('id', '=', row.service_account)
    .executeTakeFirstOrThrow()
  return {
    userId: row.service_account,
    email,
    organizationId: row.organization_id,
    role: 'member',
    keyId: null,
    sessionId: null,
    boundTo: null,
    trigger: { id: row.id, armedBy: row.armed_by },
    scopes: ['runs:write'],
    needs: { scope: 'runs:write', role: 'member' },
    ip: null,
    ...(requestId === undefined ? {} : { requestId }),
  }
}

/** What expressions read, and the labels that it carries. */
export interface Arrived {
  readonly values: JsonObject
  readonly labels?: readonly Label[]
}

/** Throws what `acceptRun` throws. */
export async function startRun(
  context: ChangingRuns,
  row: TriggerRow,
  arrived: Arrived,
  firing: Firing,
  requestId?: string,
): Promise<string> {
  const { inputs: written } = await openKept(context.sealer, row)
  const inputs = inputsFor(row.kind, written, arrived.values)
  const { runId } = await acceptRun(context, {
    caller: await callerOf(context.db, row, requestId),
    workflowId: row.workflow_id,
    version: row.version ?? undefined,
    timeZone: isSchedule(row) ? row.settings.time_zone : undefined,
    inputs,
    inputLabels: labelsFor(row, inputs, arrived.labels),
    firing,
  })
  return runId
}

/** A firing without a run. */
export function appendFiring(
  tx: ChainTx,
  row: TriggerRow,
  verb: 'skipped' | 'failed',
  metadata: { reason: string; due_at?: string; until?: string; count?: number | null },
): void {
  tx.append({
    eventType: `trigger.${verb}`,
    action: 'fire',
    status: verb,
    actor: { type: 'system', id: 'triggers' },
    workflowId: row.workflow_id,
    metadata: { trigger_id: row.id, name: row.name, ...metadata },
  })
}

/** Ends those that still wait, oldest first. Call it under the lock. */
export async function dropWaiting(tx: ChainTx, row: TriggerRow, reason: string): Promise<void> {
  // The items of a poll are found again, if the trigger goes on and looks for them.
  await tx.trx
    .deleteFrom('trigger_items as i')
    .using('trigger_firings as f')
    .where('i.trigger_id', '=', row.id)
    .whereRef('f.trigger_id', '=', 'i.trigger_id')
    .whereRef('f.delivery_id', '=', 'i.item')
    .where('f.state', '=', 'waiting')
    .execute()
  const dropped = await tx.trx
    .updateTable('trigger_firings')
    .set({ state: 'skipped', reason, delivery_id: null })
    .where('trigger_id', '=', row.id)
    .where('state', '=', 'waiting')
    .returning('due_at')
    .execute()
  for (const { due_at: due } of dropped)
    appendFiring(tx, row, 'skipped', { reason, ...(due === null ? {} : { due_at: due.toISOString() }) })
}

/** A firing that is not a row yet. */
export const newFiring = (tx: ChainTx, row: TriggerRow) => ({
  id: newId('firing'),
  organization_id: tx.organizationId,
  trigger_id: row.id,
  due_at: null,
  delivery_id: null,
  run_id: null,
  reason: null,
  poll_run_id: null,
  created_at: tx.now,
})

export type FiringRow = Selectable<TriggerFiringsTable>

/** Throws StillWaits if it must be tried again later: for a poll over a quota, and if the trigger was changed. */
export async function startFiring(
  context: ChangingRuns,
  row: TriggerRow,
  waiting: FiringRow,
  arrived: Arrived,
): Promise<void> {
  const waits = ({ code }: DomainError): boolean => row.kind === 'poll' && code === 'quota_exceeded'
  const firing: Firing = {
    async earlierRun(tx) {
      const now = await tx.trx
        .selectFrom('trigger_firings')
        .select(['state', 'run_id'])
        .where('id', '=', waiting.id)
        .executeTakeFirst()
      if (now?.run_id) return now.run_id
      if (now?.state !== 'waiting') throw new DomainError('conflict', 'the firing has ended')
      if (await hasChanged(tx.trx, row)) throw changedMeanwhile()
      if (row.kind === 'poll') waitForThaw(tx)
      return null
    },
    keep: async (tx, runId, denied) => {
      if (denied === null) return endFiring(tx, row, waiting, { state: 'started', run_id: runId })
      if (!waits(denied)) return endFiring(tx, row, waiting, { state: 'failed', reason: whyNot(denied) })
      await tx.trx
        .updateTable('trigger_firings')
        .set({ reason: whyNot(denied) })
        .where('id', '=', waiting.id)
        .where('state', '=', 'waiting')
        .execute()
    },
  }
  try {
    await startRun(context, row, arrived, firing)
  } catch (error) {
    // The turn fails, and the next one tries again.
    if (!(error instanceof DomainError) || error.code === 'unavailable') throw error
    if (waits(error)) throw new StillWaits(error.message)
    // What was refused may be about the trigger as it was.
    if (await hasChanged(context.db, row)) throw changedMeanwhile()
    await settleFiring(context, row, waiting, 'failed', whyNot(error))
  }
}

/** Since its turn began. The rest starts in the next turn, as the trigger is then. */
const changedMeanwhile = (): StillWaits => new StillWaits('the trigger was changed')

async function hasChanged(db: Db, { id, updated_at: known }: TriggerRow): Promise<boolean> {
  const now = await db.selectFrom('triggers').select('updated_at').where('id', '=', id).executeTakeFirst()
  return now?.updated_at.getTime() !== known.getTime()
}

export const settleFiring = (
  { combiner }: ChangingRuns,
  row: TriggerRow,
  firing: FiringRow,
  state: 'skipped' | 'failed',
  reason: string,
): Promise<void> =>
  combiner.run(row.organization_id, 'trigger.plan', (tx) => endFiring(tx, row, firing, { state, reason }))

/** Does nothing for a firing that has ended. */
async function endFiring(
  tx: ChainTx,
  row: TriggerRow,
  { id, due_at: due }: FiringRow,
  ended:
    | { readonly state: 'started'; readonly run_id: string }
    | { readonly state: 'skipped' | 'failed'; readonly reason: string },
): Promise<void> {
  const { numUpdatedRows } = await tx.trx
    .updateTable('trigger_firings')
    .set(ended.state === 'started' ? { ...ended, reason: null } : ended)
    .where('id', '=', id)
    .where('state', '=', 'waiting')
    .executeTakeFirst()
  if (numUpdatedRows === 0n || ended.state === 'started') return
  const due_at = due === null ? {} : { due_at: due.toISOString() }
  appendFiring(tx, row, ended.state, { reason: ended.reason, ...due_at })
}

/** Whether the last `mostFailures` firings started nothing, or runs that went wrong. */
export async function hasFailedTooOften(db: Db, { id, active_since }: TriggerRow): Promise<boolean> {
  const { rows } = await countFailures(id, active_since, mostFailures).execute(db)
  return (rows[0]?.failures ?? 0) >= mostFailures
}

/** The people who armed it are told by a turn of its lane (schedule.ts). */
export async function pauseFailing({ combiner }: ChangingRuns, row: TriggerRow): Promise<void> {
  const reason = `${mostFailures} firings in a row failed: find out why in the list of firings, then resume it`
  await combiner.run(row.organization_id, 'org.change', async (tx) => {
    const paused = await tx.trx
      .updateTable('triggers')
      .set({ paused_reason: reason, tells: true })
      .where('id', '=', row.id)
      .where('paused_reason', 'is', null)
      .where('active_since', '=', row.active_since)
      .returning('id')
      .executeTakeFirst()
    if (paused === undefined) return
    await dropWaiting(tx, row, reason)
    await restartLane({ kind: 'trigger', id: row.id, organizationId: row.organization_id }).execute(tx.trx)
    tx.append({
      eventType: 'trigger.paused',
      action: 'pause',
      status: 'paused',
      actor: { type: 'system', id: 'triggers' },
      workflowId: row.workflow_id,
      metadata: { trigger_id: row.id, name: row.name, reason },
    })
  })
}

const mostTold = 20

/** The people who armed it and are still there, or else the owners. At most once, like all mails. */
export async function tellPaused(
  context: Configured & Telling,
  mail: SendMail,
  { id, organization_id, workflow_id, name, paused_reason }: TriggerRow,
): Promise<void> {
  const told = await context.db
    .updateTable('triggers')
    .set({ tells: false })
    .where('id', '=', id)
    .where('tells', '=', true)
    .returning('id')
    .executeTakeFirst()
  if (told === undefined) return
  const { rows } = await peopleToTell(id, mostTold).execute(context.db)
  const text = mailText`Countersign paused the trigger ${name}: ${MailText.sentence(paused_reason ?? '')}. It starts nothing until an admin resumes it:

${MailText.link(publicBase(context.config), triggerPath(workflow_id, id))}
`
  for (const { email } of rows)
    await mail({ to: email, subject: 'A trigger was paused', text }).catch((error: Error) =>
      context.sparseLog.warn(
        `trigger mail ${organization_id}`,
        { err: error, organization_id },
        'a mail about a paused trigger could not be sent',
      ),
    )
}

/** Rows of one statement. */
const batch = 1_000

/** Old ended firings. Processes take different rows. */
export async function removeOldFirings(db: Db): Promise<void> {
  const beyond = removeFiringsBeyond(keptFirings, keptHours, batch)
  for (const remove of [removeFiringsOlderThan(keptDays, batch), beyond])
    for (let removed = BigInt(batch); removed === BigInt(batch);)
      removed = (await remove.execute(db)).numAffectedRows ?? 0n
}
