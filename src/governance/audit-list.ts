import { sql } from 'kysely'
import type { Context } from '../context.ts'

/** Filters of the audit listing (specification, "Organization governance, quota, policies"). */
export interface AuditFilters {
  readonly eventType?: string | undefined
  readonly userId?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

/** One page of whole entries, newest first; `page` counts from 1. `since` is included, `until` is not. */
export async function listAudit(
  context: Context,
  organizationId: string,
  filters: AuditFilters,
  page: number,
  perPage: number,
): Promise<{ events: Record<string, unknown>[]; page: number; per_page: number; total: number }> {
  // Timestamps are fixed-width ISO 8601 in UTC: they compare as text.
  const where = sql.join(
    [
      sql`organization_id = ${organizationId}`,
      ...(filters.eventType === undefined ? [] : [sql`event_type = ${filters.eventType}`]),
      ...(filters.userId === undefined ? [] : [sql`user_id = ${filters.userId}`]),
      ...(filters.since === undefined ? [] : [sql`timestamp >= ${filters.since.toISOString()}`]),
      ...(filters.until === undefined ? [] : [sql`timestamp < ${filters.until.toISOString()}`]),
    ],
    sql` and `,
  )
  const { rows } = await sql<{ total: number; canonical: string | null; hash: string }>`
    with matching as (select seq, canonical, hash from audit_events where ${where}),
         shown as (select * from matching order by seq desc limit ${perPage} offset ${(page - 1) * perPage})
    select counted.total, shown.canonical, shown.hash
    from (select count(*) as total from matching) as counted left join shown on true
    order by shown.seq desc`.execute(context.db)
  const events = rows.flatMap((row) =>
    row.canonical === null
      ? []
      : [{ ...(JSON.parse(row.canonical) as Record<string, unknown>), hash: row.hash }],
  )
  return { events, page, per_page: perPage, total: rows[0]?.total ?? 0 }
}
