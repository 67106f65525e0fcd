import { sql, type RawBuilder } from 'kysely'
import type { RerunFilter } from '../schema/runs.ts'

/**
 * The runs of a chain whose values the requester of the newest one sees: their own, and the one from which it was made,
 * which was checked when it was accepted.
 */
const seenRuns = ({ chain, except, of, requester }: Seen): RawBuilder<unknown> => sql`
  (select id from runs where (id = ${chain} or chain = ${chain}) and id <> ${except} and data_removed_at is null
     and (id = ${of} or requested_by = ${requester}))`

interface Seen {
  readonly chain: string
  /** The run that asks. */
  readonly except: string
  readonly of: string
  readonly requester: string
}

export const readRunsOfChain = (chain: string): RawBuilder<{ readonly id: string }> => sql`
  select id from runs where id = ${chain} or chain = ${chain}`

export interface EndedCall {
  readonly run_id: string
  /** The run that has really made the call. */
  readonly made_by: string
  readonly params_hash: string
  readonly output_labels: readonly string[]
}

/** Completed calls of this step and item in earlier runs, the newest first. */
export const readCompletedBefore = (
  given: Seen & { readonly stepId: string; readonly itemIndex: number; readonly most: number },
): RawBuilder<EndedCall> => sql`
  select run_id, coalesce(reused_from, run_id) as made_by, coalesce(revision->>'written', params_hash) as params_hash, output_labels from effects
  where run_id in ${seenRuns(given)} and step_id = ${given.stepId}
    and item_index = ${given.itemIndex} and state = 'completed' and params_hash is not null
  order by finished_at desc limit ${given.most}`

/** The newest call of an earlier run with one of these parameters that was made, as `RUN/STEP/ITEM`. */
export const readMadeBefore = (given: {
  readonly chain: string
  readonly except: string
  readonly tool: string
  readonly hashes: readonly string[]
  readonly unknownHappened: boolean
}): RawBuilder<{ readonly run_id: string; readonly step_id: string; readonly item_index: number }> => sql`
  select run_id, step_id, item_index from effects
  where (params_hash = any(${[...given.hashes]}::text[]) or revision->>'written' = any(${[...given.hashes]}::text[]))
    and tool = ${given.tool}
    and run_id in (select id from runs where (id = ${given.chain} or chain = ${given.chain}) and id <> ${given.except})
    and reused_from is null and (state = 'completed' or (state = 'unknown_outcome' and ${given.unknownHappened}))
  order by finished_at desc nulls first limit 1`

/** What keeps a chain from going on: a run that has not ended, or a call with an unknown outcome. */
export const readOpenInChain = (
  chain: string,
): RawBuilder<{
  readonly open_run: string | null
  readonly unknown: { readonly run_id: string; readonly step_id: string; readonly item_index: number } | null
  readonly runs: number
  readonly unknown_calls: number
  /** The ids of groups that see the values of all of them. */
  readonly readers: readonly string[]
}> => sql`
  with own as (select id, finished_at, readers from runs where id = ${chain} or chain = ${chain})
  select (select id from own where finished_at is null limit 1) as open_run,
    (select json_build_object('run_id', e.run_id, 'step_id', e.step_id, 'item_index', e.item_index)
     from effects e join own on own.id = e.run_id where e.state = 'unknown_outcome' order by e.run_id desc, e.step_id limit 1) as unknown,
    (select count(*)::int from effects e join own on own.id = e.run_id where e.state = 'unknown_outcome') as unknown_calls,
    (select count(*)::int from own) as runs,
    array(select r from own, unnest(own.readers) as r group by r having count(*) = (select count(*) from own)) as readers`

export interface Repeated extends RerunFilter {
  readonly organizationId: string
  /** null: everybody's. */
  readonly requester: string | null
}

/** SQL about the run `r`: it has ended with its data, nobody made it again yet, and the filter holds. */
const isToRepeat = (given: Repeated): RawBuilder<boolean> => sql<boolean>`
  r.organization_id = ${given.organizationId} and poll_of is null and data_removed_at is null and finished_at is not null
    and ${given.run_ids === undefined ? sql`status = ${given.status ?? 'failed'}` : sql`r.id = any(${[...given.run_ids]}::text[])`}
    and ${given.requester === null ? sql`true` : sql`requested_by = ${given.requester}`}
    and ${given.workflow_id === undefined ? sql`true` : sql`workflow_id = ${given.workflow_id}`}
    and ${given.since === undefined ? sql`true` : sql`created_at >= ${given.since}::timestamptz`}
    and ${given.until === undefined ? sql`true` : sql`created_at < ${given.until}::timestamptz`}
    and ${
      given.tool === undefined
        ? sql`true`
        : sql`exists (select from effects e where e.run_id = r.id and e.tool = ${given.tool} and e.state in ('failed', 'denied', 'rejected', 'expired', 'unknown_outcome'))`
    }
    and not exists (select from runs n where n.rerun_of = r.id)`

/** The oldest first, without those that wait in a request already. */
export const runsToRepeat = (given: Repeated, most: number): RawBuilder<{ readonly id: string }> => sql`
  select id from runs r where ${isToRepeat(given)}
    and not exists (select from rerun_items i where i.run_id = r.id and i.state = 'waiting')
  order by id limit ${most}`

/** Few: an organization has few requests that go on. */
export const countWaitingReruns = (given: Repeated): RawBuilder<{ readonly waiting: number }> => sql`
  select count(*)::int as waiting from runs r
  where r.id in (select i.run_id from rerun_items i join reruns q on q.id = i.rerun_id
                 where q.organization_id = ${given.organizationId} and q.ended_at is null and i.state = 'waiting')
    and ${isToRepeat(given)}`

export const openReruns = (organizationId: string): RawBuilder<{ readonly open: number }> => sql`
  select count(*)::int as open from reruns where organization_id = ${organizationId} and ended_at is null`

export interface RerunCounts {
  readonly total: number
  readonly waiting: number
  readonly started: number
  readonly refused: number
  readonly cancelled: number
  /** Those of the new runs that go on, wait for a person, are completed, and ended otherwise. */
  readonly open: number
  readonly held: number
  readonly completed: number
  readonly failed: number
}

export const countRerunItems = (id: string): RawBuilder<RerunCounts> => sql`
  select count(*)::int as total, count(*) filter (where state = 'waiting')::int as waiting,
    count(*) filter (where state = 'started')::int as started, count(*) filter (where state = 'refused')::int as refused,
    count(*) filter (where state = 'cancelled')::int as cancelled,
    count(*) filter (where status in ('queued', 'running'))::int as open,
    count(*) filter (where status in ('paused', 'awaiting_approval'))::int as held,
    count(*) filter (where status = 'completed')::int as completed,
    count(*) filter (where status in ('failed', 'denied', 'rejected', 'expired', 'cancelled'))::int as failed
  from rerun_items i left join runs r on r.id = i.new_run_id where rerun_id = ${id}`

export const removeRerunsOlderThan = (days: number): RawBuilder<unknown> => sql`
  delete from reruns where ended_at < clock_timestamp() - make_interval(days => ${days})`

/** Null: nobody made it again. */
export const readMadeAgainAs = (runId: string): RawBuilder<{ readonly id: string }> => sql`
  select id from runs where rerun_of = ${runId} order by id desc limit 1`
