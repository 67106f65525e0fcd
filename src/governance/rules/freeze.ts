import { keepMade, type Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'

export interface Freeze {
  readonly frozen: boolean
  readonly reason: string | null
}

/**
 * Freezes the organization (commit point `org.change`). The freeze is saved under the chain's lock, so every later
 * decision in any process denies its call. `askedAt` is the time of the request (`performance.now()`). The audit
 * entry's `duration_ms` is the time from `askedAt` until the lock was taken.
 */
export async function freeze(
  context: Acting,
  caller: Caller,
  reason: string,
  askedAt: number,
  once: Once | null,
): Promise<Freeze> {
  return setFreeze(context, caller, true, { reason, askedAt, once })
}

/** Ends the freeze. From the next decision on, the rules decide again. */
export async function unfreeze(
  context: Acting,
  caller: Caller,
  reason: string,
  askedAt: number,
  once: Once | null,
): Promise<Freeze> {
  return setFreeze(context, caller, false, { reason, askedAt, once })
}

function setFreeze(
  context: Acting,
  caller: Caller,
  frozen: boolean,
  {
    reason,
    askedAt,
    once,
  }: { readonly reason: string; readonly askedAt: number; readonly once: Once | null },
): Promise<Freeze> {
  return runAs(context, caller, 'org.change', async (tx) => {
    const durationMs = Math.round(performance.now() - askedAt)
    await tx.trx
      .updateTable('chain_head')
      .set({ frozen: frozen ? reason : null })
      .where('organization_id', '=', caller.organizationId)
      .execute()
    tx.policyChanged()
    tx.append({
      eventType: frozen ? 'organization.frozen' : 'organization.unfrozen',
      action: frozen ? 'freeze' : 'unfreeze',
      actor: actorOf(caller),
      durationMs,
      metadata: { reason },
    })
    return keepMade(once, tx, { frozen, reason: frozen ? reason : null })
  })
}
