import { sql } from 'kysely'
import type { Reading } from '../context.ts'
import { hasPart, readPage, type Page, type PageRequest } from '../page.ts'

/** What a rule has decided lately. */
export interface RuleCounts {
  readonly id: string
  readonly held: number
  readonly denied: number
}

export const countedDays = 30
/** A rule is counted so far: a page of rules reads no more rows than this, for each of them. */
export const mostCounted = 1_000

/** For the same rules as a page of their list with this limit, cursor and search. A rule in shadow decides nothing. */
export function countByRule(
  { db }: Reading,
  organizationId: string,
  page: PageRequest,
  search?: string,
): Promise<Page<RuleCounts>> {
  const since = sql`now() - make_interval(days => ${countedDays})`
  const query = db
    .selectFrom('rules as r')
    .select([
      'r.id',
      sql<number>`(select count(*)::int from (
        select from approvals a where a.organization_id = ${organizationId} and a.rule_id = r.id
          and a.created_at > ${since} limit ${mostCounted}) as held)`.as('held'),
      sql<number>`(select count(*)::int from (
        select from decisions d where d.organization_id = ${organizationId} and d.rule_id = r.id
          and d.verdict = 'deny' and d.decided_at > ${since} limit ${mostCounted}) as denied)`.as('denied'),
    ])
    .where('r.organization_id', '=', organizationId)
    .$if(search !== undefined, (some) => some.where(hasPart(sql`r.name`, search as string)))
  return readPage(db, query, 'rule', page, 'r.id')
}
