import { sql, type Kysely } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { RequestWindowsTable } from '../../db/schema/plumbing.ts'

export type Bucket = RequestWindowsTable['bucket']

/** A window is a calendar minute or day, UTC, by the database's clock. */
const units: Readonly<Record<Bucket, 'minute' | 'day'>> = {
  requests_per_minute: 'minute',
  requests_per_day: 'day',
  authorize_per_minute: 'minute',
}
/** A block is this part of what is left, so that blocks grow small towards the end and little lies idle in a process. */
const part = 8
const largestBlock = 1_000

/** What a process may hand out in one window without asking again. */
export interface Lease {
  /** Names the window. */
  readonly startedAt: string
  readonly granted: number
  /** Handed to all processes, this lease included. */
  readonly taken: number
  readonly millisecondsLeft: number
  /** Epoch seconds. */
  readonly resetAt: number
}

/**
 * Takes a block of the window's requests, after giving `unused` ones of an earlier lease back to their window. The sum
 * of all blocks never exceeds the limit of the lease; what a process that died had taken ends with the window.
 */
export async function leaseBlock(
  db: Kysely<Database>,
  organizationId: string,
  bucket: Bucket,
  limit: number,
  unused: { readonly startedAt: string; readonly count: number } | null,
): Promise<Lease> {
  const block = (base: ReturnType<typeof sql>) =>
    sql`greatest(0, least(${limit}::bigint - ${base}, ${largestBlock}, greatest(1, (${limit}::bigint - ${base}) / ${part})))`
  // Of the row as it is: what is taken of its window, without what comes back.
  const kept = (row: ReturnType<typeof sql>) => sql`greatest(0, ${row}.taken -
    case when ${row}.started_at = ${unused?.startedAt ?? null}::timestamptz then ${unused?.count ?? 0} else 0 end)`
  const [theirs, before] = [kept(sql`r`), kept(sql`old`)]
  const { rows } = await sql<Lease>`
    insert into request_windows as r (organization_id, bucket, started_at, taken)
    values (${organizationId}, ${bucket}, date_trunc(${units[bucket]}, clock_timestamp(), 'UTC'), ${block(sql`0`)})
    on conflict (organization_id, bucket) do update set
      -- Who waited for the row while a new window began comes after it.
      started_at = greatest(r.started_at, excluded.started_at),
      taken = case when r.started_at >= excluded.started_at then ${theirs} + ${block(theirs)} else excluded.taken end
    returning new.started_at::text as "startedAt", new.taken,
      new.taken - case when old.started_at = new.started_at then ${before} else 0 end as granted,
      ceil(extract(epoch from new.started_at + ${`1 ${units[bucket]}`}::interval))::float8 as "resetAt",
      (extract(epoch from new.started_at + ${`1 ${units[bucket]}`}::interval - clock_timestamp()) * 1000)::float8
        as "millisecondsLeft"`.execute(db)
  return rows[0] as Lease
}
