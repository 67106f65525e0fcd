import { sql, type Selectable } from 'kysely'
import { newId } from '../../../contract/ids.ts'
import { restartLane } from '../../../db/queries/lanes.ts'
import {
  countRerunItems,
  countWaitingReruns,
  openReruns,
  removeRerunsOlderThan,
  runsToRepeat,
} from '../../../db/queries/reruns.ts'
import type { Db } from '../../../db/schema/index.ts'
import type { RerunFilter, RerunOptions, RerunsTable } from '../../../db/schema/runs.ts'
import { actorOf, type Caller } from '../../access/identity.ts'
import { requireRole, runAs, sessionEnd } from '../../access/recheck.ts'
import { hasRole } from '../../access/scopes.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import type { Changing, Reading } from '../../context.ts'
import { DomainError } from '../../errors.ts'
import { keepMade, type Once } from '../../idempotency.ts'
import { growAs } from '../../limits/storage.ts'
import { owned, pageOf, readCursor, type Page, type PageRequest } from '../../page.ts'

/*
 * Many runs are made again by one request, for example after an outage. The request names them, and is kept with a row
 * for each run. A worker starts them one after another (rerun-turns.ts), each as `rerun` would.
 */

export const mostRunsOfRerun = 1_000
/** In one organization, at a time. */
export const mostOpenReruns = 5
/** What has not started after so many hours, or at the end of the sign-in that asked for it, never does. */
export const rerunHours = 24
const keptDays = 30
/** A run and its place in the list, as the storage limit counts them. */
const itemBytes = 1_024

export type RerunRow = Selectable<RerunsTable>

export interface ManyRequest {
  readonly filter: RerunFilter
  readonly options: RerunOptions
}

/** Which runs match, the oldest first. `more`: others match too. `waiting`: so many wait in another request already. */
export interface Matched {
  readonly runs: readonly string[]
  readonly more: boolean
  readonly waiting: number
}

/**
 * Only own runs, unless the caller is an admin. A run that was made again already does not match. Throws
 * `insufficient_role`.
 */
export async function matchRuns({ db }: Reading, caller: Caller, filter: RerunFilter): Promise<Matched> {
  const { requested_by: wanted } = filter
  if (wanted !== undefined && wanted !== caller.userId) requireRole(caller.role, 'admin')
  const requester = hasRole(caller.role, 'admin') ? (wanted ?? null) : caller.userId
  const matching = { ...filter, organizationId: caller.organizationId, requester }
  const { rows } = await runsToRepeat(matching, mostRunsOfRerun + 1).execute(db)
  const runs = rows.slice(0, mostRunsOfRerun).map(({ id }) => id)
  const [{ waiting } = { waiting: 0 }] = (await countWaitingReruns(matching).execute(db)).rows
  return { runs, more: rows.length > mostRunsOfRerun, waiting }
}

/** Throws `validation_error` if no run matches, `conflict` above `mostOpenReruns`, and as `matchRuns` and `growAs`. */
export async function createRerun(
  context: Changing,
  caller: Caller,
  { filter, options }: ManyRequest,
  once: Once | null = null,
): Promise<Omit<Matched, 'runs'> & { readonly id: string }> {
  const { runs, more, waiting } = await matchRuns(context, caller, filter)
  if (runs.length === 0)
    throw new DomainError(
      'validation_error',
      waiting > 0
        ? `all runs that match wait in another request already (${waiting}): wait for its end, or cancel it`
        : 'no run matches: only ended runs that were not made again yet, and your own unless you are an admin',
      [{ path: 'filter', message: 'matches no run' }],
    )
  const id = newId('rerun')
  return growAs(context, caller, 'org.change', {
    action: 'create',
    bytes: runs.length * itemBytes,
    async work(tx, now) {
      const { hasFactor } = await now()
      const [{ open } = { open: 0 }] = await tx.send(openReruns(tx.organizationId))
      if (open >= mostOpenReruns)
        throw new DomainError(
          'conflict',
          `${mostOpenReruns} requests of this kind go on already: wait for the end of one, or cancel it`,
        )
      const row = {
        id,
        organization_id: tx.organizationId,
        requested_by: caller.userId,
        api_key_id: caller.keyId,
        with_factor: hasFactor,
        bound: caller.boundTo !== null,
        filter: JSON.stringify(filter),
        options: JSON.stringify(options),
        created_at: tx.now,
        expires_at: sql<Date>`least(${tx.now}::timestamptz + make_interval(hours => ${rerunHours}),
          (select ${sessionEnd} from auth_sessions where id = ${caller.sessionId}))`,
      }
      await tx.trx.insertInto('reruns').values(row).execute()
      await sql`insert into rerun_items (rerun_id, organization_id, position, run_id, state, version)
        select ${id}, ${tx.organizationId}, place, run, 'waiting',
          case when ${options.version === 'latest'} then w.current_version else r.workflow_version end
        from unnest(${runs}::text[]) with ordinality as chosen(run, place)
          join runs r on r.id = run join workflows w on w.id = r.workflow_id`.execute(tx.trx)
      await restartLane({ kind: 'rerun', id, organizationId: tx.organizationId }).execute(tx.trx)
      tx.append({
        eventType: 'rerun.requested',
        action: 'execute',
        actor: actorOf(caller),
        metadata: { rerun_id: id, runs: runs.length, on_repeat: options.on_repeat, from: options.from },
      })
      return keepMade(once, tx, { id, more, waiting })
    },
  })
}

