import { sql, type RawBuilder } from 'kysely'

/**
 * The ids of the newest `most` sessions of these organizations that pass the filters. The sessions of each organization
 * are read from the index of the list, newest first. With one condition for all organizations, PostgreSQL would often
 * read the sessions of the whole installation until it has found enough. It would do so also for `organization_id = o.id`
 * in place of `between`, because then the index of the ids has the same order.
 * @param after only sessions before this id; null for the newest ones
 */
export const newestSessionIds = ({
  organizationIds,
  filters,
  after,
  most,
}: {
  readonly organizationIds: readonly string[]
  readonly filters: Readonly<Partial<Record<'status' | 'user_id' | 'session_id', string | undefined>>>
  readonly after: string | null
  readonly most: number
}): RawBuilder<string> => {
  const { status = null, user_id: userId = null, session_id: sessionId = null } = filters
  const conditions = [
    ...(status === null ? [] : [sql`and s.status = ${status}`]),
    ...(userId === null ? [] : [sql`and s.user_id = ${userId}`]),
    ...(sessionId === null ? [] : [sql`and s.session_id = ${sessionId}`]),
    ...(after === null ? [] : [sql`and s.id < ${after}`]),
  ]
  return sql`(
  select newest.id
  from unnest(${[...organizationIds]}::text[]) as o (id)
  cross join lateral (
    select s.id from agent_sessions s
    where s.organization_id between o.id and o.id ${sql.join(conditions, sql` `)}
    order by s.organization_id, s.id desc limit ${most}) as newest
  order by newest.id desc limit ${most})`
}
