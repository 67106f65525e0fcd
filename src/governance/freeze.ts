import type { Context } from '../context.ts'
import type { Once } from './idempotency.ts'
import { actorOf, type Caller } from './identity.ts'
import { runAs } from './standing.ts'

export interface Freeze {
  readonly frozen: boolean
  readonly reason: string | null
}

/**
 * The organization's kill switch (contract section 8; commit point `org.change`). Saved under the chain's lock: every
 * decision that follows, in any process, is a deny. The audit entry's `duration_ms` is the time from `askedAt`
 * (`performance.now()`) until the lock was held, after which nothing was decided any other way.
 */
export async function freeze(
  context: Context,
  caller: Caller,
  reason: string,
  askedAt: number,
  once: Once | null,
): Promise<Freeze> {
  return change(context, caller, 'organization.frozen', reason, reason, askedAt, once)
}

/** Lets the rules decide again, from the next decision on. */
export async function unfreeze(
  context: Context,
  caller: Caller,
  reason: string,
  askedAt: number,
  once: Once | null,
): Promise<Freeze> {
  return change(context, caller, 'organization.unfrozen', null, reason, askedAt, once)
}

function change(
  context: Context,
  caller: Caller,
  eventType: 'organization.frozen' | 'organization.unfrozen',
  frozen: string | null,
  reason: string,
  askedAt: number,
  once: Once | null,
): Promise<Freeze> {
  return runAs(context, caller, 'org.change', async (tx) => {
    const durationMs = Math.round(performance.now() - askedAt)
    await tx.trx
      .updateTable('chain_head')
      .set({ frozen })
      .where('organization_id', '=', caller.organizationId)
      .execute()
    tx.policyChanged()
    tx.append({
      eventType,
      action: frozen === null ? 'unfreeze' : 'freeze',
      status: 'success',
      actor: actorOf(caller),
      durationMs,
      metadata: { reason },
    })
    const state = { frozen: frozen !== null, reason: frozen }
    await once?.markActed(tx.trx, state)
    return state
  })
}
