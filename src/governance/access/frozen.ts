import type { Db } from '../../db/schema/index.ts'
import { inOneLine } from '../../policy/text.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { Caller } from './identity.ts'

/*
 * A freeze denies every call (policy/decide.ts). Besides calls, it refuses what a person could use to send a request
 * to another server: a new connection, and the test of a webhook (docs/policies.md).
 */

/** Throws `conflict` with the reason of the freeze if the organization is frozen. */
export function requireThawed(tx: ChainTx): void {
  refuse(tx.policy.frozen)
}

/**
 * Does the same without the lock, before the first request leaves. Call `requireThawed` too, in the transaction that
 * saves the result. Somebody who is no longer a member learns nothing here: that transaction refuses them.
 */
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
