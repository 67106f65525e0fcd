import type { Db } from '../../db/schema/index.ts'
import { inOneLine } from '../../policy/text.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { Caller } from './identity.ts'

/*
 * A freeze denies every call (policy/decide.ts), and what could send a request to another server: a new connection, and
 * the test of a webhook (docs/policies.md).
 */

export function requireThawed(tx: ChainTx): void {
  refuse(tx.policy.frozen)
}

/** As `requireThawed`, before the first request leaves. Call that too, in the transaction that saves the result. */
export async function requireThawedNow(
  db: Db,
  { organizationId, userId }: Pick<Caller, 'organizationId' | 'userId'>,
): Promise<void> {
  const head = await db
    .selectFrom('chain_head')
    .innerJoin('memberships', 'memberships.organization_id', 'chain_head.organization_id')
    .select('frozen')
    .where('chain_head.organization_id', '=', organizationId)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  refuse(head?.frozen ?? null)
}

function refuse(reason: string | null): void {
  if (reason === null) return
  const because = reason.trim() === '' ? '' : ` (${inOneLine(reason.trim())})`
  throw new DomainError(
    'conflict',
    `the organization is frozen${because}: try again when an owner has ended the freeze`,
  )
}
