import { sql, type RawBuilder } from 'kysely'

/** Returns a CTE that saves changed approvals. */
export const updateApprovals = (rows: readonly object[]): RawBuilder<unknown> => sql`moved_approvals as (
    update approvals set status = r.status, decided_at = r.decided_at, used_at = r.used_at, used_by = r.used_by,
      superseded_by = r.superseded_by
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, status text,
      decided_at timestamptz, used_at timestamptz, used_by text, superseded_by text)
    where approvals.id = r.id
  )`
