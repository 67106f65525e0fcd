import { sql } from 'kysely'
import { wakeLanes } from '../../../db/queries/lanes.ts'
import { countRerunItems, readMadeAgainAs } from '../../../db/queries/reruns.ts'
import { roleIn, type Caller } from '../../access/identity.ts'
import type { ChangingRuns, Telling } from '../../context.ts'
import { DomainError } from '../../errors.ts'
import type { Rest, Sender } from '../../lanes/runner.ts'
import type { Firing } from './accept.ts'
import { rerun } from './rerun.ts'
import { endRerun, type RerunRow } from './reruns.ts'
import { StillWaits, waitForThaw, whyNot } from './unattended.ts'

/*
 * A request to make many runs again has a lane. Each turn starts a few of its runs. A new run and its place in the list
 * are saved in one transaction, so a turn that another process does again starts nothing twice.
 */

/** So many of its runs go on at a time, because the organization's other runs need workers too. */
const mostOpen = 20
const ofTurn = 10
/** After so many turns in a row that failed unexpectedly, the run at which they failed is refused. */
const mostFailures = 5
/** Seconds until the next look. */
const pauses = { next: 1, quota: 60, frozen: 15 }

export const rerunSender = (context: ChangingRuns & Telling): Sender => ({
  kind: 'rerun',
  trouble: 'runs could not be made again',
  prepare: () =>
    wakeLanes(
      sql`select 'rerun', id, organization_id, clock_timestamp() from reruns r
          where ended_at is null and not exists (select from lanes l where l.kind = 'rerun' and l.id = r.id)`,
    ).execute(context.db),
  async work({ id, failures }, signal): Promise<Rest> {
    const row = await context.db.selectFrom('reruns').selectAll().where('id', '=', id).executeTakeFirst()
    if (row === undefined || row.ended_at !== null) return { dueIn: null, isDone: true }
    if (row.expires_at < new Date()) return end(context, row, 'it was not started in time')
    const { rows } = await countRerunItems(id).execute(context.db)
    const [{ waiting, open } = { waiting: 0, open: 0 }] = rows
    if (waiting === 0) return end(context, row, null)
    const caller = await callerOf(context, row)
    if (caller === null) return end(context, row, 'the person who asked for it is no longer there')
    const items = await context.db
      .selectFrom('rerun_items')
      .select(['run_id', 'position', 'version'])
      .where('rerun_id', '=', id)
      .where('state', '=', 'waiting')
      .orderBy('position')
      .limit(Math.max(0, Math.min(ofTurn, mostOpen - open)))
      .execute()
    for (const item of items) {
      if (signal.aborted) return { dueIn: 0 }
      try {
        await startOne(context, row, caller, item)
      } catch (error) {
        if (error instanceof StillWaits || error instanceof DomainError) return stop(context, row, error)
        // A run whose data cannot be read, for example, must not keep back the others for ever.
        if (failures < mostFailures) throw error
        await refuse(context, row, item, 'it failed unexpectedly: ask the operator, whose log says why')
      }
    }
    if (row.reason !== null) await say(context, row, null)
    return { dueIn: items.length === ofTurn ? 0 : pauses.next }
  },
})

/** The rights are checked under the lock, for each run. null: no longer a member. */
async function callerOf({ db }: ChangingRuns, row: RerunRow): Promise<Caller | null> {
  const { id, organization_id: organizationId, requested_by: userId, api_key_id: keyId } = row
  const role = await roleIn(db, userId, organizationId)
  if (role === null) return null
  const { email, made_by: madeBy } = await db
    .selectFrom('users as u')
    .leftJoin('api_keys as k', (join) => join.onRef('k.user_id', '=', 'u.id').on('k.id', '=', keyId))
    .leftJoin('service_accounts as s', 's.id', 'u.id')
    .select(['u.email', sql<string | null>`case when s.id is not null then k.created_by end`.as('made_by')])
    .where('u.id', '=', userId)
    .executeTakeFirstOrThrow()
  return {
    userId,
    email,
    organizationId,
    role,
    keyId,
    keyMadeBy: madeBy,
    sessionId: null,
    boundTo: row.bound ? organizationId : null,
    ...(keyId === null ? { rerun: { id } } : {}),
    scopes: ['runs:write'],
    needs: { scope: 'runs:write', role: 'member' },
    ip: null,
  }
}

