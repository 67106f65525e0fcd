import { sql, type RawBuilder, type Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'

/** The periods that a report can cover; `all` covers everything that is stored. */
export const periods = ['7d', '30d', '90d', 'all'] as const
export type Period = (typeof periods)[number]

const days: Readonly<Record<Exclude<Period, 'all'>, number>> = { '7d': 7, '30d': 30, '90d': 90 }

/** Returns the time at which a period begins, by the database's clock; null for `all`. The period ends now. */
export async function startOf(trx: Transaction<Database>, period: Period): Promise<Date | null> {
  if (period === 'all') return null
  const { rows } = await sql<{ start: Date }>`
    select clock_timestamp() - ${days[period]} * interval '1 day' as start`.execute(trx)
  return rows[0]?.start ?? null
}

/**
 * Returns an SQL condition: the row belongs to the organization and was created at or after `since`. If `since` is
 * null, rows of any time satisfy the condition.
 */
export const createdSince = (organizationId: string, since: Date | null): RawBuilder<boolean> =>
  since === null
    ? sql<boolean>`organization_id = ${organizationId}`
    : sql<boolean>`organization_id = ${organizationId} and created_at >= ${since}`
