import { newestFreeze, waitsForThaw } from '../../db/queries/audit.ts'
import type { Db } from '../../db/schema/index.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'

export interface Freeze {
  readonly frozen: boolean
  readonly reason: string | null
}

/**
 * Freezes the organization, or ends the freeze. Saved under the chain's lock, so it holds for every later decision in
 * any process. `duration_ms` of the entry is the time from `askedAt` (`performance.now()`) until the lock was taken.
 */
export async function setFreeze(
  context: Acting,
  caller: Caller,
  frozen: boolean,
  given: { readonly reason: string; readonly askedAt: number; readonly once: Once | null },
): Promise<Freeze> {
  const { reason, askedAt, once } = given
  return runAs(context, caller, 'org.change', async (tx) => {
    const durationMs = Math.round(performance.now() - askedAt)
    await tx.trx
      .updateTable('chain_head')
      .set({ frozen: frozen ? reason : null })
      .where('organization_id', '=', caller.organizationId)
      .execute()
    const before = tx.policy.frozen
    tx.policyChanged()
    tx.append({
      eventType: frozen ? 'organization.frozen' : 'organization.unfrozen',
      action: frozen ? 'freeze' : 'unfreeze',
      actor: actorOf(caller),
      durationMs,
      metadata: { reason, before },
    })
    return keepMade(once, tx, { frozen, reason: frozen ? reason : null })
  })
}

export interface FreezeView extends Freeze {
  readonly changed: {
    readonly at: string
    /** null if the account was deleted. */
    readonly by: string | null
    readonly reason: string
  } | null
  readonly waiting: {
    readonly approvals: number
    readonly trigger_starts: number
    readonly rerun_starts: number
  }
}

/** With who froze it last, or ended the freeze, and what waits now. */
export async function readFreeze(db: Db, organizationId: string): Promise<FreezeView> {
  const [head, { rows: changes }, { rows: waiting }] = await Promise.all([
    db
      .selectFrom('chain_head')
      .select(['frozen', 'pending_approvals'])
      .where('organization_id', '=', organizationId)
      .executeTakeFirstOrThrow(),
    newestFreeze(organizationId).execute(db),
    waitsForThaw(organizationId, mostCounted).execute(db),
  ])
  return {
    frozen: head.frozen !== null,
    reason: head.frozen,
    changed: changes[0] ?? null,
    waiting: {
      approvals: head.pending_approvals,
      ...(waiting[0] ?? { trigger_starts: 0, rerun_starts: 0 }),
    },
  }
}

/** The most that is counted of each kind. */
export const mostCounted = 1_000