/** What waits never starts; what was started goes on. Throws `not_found`, `insufficient_role` and `conflict`. */
export async function cancelRerun(
  context: Changing,
  caller: Caller,
  id: string,
  once: Once | null = null,
): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx, now) => {
    const row = await tx.trx
      .selectFrom('reruns')
      .select(['requested_by', 'ended_at'])
      .where('id', '=', id)
      .where('organization_id', '=', tx.organizationId)
      .executeTakeFirstOrThrow()
    if (row.requested_by !== caller.userId) requireRole((await now()).role, 'admin')
    if (row.ended_at !== null) throw new DomainError('conflict', 'it has ended already')
    await endRerun(tx, id, { state: 'cancelled', reason: 'cancelled', actor: actorOf(caller) })
    await once?.markActed(tx.trx)
  })
}

interface End {
  /** What becomes of the runs that wait. */
  readonly state: 'cancelled' | 'refused'
  /** null: none waits. */
  readonly reason: string | null
  readonly actor: Parameters<ChainTx['append']>[0]['actor']
}

export async function endRerun(tx: ChainTx, id: string, { state, reason, actor }: End): Promise<void> {
  await tx.trx
    .updateTable('rerun_items')
    .set({ state, reason })
    .where('rerun_id', '=', id)
    .where('state', '=', 'waiting')
    .execute()
  await tx.trx.updateTable('reruns').set({ ended_at: tx.now, reason }).where('id', '=', id).execute()
  const [counts] = await tx.send(countRerunItems(id))
  const isCancelled = state === 'cancelled'
  tx.append({
    eventType: isCancelled ? 'rerun.cancelled' : 'rerun.ended',
    action: isCancelled ? 'cancel' : 'end',
    actor,
    metadata: {
      rerun_id: id,
      started: counts?.started ?? 0,
      refused: counts?.refused ?? 0,
      not_started: counts?.cancelled ?? 0,
      reason,
    },
  })
}

export interface RerunView extends ManyRequest {
  readonly id: string
  readonly organization_id: string
  readonly requested_by: string
  readonly requester_email: string
  readonly status: 'going' | 'ended'
  readonly reason: string | null
  readonly counts: Awaited<ReturnType<typeof countsOf>>
  readonly created_at: string
  readonly expires_at: string
  readonly ended_at: string | null
}

export const rerunRows = owned({
  table: 'reruns',
  kind: 'rerun',
  word: 'rerun',
  async view(row, { db }: Reading): Promise<RerunView> {
    const { email } = await db
      .selectFrom('users')
      .select('email')
      .where('id', '=', row.requested_by)
      .executeTakeFirstOrThrow()
    return {
      id: row.id,
      organization_id: row.organization_id,
      requested_by: row.requested_by,
      requester_email: email,
      status: row.ended_at === null ? 'going' : 'ended',
      reason: row.reason,
      filter: row.filter,
      options: row.options,
      counts: await countsOf(db, row.id),
      created_at: row.created_at.toISOString(),
      expires_at: row.expires_at.toISOString(),
      ended_at: row.ended_at?.toISOString() ?? null,
    }
  },
})

/** `total` are all. Of those that were started: `open`, `held` (they wait for a person), `completed` and `failed`. */
async function countsOf(db: Db, id: string) {
  const { rows } = await countRerunItems(id).execute(db)
  return rows[0] as (typeof rows)[number]
}

export interface RerunItemView {
  readonly run_id: string
  readonly workflow_id: string
  readonly version: number
  readonly state: 'waiting' | 'started' | 'refused' | 'cancelled'
  readonly new_run_id: string | null
  readonly status: string | null
  readonly reason: string | null
}

/** In the order in which they start. */
export async function listRerunItems(db: Db, id: string, page: PageRequest): Promise<Page<RerunItemView>> {
  const after = readCursor(page.cursor, /^\d{1,6}$/)
  const rows = await db
    .selectFrom('rerun_items as i')
    .innerJoin('runs as r', 'r.id', 'i.run_id')
    .leftJoin('runs as n', 'n.id', 'i.new_run_id')
    .select(['i.position', 'i.run_id', 'r.workflow_id', 'i.version', 'i.state'])
    .select(['i.new_run_id', 'n.status', 'i.reason'])
    .where('i.rerun_id', '=', id)
    .where('i.position', '>', Number(after ?? 0))
    .orderBy('i.position')
    .limit(page.limit + 1)
    .execute()
  return pageOf(
    rows,
    page.limit,
    ({ position }) => `${position}`,
    (row) => ({
      run_id: row.run_id,
      workflow_id: row.workflow_id,
      version: row.version,
      state: row.state,
      new_run_id: row.new_run_id,
      status: row.status,
      reason: row.reason,
    }),
  )
}

export async function removeOldReruns(db: Db): Promise<void> {
  await removeRerunsOlderThan(keptDays).execute(db)
}
