import { sql } from 'kysely'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'

interface RowLimit {
  readonly most: number
  /** The word for the rows in the error message. */
  readonly rows: string
  /** Advice for the error message: what to do instead of adding a row. */
  readonly instead: string
}

/**
 * Throws `validation_error` if the organization already has `most` rows in the table. Call this function under the
 * chain's lock.
 */
export async function refuseMore(
  tx: ChainTx,
  table: 'tool_policies' | 'role_policy_overrides',
  { most, rows, instead }: RowLimit,
): Promise<void> {
  const [row] = await tx.send(sql<{ count: number }>`
    select count(*) as count from ${sql.table(table)} where organization_id = ${tx.organizationId}`)
  if ((row as { count: number }).count < most) return
  const message = `an organization has at most ${most.toLocaleString('en-US')} ${rows}: delete some first, or ${instead}`
  throw new DomainError('validation_error', message, [{ path: '', message }])
}