interface Item {
  readonly run_id: string
  readonly position: number
  readonly version: number
}

/** Throws what concerns all runs. What concerns this one is kept as the reason why it was refused. */
async function startOne(
  context: ChangingRuns,
  { id, options }: RerunRow,
  caller: Caller,
  { run_id: runId, position, version }: Item,
): Promise<void> {
  const firing: Firing = {
    async earlierRun(tx) {
      const now = await tx.trx
        .selectFrom('rerun_items')
        .select(['state', 'new_run_id'])
        .where('rerun_id', '=', id)
        .where('position', '=', position)
        .executeTakeFirst()
      if (now?.new_run_id) return now.new_run_id
      if (now?.state !== 'waiting') throw new DomainError('conflict', 'it has ended')
      waitForThaw(tx)
      const [other] = await tx.send(readMadeAgainAs(runId))
      if (other !== undefined)
        throw new DomainError('conflict', `it was made again already, as \`${other.id}\``)
      return null
    },
    async keep(tx, newRunId, denied) {
      if (denied !== null) return
      await tx.trx
        .updateTable('rerun_items')
        .set({ state: 'started', new_run_id: newRunId })
        .where('rerun_id', '=', id)
        .where('position', '=', position)
        .execute()
    },
  }
  try {
    await rerun(context, {
      caller,
      runId,
      from: options.from,
      version,
      inputs: {},
      onRepeat: options.on_repeat,
      unknownHappened: null,
      firing,
    })
  } catch (error) {
    if (!(error instanceof DomainError) || isOfAll(error)) throw error
    await refuse(context, { id }, { position }, whyNot(error))
  }
}

const refuse = (
  { db }: ChangingRuns,
  { id }: Pick<RerunRow, 'id'>,
  { position }: Pick<Item, 'position'>,
  reason: string,
) =>
  db
    .updateTable('rerun_items')
    .set({ state: 'refused', reason })
    .where('rerun_id', '=', id)
    .where('position', '=', position)
    .where('state', '=', 'waiting')
    .execute()

/** The rights of the person, or a limit of the organization that all runs meet. */
const isOfAll = ({ code, details }: DomainError): boolean =>
  ofAll.has(code) && !(code === 'quota_exceeded' && ofOne.has(details[0]?.path ?? ''))

/** What one run needs, and the next one may not. */
const ofOne: ReadonlySet<string> = new Set(['storage_mb', 'pending_approvals'])

const ofAll: ReadonlySet<string> = new Set([
  'unauthenticated',
  'missing_scope',
  'mfa_required',
  'sso_required',
  'quota_exceeded',
  'unavailable',
])

async function stop(context: ChangingRuns, row: RerunRow, error: StillWaits | DomainError): Promise<Rest> {
  if (error instanceof StillWaits) {
    await say(context, row, error.message)
    return { dueIn: pauses.frozen }
  }
  if (!(error instanceof DomainError) || error.code === 'unavailable') throw error
  if (error.code !== 'quota_exceeded') return end(context, row, whyNot(error))
  await say(context, row, whyNot(error))
  // Each try is an entry in the audit log.
  return { dueIn: Math.min(Math.max(error.retryAfter ?? 0, pauses.quota), 600) }
}

/** Why nothing starts now. */
const say = ({ db }: ChangingRuns, { id }: RerunRow, reason: string | null) =>
  db.updateTable('reruns').set({ reason }).where('id', '=', id).where('ended_at', 'is', null).execute()

async function end({ combiner }: ChangingRuns, row: RerunRow, reason: string | null): Promise<Rest> {
  await combiner.run(row.organization_id, 'org.change', async (tx) => {
    const open = await tx.trx
      .selectFrom('reruns')
      .select('id')
      .where('id', '=', row.id)
      .where('ended_at', 'is', null)
      .executeTakeFirst()
    const actor = { type: 'system', id: 'reruns' } as const
    if (open !== undefined) await endRerun(tx, row.id, { state: 'refused', reason, actor })
  })
  return { dueIn: null, isDone: true }
}
