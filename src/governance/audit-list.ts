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
  // Two statements: in one, counting would carry every matching entry's text along.
  const [counted, shown] = await Promise.all([
    sql<{ total: number }>`select count(*) as total from audit_events where ${where}`.execute(context.db),
    sql<{ canonical: string; hash: string }>`
      select canonical, hash from audit_events where ${where}
      order by seq desc limit ${perPage} offset ${(page - 1) * perPage}`.execute(context.db),
  ])
  const events = shown.rows.map(({ canonical, hash }) => ({
    ...(JSON.parse(canonical) as Record<string, unknown>),
    hash,
  }))
  return { events, page, per_page: perPage, total: counted.rows[0]?.total ?? 0 }
}
