import { sql, type SelectQueryBuilder } from 'kysely'
import { pageOf, readCursor, type Page, type PageRequest } from '../page.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { errorAt } from '../errors.ts'

/** What a tool policy and a role override have in common. */
interface PolicyRow {
  readonly tool_name: string
  readonly role: string
  readonly created_at: Date
}

/** A time in milliseconds, a tool and a role, which have no line breaks. */
const placeForm = /^\d{1,15}\n[^\n]+\n[^\n]*$/
const placeOf = ({ created_at, tool_name, role }: PolicyRow): string =>
  `${created_at.getTime()}\n${tool_name}\n${role}`

/** Newest first, then by tool and role. An organization has a few thousand, so the query needs no index. */
export async function policyPage<DB, TB extends keyof DB, Row extends PolicyRow, T>(
  query: SelectQueryBuilder<DB, TB, Row>,
  { limit, cursor }: PageRequest,
  view: (row: Row) => T,
): Promise<Page<T>> {
  const [time, tool, role] = readCursor(cursor, placeForm)?.split('\n') ?? []
  const place = sql`created_at, tool_name collate "C", role collate "C"`
  const rows = await query
    .$if(time !== undefined, (rest) =>
      rest.where(sql<boolean>`(${place}) < (${new Date(Number(time))}::timestamptz, ${tool}, ${role})`),
    )
    .orderBy(sql`created_at`, 'desc')
    .orderBy(sql`tool_name collate "C"`, 'desc')
    .orderBy(sql`role collate "C"`, 'desc')
    .limit(limit + 1)
    .execute()
  return pageOf(rows, limit, placeOf, view)
}

interface RowLimit {
  readonly most: number
  /** In the message. */
  readonly rows: string
  /** Advice instead of adding a row. */
  readonly instead: string
}

/** Call this under the chain's lock. */
export async function refuseMore(
  tx: ChainTx,
  table: 'tool_policies' | 'role_policy_overrides',
  { most, rows, instead }: RowLimit,
): Promise<void> {
  const [row] = await tx.send(sql<{ count: number }>`
    select count(*) as count from ${sql.table(table)} where organization_id = ${tx.organizationId}`)
  if ((row as { count: number }).count < most) return
  throw errorAt(
    'validation_error',
    '',
    `an organization has at most ${most.toLocaleString('en-US')} ${rows}: delete some first, or ${instead}`,
  )
}
