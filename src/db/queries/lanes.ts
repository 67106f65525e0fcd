import { sql, type RawBuilder } from 'kysely'

/** A lane with a lease is due when the lease ends: its process is dead. */
const dueAt = sql`coalesce(leased_until, greatest(due_at, paused_until))`

/** The commit does not wait for the disk: a lease that PostgreSQL forgets in a crash is taken again. */
const isQuick = sql`(select set_config('synchronous_commit', 'off', true)) = 'off'`

const inSeconds = (seconds: unknown): RawBuilder<Date> =>
  sql`clock_timestamp() + make_interval(secs => ${seconds}::float8)`

export interface LaneRow {
  readonly kind: string
  readonly id: string
  readonly organization_id: string | null
  readonly message: unknown
  readonly failures: number
  readonly is_ailing: boolean
}

interface Taking {
  readonly kind: string
  /** Only these; null: all. */
  readonly ids: readonly string[] | null
  readonly turn: string
  readonly leaseSeconds: number
  readonly most: number
  readonly mostAiling: number
  /** For all processes together. In a short moment there can be more. null: no limit. */
  readonly mostOfOrganization: number | null
}

/** For one value in the whole statement, PostgreSQL reads the index `lanes_due`: for `clock_timestamp()` it reads all lanes. */
const now = sql`statement_timestamp()`

/** Those that wait longest. While a turn works, `due_at` says only what `wakeLanes` has asked for since its begin. */
export const takeLanes = (taking: Taking): RawBuilder<LaneRow> => sql`
  update lanes set turn = ${taking.turn}, leased_until = ${inSeconds(taking.leaseSeconds)}, due_at = 'infinity'
  where kind = ${taking.kind} and id in (${taking.mostOfOrganization === null ? longestDue(taking) : sharedDue(taking)})
    and ${isQuick}
  returning kind, id, organization_id, message, failures, is_ailing`

const longestDue = ({ kind, ids, most, mostAiling }: Taking): RawBuilder<unknown> => {
  const due = (isAiling: boolean, limit: number) => sql`
    select id from lanes
    where kind = ${kind} and is_ailing = ${sql.lit(isAiling)} and ${dueAt} <= ${now}
      and ${ids === null ? sql`true` : sql`id = any(${ids}::text[])`}
    order by ${dueAt} limit ${limit} for update skip locked`
  return sql`
    with sound as (${due(false, most)}), ailing as (${due(true, mostAiling)})
    select id from sound union all select id from ailing limit ${most}`
}

/** The sound lanes of an organization come first. */
const sharedDue = ({ kind, most, mostAiling, mostOfOrganization }: Taking): RawBuilder<unknown> => sql`
  with busy as (
    select organization_id, count(*) as places from lanes
    where kind = ${kind} and leased_until > ${now} group by organization_id
  ), due as (
    select id, organization_id, is_ailing, ${dueAt} as at,
           row_number() over (partition by organization_id collate "C" order by is_ailing, ${dueAt}) as place
    from lanes where kind = ${kind} and ${dueAt} <= ${now}
  ), shared as (
    select id, is_ailing, at, row_number() over (partition by is_ailing order by at) as of_state
    from due left join busy using (organization_id)
    where place + coalesce(places, 0) <= ${mostOfOrganization}
  )
  select id from lanes
  where kind = ${kind} and ${dueAt} <= ${now} and id in (
    select id from shared where not is_ailing or of_state <= ${mostAiling} order by at limit ${most})
  for update skip locked`

export interface EndedTurn {
  readonly id: string
  readonly turn: string
  /** Seconds. null: nothing waits. */
  readonly due: number | null
  readonly pause: number
  readonly failures: number
  readonly ailing: boolean
  readonly error: string | null
  /** The lane is no longer needed. */
  readonly done: boolean
}

/** Changes nothing for a turn that has lost its lane. */
export const endTurns = (kind: string, ended: readonly EndedTurn[]): RawBuilder<unknown> => sql`
  with ended as (
    select e.* from json_to_recordset(${JSON.stringify(ended)}::json) as e(id text, turn text, due float8, pause float8,
      failures int, ailing boolean, error text, done boolean)
    join lanes l on l.kind = ${kind} and l.id = e.id and l.turn = e.turn
    order by l.id for update of l
  ), gone as (
    delete from lanes where kind = ${kind} and id in (select id from ended where done)
  )
  update lanes l set turn = null, leased_until = null, failures = e.failures, is_ailing = e.ailing, last_error = e.error,
    due_at = least(l.due_at, ${inSeconds(sql`e.due`)}),
    paused_until = case when e.pause > 0 then ${inSeconds(sql`e.pause`)} end
  from ended e where l.kind = ${kind} and l.id = e.id and not e.done`

/** Returns those that their turns still have. */
export const renewTurns = (
  kind: string,
  leaseSeconds: number,
  lanes: readonly { readonly id: string; readonly turn: string }[],
): RawBuilder<{ readonly id: string; readonly turn: string }> => sql`
  update lanes l set leased_until = ${inSeconds(leaseSeconds)}
  from unnest(${lanes.map(({ id }) => id)}::text[], ${lanes.map(({ turn }) => turn)}::text[]) as mine(id, turn)
  where l.kind = ${kind} and l.id = mine.id and l.turn = mine.turn and ${isQuick}
  returning l.id, l.turn`

/**
 * `rows` selects `kind`, `id`, `organization_id` and `due_at`. Makes each lane, or makes it due at that time if it would
 * be later. A pause stays. Two transactions that wake lanes take them in the same order.
 */
export const wakeLanes = (rows: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  insert into lanes as l (kind, id, organization_id, due_at)
  select kind, id, organization_id, min(due_at) from (${rows}) as rows(kind, id, organization_id, due_at)
  group by kind, id, organization_id order by kind, id
  on conflict (kind, id) do update set due_at = least(l.due_at, excluded.due_at)`

/** Wakes a lane, and ends its pause: somebody has asked for it. */
export const restartLane = (lane: {
  readonly kind: string
  readonly id: string
  readonly organizationId: string
}): RawBuilder<unknown> => sql`
  insert into lanes (kind, id, organization_id) values (${lane.kind}, ${lane.id}, ${lane.organizationId})
  on conflict (kind, id) do update set due_at = clock_timestamp(), paused_until = null, failures = 0, is_ailing = false`

/** SQL: no other turn has had the lane since. */
export const hasLane = (kind: string, id: string, turn: string): RawBuilder<boolean> => sql`exists (
  select from lanes where kind = ${kind} and id = ${id} and turn = ${turn})`
